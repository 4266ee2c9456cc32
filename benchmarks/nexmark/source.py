"""The events of a run: files that every program reads, and a source of ours."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from tidegate.common import WatermarkStrategy
from tidegate.datastream import DataStream, Source, SourceReader, StreamExecutionEnvironment
from tidegate.operators.columnar.columns import as_timestamps
from tidegate.protocol.elements import Batch

from ..jobs.parts import TimedReader
from .generator import EVENT_SCHEMA, Config, batches, records


def write(folder: Path, config: Config) -> list[pa.RecordBatch]:
    """Write the events in both forms, unless they are there, and return them."""
    columns, rows = path(folder, config, "arrow"), path(folder, config, "pickle")
    if not rows.exists():
        made = list(batches(config))
        folder.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(columns), "wb") as file, pa.ipc.new_file(file, EVENT_SCHEMA) as writer:
            for batch in made:
                writer.write_batch(batch)
        rows.write_bytes(pickle.dumps([event for batch in made for event in records(batch)], 5))
    return read_columns(columns)


def path(folder: Path, config: Config, suffix: str) -> Path:
    """The file with the events as batches (`arrow`) or tuples (`pickle`)."""
    return folder / f"{config.events}-{config.rate}-{config.seed}.{suffix}"


def read_columns(path: Path) -> list[pa.RecordBatch]:
    """The batches of an Arrow file, without reading what nobody looks at."""
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]


class RecordedEvents(Source):
    """Events from a file, as fast as they are taken.

    Args:
        path: Tuples in a `.pickle`, or batches in an `.arrow`, which come with their event times.
        marks_dir: Where the reader leaves its marks.
    """

    def __init__(self, path: str, marks_dir: str) -> None:
        self.path = path
        self.marks_dir = marks_dir

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        kind = _Columns if self.path.endswith(".arrow") else _Records
        return TimedReader(kind(self.path, splits), self.marks_dir)

    def max_source_parallelism(self) -> int | None:
        return 1


class _Reader(SourceReader):
    def __init__(self, path: str, splits: list[int]) -> None:
        self._path = Path(path)
        self._splits = splits

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


class _Records(_Reader):
    def open(self, context: Any) -> None:
        self._events = pickle.loads(self._path.read_bytes())

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits or self._splits[0] >= len(self._events):
            return None
        first = self._splits[0]
        self._splits[0] += max_records
        return Batch(self._events[first : first + max_records])


class _Columns(_Reader):
    def open(self, context: Any) -> None:
        # The first call of `to_numpy` imports pandas, which takes a second.
        self._batches = [
            Batch(batch, as_timestamps(batch["date_time"].to_numpy())) for batch in read_columns(self._path)
        ]

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits or self._splits[0] == len(self._batches):
            return None
        batch = self._batches[self._splits[0]]
        self._splits[0] += 1
        return batch


def stream(env: StreamExecutionEnvironment, path: str, marks_dir: str) -> DataStream:
    """The events as a stream."""
    strategy = WatermarkStrategy.no_watermarks()
    if path.endswith(".arrow"):
        strategy = WatermarkStrategy.for_monotonous_timestamps()
    events = env.from_source(RecordedEvents(path, marks_dir), strategy, "events")
    if path.endswith(".arrow"):
        events.transformation.columns = EVENT_SCHEMA
    return events
