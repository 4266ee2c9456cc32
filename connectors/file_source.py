"""A replayable source of Parquet files: one split per file, the position is a row number."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..common.errors import ConfigurationError
from ..operators.base import OperatorContext
from ..operators.enumerators import Boundedness
from ..operators.sources import Source, SourceReader
from ..protocol.elements import Batch
from .file_errors import FileConnectorError, file_errors, local_path


@dataclass(frozen=True, slots=True)
class FileSplit:
    """One file, and the next row to read from it.

    `size_bytes` tells whether the file is still the one that the position was taken in.
    """

    path: str
    size_bytes: int
    row: int = 0


class FileSource(Source):
    """Reads Parquet files row by row; records are tuples of the file's columns.

    The order of a file's rows is kept; files are read in parallel, with no order between them. A file
    must not change while a job or a checkpoint refers to it.

    Args:
        paths: The files; every node must see them under these paths. A reader takes its files one
            after the other, so as many files as subtasks keep all of them busy.
        columns: Columns to read, in this order; all if not given.
        records_per_second: Upper bound for every reader, to replay a recording at a steady pace.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        columns: Sequence[str] | None = None,
        records_per_second: float | None = None,
    ) -> None:
        if not paths:
            raise ConfigurationError("the file source has no files; pass at least one path")
        if records_per_second is not None and records_per_second <= 0:
            raise ConfigurationError(f"records_per_second is {records_per_second}; it must be positive")
        self._paths = [local_path(path) for path in paths]
        self._columns = None if columns is None else list(columns)
        self._records_per_second = records_per_second

    def validate(self) -> None:
        missing = [path for path in self._paths if not os.path.isfile(path)]
        if missing:
            raise ConfigurationError(f"the file source cannot find {', '.join(missing)}")

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_splits(self, parallelism: int) -> list[Any]:
        return [FileSplit(path, os.path.getsize(path)) for path in self._paths]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _FileReader(splits, self._columns, self._records_per_second)


class _FileReader(SourceReader):
    def __init__(
        self, splits: list[FileSplit], columns: list[str] | None, records_per_second: float | None
    ) -> None:
        self._splits = list(splits)
        self._columns = columns
        self._records_per_second = records_per_second
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._emitted = 0

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._now_ms = context.now_ms
        self._started_ms = context.now_ms()

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        if not self._is_due():
            return Batch([])
        split = self._splits[0]
        with file_errors(self._where, "reading", split.path):
            if self._batches is None:
                self._batches = self._open(split, max_records)
            batch = next(self._batches, None)
        if batch is None:
            self._splits.pop(0)
            self._batches = None
            return Batch([])
        self._splits[0] = replace(split, row=split.row + batch.num_rows)
        self._emitted += batch.num_rows
        return Batch(list(zip(*(column.to_pylist() for column in batch.columns))))

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)

    def _is_due(self) -> bool:
        if self._records_per_second is None:
            return True
        elapsed_ms = self._now_ms() - self._started_ms
        return self._emitted * 1_000 <= elapsed_ms * self._records_per_second

    def _open(self, split: FileSplit, batch_size: int) -> Iterator[pa.RecordBatch]:
        size_bytes = os.path.getsize(split.path)
        if size_bytes != split.size_bytes:
            raise FileConnectorError(
                f"{self._where}: {split.path} has {size_bytes} bytes, it had {split.size_bytes} when the "
                f"job began to read it; put the old file back, or start the job without its checkpoint"
            )
        file = pq.ParquetFile(split.path)
        first_group, row = 0, split.row
        while first_group < file.num_row_groups and row >= file.metadata.row_group(first_group).num_rows:
            row -= file.metadata.row_group(first_group).num_rows
            first_group += 1
        groups = range(first_group, file.num_row_groups)
        return _without_first(row, file.iter_batches(batch_size, groups, self._columns))


def _without_first(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)
