"""A replayable source of files: the position in a checkpoint is a row of a part of a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ...common.errors import ConfigurationError, TidegateError
from ...common.time import Duration
from ...operators.base import OperatorContext
from ...operators.columnar.columns import same_columns, schema_text
from ...operators.sources.enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from ...operators.sources.sources import Source, SourceReader
from ...protocol.elements import Batch, ColumnBatch, RowBatch
from .enumerator import Discovery, FileEnumerator
from .errors import FileConnectorError, file_errors
from .formats import FileFormat, FileSplit, ParquetFormat, Piece, Reading
from .location import Location, locate
from .text_formats import DEFAULT_MAX_LINE_BYTES, TextLineFormat

logger = logging.getLogger(__name__)

DEFAULT_SPLIT_BYTES = 64 << 20
_END = object()
COLUMNS_BATCH_ROWS = 65_536
_PACED_BATCHES_PER_SECOND = 10
"""A reader with a rate emits its records of a second in as many batches, or one by one below that rate."""


class FileSource(Source):
    """Reads files, each row exactly once.

    Order holds within a part of a file; parts are read in parallel. A file must not change while a job or a
    checkpoint refers to it, and must be there in whole when it has its name: write it under another name, or
    one that begins with a dot, and rename it.

    Args:
        paths: Files, or directories with all files below them; names that begin with `.` or `_` are passed
            over. Paths of every node, or URIs (`s3://…`, `gs://…`, `hdfs://…`).
        columns: Columns to read, in this order; all if not given.
        records_per_second: Upper bound for every reader, to replay a recording at a steady pace.
        file_format: What lies in the files.
        as_columns: Emit Arrow batches, instead of a tuple for each row (a text for each line of text).
        monitor_interval_ms: Look for new files after each such time; the source never ends then.
        split_bytes: Files larger than this are cut where their format can be cut.
        file_system: A `pyarrow.fs.FileSystem` that the paths lie in, which then have no scheme.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        columns: Sequence[str] | None = None,
        records_per_second: float | None = None,
        *,
        file_format: FileFormat | None = None,
        as_columns: bool = False,
        monitor_interval_ms: int | None = None,
        split_bytes: int = DEFAULT_SPLIT_BYTES,
        file_system: Any = None,
    ) -> None:
        every = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        if not every:
            raise ConfigurationError("the file source has no files; pass at least one path")
        if records_per_second is not None and records_per_second <= 0:
            raise ConfigurationError(f"records_per_second is {records_per_second}; it must be positive")
        if split_bytes < 1 or (monitor_interval_ms is not None and monitor_interval_ms < 1):
            raise ConfigurationError("the file source's split_bytes and monitor_interval_ms start at 1")
        self._format = file_format or ParquetFormat()
        locations = [locate(path, file_system) for path in every]
        if len({location.file_system.type_name for location in locations}) > 1:
            raise ConfigurationError("the files of one source lie in one file system; make a source for each")
        self._discovery = Discovery(locations, self._format, split_bytes, monitor_interval_ms)
        self._columns = None if columns is None else list(columns)
        self._records_per_second = records_per_second
        self._as_columns = as_columns

    @staticmethod
    def for_record_stream_format(
        stream_format: FileFormat, *paths: str | os.PathLike[str]
    ) -> FileSourceBuilder:
        """Begin to say how files are read record by record."""
        return FileSourceBuilder(stream_format, paths, as_columns=False)

    @staticmethod
    def for_bulk_file_format(bulk_format: FileFormat, *paths: str | os.PathLike[str]) -> FileSourceBuilder:
        """Begin to describe a source that reads Arrow batches, or the records of a format such as Avro."""
        return FileSourceBuilder(bulk_format, paths, as_columns=bulk_format.is_columnar)

    def validate(self) -> None:
        missing = [where.text for where in self._discovery.locations if not _is_there(where)]
        if missing:
            raise ConfigurationError(f"the file source cannot find {', '.join(missing)}")

    def get_boundedness(self) -> Boundedness:
        is_bounded = self._discovery.interval_ms is None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return FileEnumerator(context, self._discovery)

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return FileEnumerator(context, self._discovery, checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        file_system = self._discovery.locations[0].file_system
        # Rows are cut to the batch that the task asks for; columns are best in large batches.
        reading = Reading(file_system, self._columns, COLUMNS_BATCH_ROWS)
        return _FileReader(self._format, reading, splits, self._as_columns, self._records_per_second)


class FileEnumeratorProvider:
    """Which way of finding parts of files to take, for `FileSourceBuilder.set_file_enumerator`."""

    def __init__(self, split_bytes: int) -> None:
        self.split_bytes = split_bytes

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Cut large files into parts; the default."""
        return FileEnumeratorProvider(DEFAULT_SPLIT_BYTES)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read each file in one part, so that its order is kept."""
        return FileEnumeratorProvider(1 << 62)


class FileSourceBuilder:
    """Makes a `FileSource` as PyFlink does."""

    def __init__(
        self, file_format: FileFormat, paths: Sequence[str | os.PathLike[str]], as_columns: bool
    ) -> None:
        self._format = file_format
        self._paths = paths
        self._as_columns = as_columns
        self._interval_ms: int | None = None
        self._enumerator = FileEnumeratorProvider.default_splittable_file_enumerator()

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Look for new files again and again, each time so long after the last."""
        self._interval_ms = discovery_interval.to_millis()
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts, and end; the default."""
        self._interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Say how files are cut."""
        self._enumerator = file_enumerator
        return self

    def build(self) -> FileSource:
        """The source."""
        return FileSource(
            self._paths,
            file_format=self._format,
            as_columns=self._as_columns,
            monitor_interval_ms=self._interval_ms,
            split_bytes=self._enumerator.split_bytes,
        )


BulkFormat = FileFormat
"""PyFlink's name for what `FileSource.for_bulk_file_format` takes."""


class StreamFormat:
    """Formats of single records, by PyFlink's names."""

    @staticmethod
    def text_line_format(
        charset_name: str = "UTF-8", *, max_line_bytes: int = DEFAULT_MAX_LINE_BYTES
    ) -> TextLineFormat:
        """Lines of text.

        Args:
            charset_name: How they are encoded.
            max_line_bytes: A longer line is an error.
        """
        return TextLineFormat(charset_name, max_line_bytes=max_line_bytes)


def _is_there(location: Location) -> bool:
    with file_errors("the file source", "looking for", location.text):
        return bool(location.file_system.get_file_info(location.path).type.value > 1)


class _FileReader(SourceReader):
    def __init__(
        self,
        file_format: FileFormat,
        reading: Reading,
        splits: list[FileSplit],
        as_columns: bool,
        records_per_second: float | None,
    ) -> None:
        self._format = file_format
        self._reading = reading
        self._splits = list(splits)
        self._as_columns = as_columns
        self._records_per_second = records_per_second
        self._pieces: Iterator[Piece | None] | None = None
        self._schema: pa.Schema | None = None
        self._schema_path = ""
        self._emitted = 0
        self._polled: FileSplit

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._now_ms = context.now_ms
        self._started_ms = context.now_ms()

    def add_splits(self, splits: list[Any]) -> None:
        self._splits += splits

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        if not self._is_due():
            return RowBatch([])
        split = self._splits[0]
        piece = self._next_piece(split, max_records)
        if piece is _END:
            self._splits.pop(0)
            self._pieces = None
        if not isinstance(piece, tuple):
            return RowBatch([])
        self._polled = split
        batch, self._splits[0] = piece
        self._emitted += batch.num_rows
        return ColumnBatch(batch) if self._as_columns else RowBatch(self._records(split, batch))

    def _records(self, split: FileSplit, batch: pa.RecordBatch) -> list[Any]:
        try:
            return self._format.to_records(batch)
        except Exception as error:
            raise self._unreadable(split, error) from error

    def polled_place(self, index: int | None) -> str | None:
        split = self._polled
        try:
            return f"{split.path}, {self._format.place(self._reading, split, index)}"
        except Exception:
            # It is only to explain another error.
            logger.debug("the place of a record in %s cannot be found", split.path, exc_info=True)
            return f"{split.path}, from {self._format.unit} {split.start} on"

    def _next_piece(self, split: FileSplit, max_records: int) -> Piece | object:
        try:
            with file_errors(self._where, "reading", split.path):
                if self._pieces is None:
                    self._pieces = self._open(split, max_records)
                piece = next(self._pieces, _END)
        except TidegateError:
            raise
        except Exception as error:
            raise self._unreadable(split, error) from error
        if isinstance(piece, tuple):
            self._check_schema(piece[0].schema, split.path)
        return piece

    def _unreadable(self, split: FileSplit, error: Exception) -> FileConnectorError:
        """The error for a file that its format, which may be the user's own, does not read."""
        reason = str(error).rstrip(".") or type(error).__name__
        if not isinstance(error, (pa.ArrowException, ValueError, KeyError)):
            reason = f"{type(error).__name__}: {reason}"
        return FileConnectorError(
            f"{self._where}: {split.path} cannot be read as {self._format.suffix}: {reason:.1000} (the part "
            f"from {self._format.unit} {split.start} on); repair or remove the file, or see whether the "
            f"source's format and columns are right"
        )

    def _open(self, split: FileSplit, max_records: int) -> Iterator[Piece | None]:
        size_bytes = self._reading.file_system.get_file_info(split.path).size
        if size_bytes != split.size_bytes:
            found = "is gone" if size_bytes is None else f"has {size_bytes} bytes"
            raise FileConnectorError(
                f"{self._where}: {split.path} {found}, it had {split.size_bytes} bytes when the job found "
                f"it; put the old file back, or start the job without its checkpoint"
            )
        batch_rows = self._reading.batch_rows if self._as_columns else max_records
        if self._records_per_second is not None:
            batch_rows = min(batch_rows, max(1, int(self._records_per_second / _PACED_BATCHES_PER_SECOND)))
        return self._format.read(replace(self._reading, batch_rows=batch_rows), split)

    def _check_schema(self, schema: pa.Schema, path: str) -> None:
        if self._schema is None:
            self._schema, self._schema_path = schema, path
        elif not same_columns(schema, self._schema):
            raise FileConnectorError(
                f"{self._where}: {path} has the columns {schema_text(schema)}, but {self._schema_path} has "
                f"{schema_text(self._schema)}; read them with two sources, or name the columns that they "
                f"share (and for text their types, by the format's schema)"
            )

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)

    def _is_due(self) -> bool:
        if self._records_per_second is None:
            return True
        elapsed_ms = self._now_ms() - self._started_ms
        return self._emitted * 1_000 <= elapsed_ms * self._records_per_second
