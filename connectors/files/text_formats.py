"""Formats of lines: CSV, JSON lines and plain text.

A file is cut at any byte: the line in which a cut falls belongs to the split before it. Positions are the
offset of a line. Compressed files (`.gz`, `.bz2`, `.zst`) are read in one piece, and offsets in them count
what comes out.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from ...common.errors import ConfigurationError, UserCodeError
from .formats import FileFormat, FileSplit, FileWriter, Piece, Reading
from .json_bounds import check_breadth, check_depth
from .lines import BLOCK_BYTES, Lines, codec_of, done

DEFAULT_MAX_LINE_BYTES = 64 << 20
_MOST_LINE_BYTES = 1 << 30
"""Arrow parses blocks of up to 2 GiB."""


class LineFormat(FileFormat):
    """What the formats of lines share: blocks of whole lines, each parsed by itself.

    Args:
        max_line_bytes: A longer line, without its end, is an error. A line is held in memory as a whole.
    """

    unit = "byte"
    has_header = False
    infers_schema = False
    newlines_in_values = False

    def __init__(self, max_line_bytes: int) -> None:
        if not 1 <= max_line_bytes <= _MOST_LINE_BYTES:
            raise ConfigurationError(
                f"max_line_bytes is {max_line_bytes}; it must be between 1 and {_MOST_LINE_BYTES}"
            )
        self.max_line_bytes = max_line_bytes

    def split(self, file_system: Any, path: str, size_bytes: int, split_bytes: int) -> list[FileSplit]:
        if codec_of(path) is not None or self.newlines_in_values:
            return [FileSplit(path, size_bytes)]
        bounds = [*range(0, size_bytes, split_bytes), size_bytes]
        return [FileSplit(path, size_bytes, start, end) for start, end in itertools.pairwise(bounds)]

    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece | None]:
        with self._lines(reading, split) as lines:
            head = (yield from lines.beginning(1)) if self.has_header else b""
            sample = (yield from lines.beginning(BLOCK_BYTES)) if self.infers_schema else b""
            parse = self.parser(head, sample)
            skipped = split.rows
            for found in lines.blocks(len(head)):
                if found is None:
                    yield None
                    continue
                offset, block = found
                whole = _chosen(_parsed(parse, block, offset), reading.columns)
                for first in range(skipped, whole.num_rows, reading.batch_rows):
                    batch = whole.slice(first, reading.batch_rows)
                    rows = first + batch.num_rows
                    if rows == whole.num_rows:
                        split = replace(split, start=offset + len(block), rows=0)
                    else:
                        split = replace(split, start=offset, rows=rows)
                    yield batch, split
                # A position may stem from a time when blocks were larger.
                skipped = max(0, skipped - whole.num_rows)

    def place(self, reading: Reading, split: FileSplit, index: int | None) -> str:
        if self.newlines_in_values:
            return super().place(reading, split, index)
        offset = self._offset_of_row(reading, split, split.rows + (index or 0))
        return f"the lines from byte {offset} on" if index is None else f"the line at byte {offset}"

    def _offset_of_row(self, reading: Reading, split: FileSplit, row: int) -> int:
        """Where the line of a row begins, counted from the start of a split."""
        with self._lines(reading, split) as lines:
            head = done(lines.beginning(1)) if self.has_header else b""
            for found in lines.blocks(len(head)):
                if found is not None:
                    offset, block = found
                    for line in io.BytesIO(block):
                        if self.is_row(line):
                            if not row:
                                return offset
                            row -= 1
                        offset += len(line)
        raise ValueError("the file has changed")

    def is_row(self, line: bytes) -> bool:
        """Whether a line, with its end, is a row. Empty ones are none in most formats."""
        return bool(line.strip(b"\r\n"))

    def _lines(self, reading: Reading, split: FileSplit) -> Lines:
        return Lines(reading.file_system, split, self.newlines_in_values, self.max_line_bytes)

    @abstractmethod
    def parser(self, head: bytes, sample: bytes) -> Any:
        """A function from a block of whole lines to a table.

        Args:
            head: The header line, where there is one.
            sample: The first block of the file if `infers_schema`: the same for all its splits.
        """


class CsvFormat(LineFormat):
    """Comma-separated values, which may be quoted.

    Args:
        schema: Types of the columns. Without it they are inferred from the first 4 MiB of each file.
        header: Whether the first line has the names. Without, the schema does.
        delimiter: One character.
        null_values: Texts that stand for null, where they are not quoted.
        newlines_in_values: Whether quoted values may have line ends in them. Each file is then read in one
            piece, and quotes must stand around values only, or twice within them. Without it such a file
            is an error.
        max_line_bytes: A longer line is an error.
    """

    suffix = "csv"

    @property
    def columns(self) -> pa.Schema | None:
        """The schema, if one was given."""
        return self._schema

    def __init__(
        self,
        schema: pa.Schema | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        null_values: Sequence[str] = ("",),
        newlines_in_values: bool = False,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
    ) -> None:
        super().__init__(max_line_bytes)
        if not header and schema is None:
            raise ConfigurationError("CSV files without a header need a schema, which has the names")
        if len(delimiter) != 1:
            raise ConfigurationError(f"the delimiter of CSV files is one character, not {delimiter!r}")
        self._schema = schema
        self.infers_schema = schema is None
        self.has_header = header
        self.delimiter = delimiter
        self._null_values = list(null_values)
        self.newlines_in_values = newlines_in_values

    def parser(self, head: bytes, sample: bytes) -> Any:
        parsing = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.newlines_in_values)
        names = list(self._schema.names) if self._schema is not None else []
        if self.has_header:
            names = [] if not head.strip() else pa.csv.read_csv(
                pa.BufferReader(head if head.endswith(b"\n") else head + b"\n"), parse_options=parsing
            ).column_names  # fmt: skip
        schema = self._schema

        def table(data: bytes, types: Any) -> pa.Table:
            if not self.newlines_in_values:
                _check_quotes(data, self.delimiter)
            return pa.csv.read_csv(
                pa.BufferReader(data),
                # Parsed as one: pyarrow's own blocks would end within a quoted value.
                pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
                parsing,
                pa.csv.ConvertOptions(
                    column_types=types,
                    null_values=self._null_values,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    include_columns=None if schema is None else schema.names,
                ),
            )

        if schema is None:
            first = sample[len(head) :]
            schema_found = table(first, None).schema if first else pa.schema([])
            return lambda block: table(block, schema_found)
        return lambda block: table(block, schema).cast(schema)

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        options = pa.csv.WriteOptions(include_header=self.has_header, delimiter=self.delimiter)
        writer: FileWriter = pa.csv.CSVWriter(stream, schema, write_options=options)
        return writer


class JsonLinesFormat(LineFormat):
    """One JSON object a line.

    Args:
        schema: Types of the columns. Without it they are inferred from the first 4 MiB of each file.
        unexpected_fields: What to do with fields that the schema does not have: `error` or `ignore`. Fields
            that are missing are null.
        max_line_bytes: A longer line is an error.
    """

    suffix = "jsonl"

    def __init__(
        self,
        schema: pa.Schema | None = None,
        *,
        unexpected_fields: str = "error",
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
    ) -> None:
        super().__init__(max_line_bytes)
        if unexpected_fields not in ("error", "ignore"):
            raise ConfigurationError(f"unexpected_fields is {unexpected_fields!r}; it is 'error' or 'ignore'")
        self._schema = schema
        self.infers_schema = schema is None
        self._unexpected = unexpected_fields

    def parser(self, head: bytes, sample: bytes) -> Any:
        def table(data: bytes, schema: Any, unexpected: str) -> pa.Table:
            check_depth(data)
            return pa.json.read_json(
                pa.BufferReader(data),
                # A block is parsed as one: pyarrow's own would end within a line.
                pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
            )

        if self._schema is not None:
            return lambda block: table(block, self._schema, self._unexpected).select(self._schema.names)
        check_breadth(sample, lambda lines: table(lines, None, "infer").schema)
        found = table(sample, None, "infer").schema if sample else pa.schema([])
        return lambda block: table(block, found, self._unexpected).select(found.names)

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        return _JsonLinesFile(stream)


class _JsonLinesFile:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, table: pa.Table) -> None:
        encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_text).encode
        lines = [encode(row) for row in table.to_pylist()]
        self._stream.write(("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        """Lines have no end of their own."""


class TextLineFormat(LineFormat):
    """Lines of text, each a record of its own: `str`, without the line end. Written is the `str` of a record.

    Args:
        charset_name: How they are encoded; line ends must be the byte 10.
        max_line_bytes: A longer line is an error.
    """

    suffix = "txt"
    COLUMN = "line"
    SCHEMA = pa.schema([pa.field(COLUMN, pa.large_string())])

    def __init__(self, charset_name: str = "UTF-8", *, max_line_bytes: int = DEFAULT_MAX_LINE_BYTES) -> None:
        super().__init__(max_line_bytes)
        try:
            line_end = "\n".encode(charset_name)
        except LookupError as error:
            raise ConfigurationError(f"there is no encoding {charset_name!r}") from error
        if line_end != b"\n":
            raise ConfigurationError(f"text in {charset_name} cannot be cut into lines at the byte 10")
        self._charset = charset_name

    def parser(self, head: bytes, sample: bytes) -> Any:
        def table(block: bytes) -> pa.Table:
            lines = block.decode(self._charset).split("\n")
            if lines and not lines[-1]:
                lines.pop()
            return pa.table(
                [pa.array([line.rstrip("\r") for line in lines], pa.large_string())], [self.COLUMN]
            )

        return table

    def is_row(self, line: bytes) -> bool:
        return True

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        records: list[Any] = batch.column(0).to_pylist()
        return records

    def to_batch(self, values: Sequence[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
        lines = [str(value) for value in values]
        try:
            "".join(lines).encode(self._charset)
        except UnicodeEncodeError as error:
            raise UserCodeError(f"{where}: a record cannot be written as {self._charset}: {error}") from error
        return pa.record_batch([pa.array(lines, pa.large_string())], [self.COLUMN])

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        return _TextFile(stream, self._charset)


class _TextFile:
    def __init__(self, stream: BinaryIO, charset: str) -> None:
        self._stream = stream
        self._charset = charset

    def write(self, table: pa.Table) -> None:
        lines = table.column(0).to_pylist()
        self._stream.write(("\n".join(lines) + "\n").encode(self._charset))

    def close(self) -> None:
        """Lines have no end of their own."""


def _check_quotes(block: bytes, delimiter: str) -> None:
    """Raise `ValueError` if a quoted value reaches beyond the block. Then its rows would be wrong."""
    if block.count(b'"') % 2:
        try:
            for _ in csv.reader(io.StringIO(block.decode(), newline=""), delimiter=delimiter, strict=True):
                pass
        except csv.Error as error:
            raise ValueError(
                f"a quoted value is not closed where a line ends ({error}); if values have line ends in "
                f"them, say CsvFormat(newlines_in_values=True)"
            ) from error


def _parsed(parse: Any, block: bytes, offset: int) -> pa.RecordBatch:
    try:
        table = parse(block)
    except UnicodeDecodeError as error:
        raise ValueError(f"the text at byte {offset + error.start} is not {error.encoding}") from error
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"the lines from byte {offset} on cannot be read: {error}") from error
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _chosen(batch: pa.RecordBatch, columns: Sequence[str] | None) -> pa.RecordBatch:
    return batch if columns is None else batch.select(list(columns))


def _as_text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
