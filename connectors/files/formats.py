"""What lies in a file: the interface of a format, and the two columnar ones, Parquet and Arrow.

A file is read in *units*: row groups of Parquet, record batches of Arrow, bytes of text. A split is a range
of units, and its position is the unit to begin with and how many rows from there were read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ...common.errors import ConfigurationError
from ...operators.columnar.arrow_records import records_to_batch

_READ_AHEAD_BATCHES = 4
_READ_AHEAD_BYTES = 256 << 20
"""Row groups that are larger, uncompressed, are decoded one at a time."""

_CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A part of a file, and what is still to be read of it.

    `size_bytes` tells whether the file is still the one that the position was taken in.

    Attributes:
        start: The unit to begin with.
        end: The unit behind the last; `None` for all that follow.
        rows: How many rows from the start on were read.
    """

    path: str
    size_bytes: int
    start: int = 0
    end: int | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """How a split is read.

    Attributes:
        columns: Columns to read, in this order; `None` for all.
        batch_rows: The most rows of a batch.
    """

    file_system: Any
    columns: Sequence[str] | None
    batch_rows: int


Piece = tuple[pa.RecordBatch, FileSplit]
"""A batch, and the split as it is when the batch was read."""


class FileWriter(Protocol):
    """Writes one file. The stream belongs to whoever made it, and stays open."""

    def write(self, table: pa.Table) -> None:
        """Add rows."""

    def close(self) -> None:
        """Add what the format wants at the end."""


class FileFormat(ABC):
    """Reads and writes files of one kind. Picklable.

    Attributes:
        suffix: How names of files end, without a dot.
        unit: What the positions of splits count, for errors.
        is_columnar: Whether `FileSource.for_bulk_file_format` emits Arrow batches, or else records.
    """

    suffix: str
    is_columnar = True
    unit = "unit"

    def split(self, file_system: Any, path: str, size_bytes: int, split_bytes: int) -> list[FileSplit]:
        """Cut a file into parts that can be read in parallel, of roughly so many bytes."""
        return [FileSplit(path, size_bytes)]

    @abstractmethod
    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece | None]:
        """The rest of a split, the same batches each time that it is read from one position.

        `None` in between means that a bounded part of the work for the next batch is done: the task takes
        part in checkpoints before it continues.
        """

    def place(self, reading: Reading, split: FileSplit, index: int | None) -> str:
        """Where records are, for errors.

        Args:
            split: As it was before the batch that has them.
            index: Of a record in that batch; `None` if the batch as a whole is meant.
        """
        row = split.rows + (index or 0)
        found = f"row {row} from {self.unit} {split.start} on"
        return found if index is not None else f"the rows after {found}"

    def to_batch(self, values: Sequence[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
        """Records as columns; raises `UserCodeError` for one that does not fit."""
        return records_to_batch(values, schema, where)

    @abstractmethod
    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        """Begin a file."""

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        """The rows of a batch as records: tuples of the columns."""
        return list(zip(*(column.to_pylist() for column in batch.columns)))


class ParquetFormat(FileFormat):
    """Parquet: files are cut at row groups, and only the columns that are wanted are read.

    Args:
        compression: For writing: `snappy`, `zstd`, `gzip`, `none`, …
    """

    suffix = "parquet"
    unit = "row group"

    def __init__(self, compression: str = "snappy") -> None:
        if compression not in _CODECS:
            raise ConfigurationError(
                f"Parquet files cannot be compressed with {compression!r}; but with {', '.join(_CODECS)}"
            )
        self._compression = compression

    def split(self, file_system: Any, path: str, size_bytes: int, split_bytes: int) -> list[FileSplit]:
        if size_bytes <= split_bytes:
            return [FileSplit(path, size_bytes)]
        metadata = pq.read_metadata(path, filesystem=file_system)
        sizes = [_stored_bytes(metadata.row_group(group)) for group in range(metadata.num_row_groups)]
        return unit_ranges(path, size_bytes, sizes, split_bytes)

    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece]:
        metadata = pq.read_metadata(split.path, filesystem=reading.file_system)
        end = metadata.num_row_groups if split.end is None else split.end
        group, skipped = split.start, split.rows
        while group < end and skipped >= metadata.row_group(group).num_rows:
            skipped -= metadata.row_group(group).num_rows
            group += 1
        if group == end:
            return
        fragment = ds.ParquetFileFormat().make_fragment(
            split.path, reading.file_system, row_groups=range(group, end)
        )
        # Arrow's own threads decode ahead of us: the next row group while this one is worked off.
        scanner = fragment.scanner(
            columns=None if reading.columns is None else list(reading.columns),
            batch_size=reading.batch_rows,
            batch_readahead=_batches_ahead(metadata.row_group(group), reading.batch_rows),
        )
        for batch in without_first(skipped, scanner.to_batches()):
            split = replace(split, rows=split.rows + batch.num_rows)
            yield batch, split

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        return _ParquetFile(stream, schema, self._compression)


class _ParquetFile:
    def __init__(self, stream: BinaryIO, schema: pa.Schema, compression: str) -> None:
        self._writer = pq.ParquetWriter(stream, schema, compression=compression)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        self._writer.close()


class ArrowFormat(FileFormat):
    """Arrow's file format (Feather version 2): files are cut at record batches."""

    suffix = "arrow"
    unit = "record batch"

    def split(self, file_system: Any, path: str, size_bytes: int, split_bytes: int) -> list[FileSplit]:
        if size_bytes <= split_bytes:
            return [FileSplit(path, size_bytes)]
        with file_system.open_input_file(path) as stream:
            count = pa.ipc.open_file(stream).num_record_batches
        return unit_ranges(path, size_bytes, [size_bytes // max(1, count)] * count, split_bytes)

    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece]:
        with reading.file_system.open_input_file(split.path) as stream:
            file = pa.ipc.open_file(stream)
            end = file.num_record_batches if split.end is None else split.end
            stored = (_validated(file.get_batch(number)) for number in range(split.start, end))
            for whole in without_first(split.rows, stored):
                chosen = whole if reading.columns is None else whole.select(list(reading.columns))
                for first in range(0, chosen.num_rows, reading.batch_rows):
                    batch = chosen.slice(first, reading.batch_rows)
                    split = replace(split, rows=split.rows + batch.num_rows)
                    yield batch, split

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        return _ArrowFile(stream, schema)


class _ArrowFile:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pa.ipc.new_file(stream, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


def _stored_bytes(group: Any) -> int:
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))


def _batches_ahead(group: Any, batch_rows: int) -> int:
    """How many batches to decode ahead: Arrow begins row groups until it has more rows than these."""
    if group.total_byte_size > _READ_AHEAD_BYTES:
        return _READ_AHEAD_BATCHES
    return max(_READ_AHEAD_BATCHES, int(group.num_rows) // batch_rows + 1)


def unit_ranges(path: str, size_bytes: int, sizes: Sequence[int], split_bytes: int) -> list[FileSplit]:
    """Neighbouring units together until they have the size of a split."""
    splits, start, gathered = [], 0, 0
    for unit, unit_bytes in enumerate(sizes):
        gathered += unit_bytes
        if gathered >= split_bytes or unit == len(sizes) - 1:
            splits.append(FileSplit(path, size_bytes, start, unit + 1))
            start, gathered = unit + 1, 0
    return splits


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    # Arrow trusts the offsets in its own format: damaged ones lead outside of the file's memory.
    batch.validate(full=True)
    return batch


def without_first(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches after this number of rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)
