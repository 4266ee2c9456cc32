"""Intermediate results that one job writes while it passes them on, and later jobs read.

    <directory>/<subtask>-<attempt>-<number>    batches, pickled one after the other
    <directory>/<subtask>.done                  names of the files that make up what a subtask passed on

A file is ended at every checkpoint, so that a restored subtask knows which files to keep.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle

from ..common.errors import ConfigurationError
from ..operators.base import StreamOperator
from ..operators.sources.enumerators import Boundedness
from ..operators.sources.sources import Source, SourceReader
from ..protocol.elements import Batch, CheckpointBarrier
from ..state.descriptors import ListStateDescriptor
from ..state.kinds import ListState


class CacheOperator(StreamOperator):
    """Passes records on, and writes them.

    Args:
        directory: Where to, found by all processes of the job.
    """

    STATE_NAME = "_cached_files"

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._file: BinaryIO | None = None
        self._names: list[str] = []
        self._state: ListState[Any]

    def declare_states(self) -> None:
        self._state = self.context.operator_state.get_list_state(ListStateDescriptor(self.STATE_NAME, None))

    def open(self) -> None:
        self.declare_states()
        self._names = list(self._state.get())
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{self.context.name_with_subtask}: the cache cannot be written: {error}; set "
                f"tidegate.cache.dir to a directory that all processes of the job can write"
            ) from error

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if self._file is None:
            name = f"{self.context.subtask_index}-{self.context.attempt}-{len(self._names)}"
            self._file = (self._directory / name).open("wb")
            self._names.append(name)
        cloudpickle.dump(batch.without_keys(), self._file, protocol=5)
        self.emit(batch)

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        self._end_file()
        self._state.update(self._names)

    def finish(self) -> None:
        self._end_file()
        done = self._directory / f"{self.context.subtask_index}.done"
        done.write_bytes(pickle.dumps(self._names))

    def close(self) -> None:
        self._end_file()
        super().close()

    def _end_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class CacheSource(Source):
    """Reads what the subtasks of a `CacheOperator` wrote."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def validate(self) -> None:
        if not os.path.isdir(self._directory):
            raise ConfigurationError(
                f"the cached records in {self._directory} are gone; call invalidate() on the stream, so that "
                f"the next job makes them again"
            )

    def create_splits(self, parallelism: int) -> list[Any]:
        lists = [pickle.loads(done.read_bytes()) for done in sorted(Path(self._directory).glob("*.done"))]
        return [(os.path.join(self._directory, name), 0) for names in lists for name in names]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _CacheReader(splits)


class _CacheReader(SourceReader):
    """A split is a file, and how many bytes of it were read."""

    def __init__(self, splits: list[tuple[str, int]]) -> None:
        self._splits = list(splits)
        self._file: BinaryIO | None = None

    def poll(self, max_records: int) -> Batch | None:
        while self._splits:
            path, position = self._splits[0]
            if self._file is None:
                self._file = open(path, "rb")  # noqa: SIM115 (it stays open between polls)
                self._file.seek(position)
            try:
                batch: Batch = pickle.load(self._file)
            except EOFError:
                self.close()
                self._splits.pop(0)
                continue
            self._splits[0] = (path, self._file.tell())
            return batch
        return None

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
