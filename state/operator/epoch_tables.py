"""Operator state that consists of Arrow tables: the records that a stage has gathered for its epochs.

Tables of one epoch and one schema are collected into *pieces*. A snapshot ends the pieces, so they never
change afterwards. It copies nothing at the barrier, and writes each piece once, as a list file with one
item: the number of the epoch and its tables as a compressed Arrow IPC stream. Later snapshots refer to the
same file. So the cost of a barrier does not depend on the size of the state. A piece can move to local disk;
readers then map its file into memory.
"""

from __future__ import annotations

import itertools
import os
import struct
import threading
from collections.abc import Iterable, Sequence

import pyarrow as pa

from ...common.errors import CorruptCheckpointError
from ...common.typeinfo import Types
from ...protocol.checkpoints.handles import ListPart
from ...protocol.checkpoints.redistribution import EVEN_SPLIT
from ..descriptors import ListStateDescriptor
from ..serializers.codecs import value_codec
from .list_files import EncodedItems, decode_items
from .list_storage import ListStorage, RestoredItems
from .live_operator_state import FrozenItems, NoItems, OperatorState

MOST_PIECE_BYTES = 32 << 20
"""A piece is compressed in memory."""

_ITEM = Types.TUPLE([Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
_COMPRESSION = "zstd"
_VERSION_KEY = b"tidegate.epoch_version"
FORMAT_VERSION = 2
"""Of the Arrow streams in a checkpoint; it is in the metadata of their schema.

Up to version 1 all tables of results in a checkpoint had begun to leave.
"""


class EpochTablesDescriptor(ListStateDescriptor):
    """Describes an `EpochTablesState`: a list of epoch numbers with Arrow IPC streams.

    Args:
        name: Unique among the states of one operator.
        where: The operator and its subtask, for messages.
    """

    def __init__(self, name: str, where: str) -> None:
        super().__init__(name, _ITEM)
        self.where = where


class _Piece:
    """Some tables of one epoch, in memory or in a file on local disk."""

    def __init__(self, epoch: int, tables: list[pa.Table], part: ListPart | None = None) -> None:
        self.epoch = epoch
        self.tables = tables
        self.size_bytes = sum(table.nbytes for table in tables)
        self.is_ended = part is not None
        self.part = part
        self.path: str | None = None

    def takes(self, epoch: int, table: pa.Table) -> bool:
        """Whether a table can be added."""
        return (
            not self.is_ended
            and self.epoch == epoch
            and self.size_bytes + table.nbytes <= MOST_PIECE_BYTES
            and self.tables[0].schema.equals(table.schema)
        )

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.size_bytes += table.nbytes

    def encoded(self) -> EncodedItems:
        """The item of the piece."""
        sink = pa.BufferOutputStream()
        schema = _versioned(self.tables[0].schema)
        _write(self.tables, schema, sink, pa.ipc.IpcWriteOptions(compression=_COMPRESSION))
        stream = sink.getvalue()
        offsets = pa.py_buffer(struct.pack("=2q", 0, stream.size))
        number = pa.array([self.epoch], pa.int64())
        data = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, stream])
        values = pa.StructArray.from_arrays([number, data], names=["f0", "f1"])
        return EncodedItems(pa.nulls(1), values, pa.nulls(1, pa.large_binary()))

    def spill(self, path: str) -> None:
        """Move the tables to a file, from which they are mapped."""
        with pa.OSFile(path, "wb") as sink:
            _write(self.tables, self.tables[0].schema, sink, None)
        with pa.memory_map(path) as source:
            self.tables = [pa.ipc.open_stream(source).read_all()]
        self.is_ended, self.path = True, path


class EpochTablesState(OperatorState):
    """The tables of some epochs, in the order in which they were added.

    All calls come from the task's thread, but for what `freeze` returns.

    Args:
        descriptor: Of the state.
        directory: For files on local disk; created when the first is written.
    """

    def __init__(self, descriptor: EpochTablesDescriptor, directory: str) -> None:
        codec = value_codec(_ITEM)
        super().__init__(descriptor.get_name(), EVEN_SPLIT, codec, descriptor.schema())
        self._where = descriptor.where
        self._directory = directory
        self._pieces: list[_Piece] = []
        self._files = itertools.count()
        self._persist_lock = threading.Lock()

    def add(self, epoch: int, table: pa.Table) -> None:
        """Add a table to an epoch."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.takes(epoch, table):
            last.add(table)
        else:
            self._pieces.append(_Piece(epoch, [table]))

    def epochs(self) -> list[int]:
        """The numbers of the epochs that have tables, in order."""
        return list(dict.fromkeys(piece.epoch for piece in self._pieces))

    def tables(self, epoch: int) -> list[pa.Table]:
        """The tables of an epoch, in the order in which they were added."""
        return [table for piece in self._of(epoch) for table in piece.tables]

    def regroup(self, epoch: int) -> None:
        """Give all tables to one epoch. Those that a checkpoint contains are written again."""
        for piece in self._pieces:
            piece.epoch, piece.part = epoch, None

    def drop(self, epoch: int) -> None:
        """Remove the tables of an epoch."""
        dropped = self._of(epoch)
        self._pieces = [piece for piece in self._pieces if piece.epoch != epoch]
        self._remove(dropped)

    def spill(self, epoch: int) -> None:
        """Move the tables of an epoch to local disk.

        Raises:
            OSError: The disk refuses.
        """
        os.makedirs(self._directory, exist_ok=True)
        for piece in self._of(epoch):
            if piece.path is None:
                piece.spill(os.path.join(self._directory, f"{self.name}-{next(self._files)}.arrow"))

    def close(self) -> None:
        """Remove the files on local disk."""
        pieces, self._pieces = self._pieces, []
        self._remove(pieces)

    def freeze(self) -> FrozenItems:
        for piece in self._pieces:
            piece.is_ended = True
        return _FrozenTables(tuple(self._pieces), self._persist_lock) if self._pieces else NoItems()

    def load(self, restored: RestoredItems) -> None:
        for part, rows in restored.tables():
            for row, (epoch, data) in enumerate(decode_items(self.codec, rows)[1]):
                own = None if part is None else ListPart(part.file, part.start + row, part.start + row + 1)
                self._pieces.append(_Piece(epoch, [_read(data, self._where)], own))
                self._pieces[-1].is_ended = True
        # Pieces of several subtasks may have come together. One epoch has the same number in all of them.
        self._pieces.sort(key=lambda piece: piece.epoch)

    def _of(self, epoch: int) -> list[_Piece]:
        return [piece for piece in self._pieces if piece.epoch == epoch]

    def _remove(self, pieces: Iterable[_Piece]) -> None:
        # A reader that has mapped a file keeps its content.
        for piece in pieces:
            if piece.path is not None and os.path.exists(piece.path):
                os.remove(piece.path)


class _FrozenTables(FrozenItems):
    """The pieces as of a snapshot."""

    def __init__(self, pieces: Sequence[_Piece], lock: threading.Lock) -> None:
        self._pieces = pieces
        self._lock = lock

    def persist(self, files: ListStorage, state_name: str, schema: dict[str, object]) -> tuple[ListPart, ...]:
        with self._lock:
            for piece in self._pieces:
                if piece.part is None:
                    piece.part = files.write(piece.encoded(), state_name, schema)
        return tuple(piece.part for piece in self._pieces if piece.part is not None)


def _write(
    tables: Sequence[pa.Table], schema: pa.Schema, sink: object, options: pa.ipc.IpcWriteOptions | None
) -> None:
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for table in tables:
            stream.write_table(table)


def _versioned(schema: pa.Schema) -> pa.Schema:
    return schema.with_metadata({**(schema.metadata or {}), _VERSION_KEY: str(FORMAT_VERSION).encode()})


def _read(data: bytes, where: str) -> pa.Table:
    try:
        table = pa.ipc.open_stream(data).read_all()
        metadata = dict(table.schema.metadata or {})
        version = int(metadata.pop(_VERSION_KEY))
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptCheckpointError(
            f"{where}: the records of an epoch in the checkpoint cannot be read: {error}; restore another "
            f"checkpoint or savepoint"
        ) from error
    if version > FORMAT_VERSION:
        raise CorruptCheckpointError(
            f"{where}: the records of an epoch in the checkpoint have format version {version}; this release "
            f"reads up to {FORMAT_VERSION}: upgrade tidegate"
        )
    return table.replace_schema_metadata(metadata or None)
