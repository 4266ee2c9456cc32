"""ORC files, which are cut at stripes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import orc

from ...common.errors import ConfigurationError
from .formats import FileFormat, FileSplit, FileWriter, Piece, Reading, unit_ranges, without_first

_CODECS = ("uncompressed", "snappy", "zlib", "lz4", "zstd")


class OrcFormat(FileFormat):
    """ORC: files are cut at stripes, and only the requested columns are read.

    Args:
        compression: For writing: `uncompressed`, `snappy`, `zlib`, `lz4` or `zstd`.
    """

    suffix = "orc"
    unit = "stripe"

    def __init__(self, compression: str = "zlib") -> None:
        if compression not in _CODECS:
            raise ConfigurationError(
                f"Cannot compress ORC files with {compression!r}; use one of {', '.join(_CODECS)}"
            )
        self._compression = compression

    def split(self, file_system: Any, path: str, size_bytes: int, split_bytes: int) -> list[FileSplit]:
        if size_bytes <= split_bytes:
            return [FileSplit(path, size_bytes)]
        with file_system.open_input_file(path) as stream:
            count = orc.ORCFile(stream).nstripes
        return unit_ranges(path, size_bytes, [size_bytes // max(1, count)] * count, split_bytes)

    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece]:
        columns = None if reading.columns is None else list(reading.columns)
        with reading.file_system.open_input_file(split.path) as stream:
            file = orc.ORCFile(stream)
            end = file.nstripes if split.end is None else split.end
            stripes = (file.read_stripe(number, columns) for number in range(split.start, end))
            for whole in without_first(split.rows, stripes):
                # ORC returns columns in the order of the file.
                chosen = whole if columns is None else whole.select(columns)
                for first in range(0, chosen.num_rows, reading.batch_rows):
                    batch = chosen.slice(first, reading.batch_rows)
                    split = replace(split, rows=split.rows + batch.num_rows)
                    yield batch, split

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        return _OrcFile(stream, schema, self._compression)


class _OrcFile:
    def __init__(self, stream: BinaryIO, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        self._writer = orc.ORCWriter(stream, compression=compression)
        self._is_empty = True

    def write(self, table: pa.Table) -> None:
        self._writer.write(table)
        self._is_empty = False

    def close(self) -> None:
        if self._is_empty:
            # An ORC file gets its columns from the first table.
            self._writer.write(self._schema.empty_table())
        self._writer.close()
