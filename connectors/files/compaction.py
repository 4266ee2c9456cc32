"""Which files of the file sink become one larger file, and how. Names are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ...common.errors import ConfigurationError
from .formats import FileFormat, FileSplit, Reading
from .stores import StagedStream
from .text_formats import LineFormat

_COPY_BYTES = 1 << 20
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """When files of a bucket are merged. Obtain one from `builder()`.

    Attributes:
        checkpoints: Merge all files after this number of checkpoints; `None` for never.
        size_threshold: Merge the files of a bucket when they have this number of bytes; `None` for never.
    """

    checkpoints: int | None = None
    size_threshold: int | None = None

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Begin to describe a strategy."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Makes a `FileCompactStrategy`; a number of checkpoints or a size is needed."""

        def __init__(self) -> None:
            self._strategy = FileCompactStrategy()

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge all files after this number of checkpoints."""
            _check(num_checkpoints_before_compaction, "the number of checkpoints")
            self._strategy = replace(self._strategy, checkpoints=num_checkpoints_before_compaction)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge the files of a bucket when they have this number of bytes together."""
            _check(size_threshold, "the size threshold")
            self._strategy = replace(self._strategy, size_threshold=size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Only 1 is supported: each subtask of the sink merges its own files. Raise its parallelism."""
            if num_compact_threads != 1:
                raise ConfigurationError(
                    f"{num_compact_threads} compaction threads are not supported: each subtask of the sink "
                    f"merges its own files; call set_parallelism() on the sink instead"
                )
            return self

        def build(self) -> FileCompactStrategy:
            """The strategy.

            Raises:
                ConfigurationError: It would never merge files.
            """
            if self._strategy == FileCompactStrategy():
                raise ConfigurationError(
                    "A FileCompactStrategy needs enable_compaction_on_checkpoint() or set_size_threshold()"
                )
            return self._strategy


@dataclass(frozen=True, slots=True)
class Merge:
    """The files that become one file.

    Attributes:
        paths: The files, in the order of their records.
        file_system: Where they are.
        file_format: Their format.
        schema: Their columns.
    """

    paths: Sequence[str]
    file_system: Any
    file_format: FileFormat
    schema: pa.Schema


class FileCompactor(ABC):
    """Makes one file of several. Picklable."""

    is_merging = True
    """Whether files become one; else they are published as they are."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Join the bytes of the files; for formats of lines without a header.

        Args:
            file_delimiter: Bytes between two files.
        """
        return _Concatenation(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Leave each file as it is: files appear later, and are not merged."""
        return _Identity()

    @staticmethod
    def record_wise_file_compactor() -> FileCompactor:
        """Read the records and write them to one file; for every format, such as Parquet."""
        return _Rewriting()

    def validate(self, file_format: FileFormat) -> None:
        """Raise ConfigurationError if files of the format cannot be merged so."""

    @abstractmethod
    def compact(self, merge: Merge, stream: StagedStream) -> None:
        """Write what is in the files, in their order.

        Args:
            merge: The files.
            stream: The file to write; it stays open.
        """


class _Concatenation(FileCompactor):
    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter

    def validate(self, file_format: FileFormat) -> None:
        if not isinstance(file_format, LineFormat) or file_format.has_header:
            raise ConfigurationError(
                f"concat_file_compactor() joins bytes, which breaks {file_format.suffix} files with a "
                f"header or footer; use FileCompactor.record_wise_file_compactor()"
            )

    def compact(self, merge: Merge, stream: StagedStream) -> None:
        for number, path in enumerate(merge.paths):
            if number:
                stream.write(self._delimiter)
            with merge.file_system.open_input_stream(path, compression=None) as source:
                while block := source.read(_COPY_BYTES):
                    stream.write(block)


class _Identity(FileCompactor):
    is_merging = False

    def compact(self, merge: Merge, stream: StagedStream) -> None:
        raise AssertionError("files are published as they are")


class _Rewriting(FileCompactor):
    def compact(self, merge: Merge, stream: StagedStream) -> None:
        writer = merge.file_format.writer(stream, merge.schema)  # type: ignore[arg-type]
        for table in _row_groups(_batches(merge), merge.schema):
            writer.write(table)
        writer.close()


_ROW_GROUP_BYTES = 16 << 20


def _batches(merge: Merge) -> Iterator[pa.RecordBatch]:
    reading = Reading(merge.file_system, None, _BATCH_ROWS)
    for path in merge.paths:
        split = FileSplit(path, merge.file_system.get_file_info(path).size)
        for piece in merge.file_format.read(reading, split):
            if piece is not None:
                yield piece[0]


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch.cast(schema))
        if sum(each.nbytes for each in held) >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held = []
    if held:
        yield pa.Table.from_batches(held, schema)


def _check(number: int, what: str) -> None:
    if number < 1:
        raise ConfigurationError(f"{what} of a FileCompactStrategy starts at 1, not {number}")
