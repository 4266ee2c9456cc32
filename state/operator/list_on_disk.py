"""Operator list state that may be larger than memory.

A small list is plain objects in memory, stored whole by each snapshot. A large one is *sealed* piece by
piece: some items become one encoded value on local disk, which never changes. The last items, the tail, stay
objects. A snapshot stores the pieces sealed since the previous one as one new file, and the tail whole. So
the cost of a barrier does not depend on the length of the list, and items that are added once are stored
once. The parts of its handle are rows of list files, like those of a list in memory.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from ...common.errors import StateError
from ...protocol.checkpoints.handles import ListPart
from ..kinds import ListState
from ..serializers.codecs import ValueCodec
from ..serializers.encoded_values import damage_named
from ..snapshots.segments import column_slice
from .growth import LOOK_EVERY, MemoryLimit
from .list_files import EncodedItems, decode_items, encode_items
from .list_storage import ListStorage, RestoredItems
from .live_operator_state import FrozenItems, NoItems, OperatorState, WholeItems

# Runs of pieces that are merged: more files than this make a manifest long and a restore slow.
_MOST_RUNS = 16
_MOST_INLINE_BYTES = 65_536
# A file is made in memory, and read into it.
_MOST_RUN_BYTES = 32 << 20


class PieceStore(ABC):
    """Sealed pieces on local disk. `put` belongs to the task's thread."""

    @abstractmethod
    def put(self, data: bytes) -> int:
        """Store a piece; its number."""

    @abstractmethod
    def get(self, number: int) -> bytes:
        """A piece. From any thread.

        Raises:
            BackendClosedError: The task has ended.
        """

    @abstractmethod
    def discard(self, numbers: Iterable[int]) -> None:
        """Remove pieces with the next `put`. From any thread."""


class _Piece(NamedTuple):
    number: int
    rows: int
    size_bytes: int


class _Run(NamedTuple):
    """Some pieces that are the rows of one file."""

    start: int
    end: int
    part: ListPart


class SealedItems:
    """The sealed pieces of a list until it is cleared, and the files that hold them.

    Pieces are removed from disk when nothing refers to this any more: neither the list, nor a snapshot
    that is being stored, nor an iterator.
    """

    def __init__(self, store: PieceStore) -> None:
        self._store = store
        self._pieces: list[_Piece] = []
        self._numbers: list[int] = []
        # Belongs to `persist`, once the state is open.
        self._runs: list[_Run] = []
        self._persist_lock = threading.Lock()
        weakref.finalize(self, store.discard, self._numbers).atexit = False

    def __len__(self) -> int:
        return len(self._pieces)

    def seal(self, items: EncodedItems) -> None:
        """Add a piece."""
        data = _to_bytes(items)
        number = self._store.put(data)
        self._numbers.append(number)
        self._pieces.append(_Piece(number, len(items.values), len(data)))

    def restored(self, part: ListPart | None, start: int) -> None:
        """The pieces from one on are restored ones, all in the rows of a file.

        Args:
            part: None if the next snapshot has to write them.
        """
        if part is not None and start == self._stored:
            self._runs.append(_Run(start, len(self), part))

    def pieces(self, start: int, end: int) -> Iterator[pa.Table]:
        """The items of some pieces, piece by piece."""
        for piece in self._pieces[start:end]:
            yield _from_bytes(self._store.get(piece.number))

    def persist(
        self, end: int, files: ListStorage, state_name: str, schema: dict[str, object]
    ) -> list[ListPart]:
        """Write the pieces up to one that are in no file yet, and return the parts that they are."""
        with self._persist_lock:
            write = _Writer(self, files, state_name, schema)
            for start, stop in self._bounded(self._stored, end):
                self._runs.append(write(start, stop))
            sizes = [self._size(run.start, run.end) for run in self._runs]
            first = _first_merged(sizes, self._inline_bytes())
            if first is not None:
                self._runs[first:] = [write(self._runs[first].start, self._stored)]
            return [self._until(end, run) for run in self._runs if run.start < end]

    @property
    def _stored(self) -> int:
        return self._runs[-1].end if self._runs else 0

    def _inline_bytes(self) -> int:
        return sum(run.part.file.size_bytes for run in self._runs if run.part.file.is_inline)

    def _bounded(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The pieces of each new file."""
        while start < end:
            stop, size_bytes = start + 1, self._size(start, start + 1)
            while stop < end and (size_bytes := size_bytes + self._size(stop, stop + 1)) <= _MOST_RUN_BYTES:
                stop += 1
            yield start, stop
            start = stop

    def _until(self, end: int, run: _Run) -> ListPart:
        """The part of a run without what was sealed after the snapshot."""
        surplus = sum(piece.rows for piece in self._pieces[end : run.end])
        return replace(run.part, end=run.part.end - surplus) if surplus else run.part

    def _size(self, start: int, end: int) -> int:
        return sum(piece.size_bytes for piece in self._pieces[start:end])


class _Writer:
    """Writes pieces as list files."""

    def __init__(
        self, sealed: SealedItems, files: ListStorage, state_name: str, schema: dict[str, object]
    ) -> None:
        self._sealed, self._files, self._state_name, self._schema = sealed, files, state_name, schema

    def __call__(self, start: int, end: int) -> _Run:
        table = pa.concat_tables(self._sealed.pieces(start, end))
        items = EncodedItems(
            pa.nulls(table.num_rows),
            column_slice(table["value"], 0, table.num_rows),
            column_slice(table["value_encoded"], 0, table.num_rows),
        )
        return _Run(start, end, self._files.write(items, self._state_name, self._schema))


class _FrozenList(FrozenItems):
    """Sealed pieces, and the tail as it was at the barrier."""

    def __init__(self, sealed: SealedItems, tail: FrozenItems) -> None:
        self._sealed = sealed
        self._end = len(sealed)
        self._tail = tail

    def persist(self, files: ListStorage, state_name: str, schema: dict[str, object]) -> tuple[ListPart, ...]:
        parts = self._sealed.persist(self._end, files, state_name, schema)
        return (*parts, *self._tail.persist(files, state_name, schema))


class ListStateOnDisk(OperatorState, ListState[Any]):
    """A list, even-split or union, whose sealed items are on local disk.

    Args:
        where: the operator, the subtask and the state, for messages.
        store: for its pieces.
        limit: of the tail.
    """

    def __init__(
        self,
        name: str,
        mode: str,
        codec: ValueCodec,
        schema: dict[str, object],
        where: str,
        store: PieceStore,
        limit: MemoryLimit,
    ) -> None:
        super().__init__(name, mode, codec, schema)
        self._where = where
        self._store = store
        self._limit = limit
        self._sealed = SealedItems(store)
        self._start_tail([])

    def get(self) -> list[Any]:
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        """The items as they are now, in bounded memory."""
        return self._items(self._sealed, len(self._sealed), list(self._tail))

    def _items(self, sealed: SealedItems, end: int, tail: list[Any]) -> Iterator[Any]:
        for table in sealed.pieces(0, end):
            with damage_named(self._where):
                items = decode_items(self.codec, table)[1]
            yield from items
        yield from tail

    def add(self, value: Any) -> None:
        tail = self._tail
        tail.append(value)
        if len(tail) >= self._next_look:
            self._next_look += min(LOOK_EVERY, self._limit.entries + 1)
            if self._limit.is_exceeded(len(tail), reversed(tail)):
                self._seal()

    def add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: list[Any]) -> None:
        items = list(values)
        self.clear()
        if self._limit.is_exceeded(len(items), reversed(items)):
            self.add_all(items)
        else:
            self._start_tail(items)

    def clear(self) -> None:
        if len(self._sealed):
            self._sealed = SealedItems(self._store)
        self._start_tail([])

    def freeze(self) -> FrozenItems:
        tail = WholeItems(encode_items(self.codec, self._tail)) if self._tail else NoItems()
        return _FrozenList(self._sealed, tail) if len(self._sealed) else tail

    def load(self, restored: RestoredItems) -> None:
        is_small = restored.handle.item_count <= self._limit.entries
        for part, rows in restored.tables():
            if is_small:
                self.add_all(decode_items(self.codec, rows)[1])
            else:
                self._seal_rows(part, rows)

    def _seal_rows(self, part: ListPart | None, rows: pa.Table) -> None:
        start = len(self._sealed)
        step = max(1, min(self._limit.entries, self._limit.size_bytes * rows.num_rows // (rows.nbytes + 1)))
        for at in range(0, rows.num_rows, step):
            count = min(step, rows.num_rows - at)
            values = column_slice(rows["value"], at, count)
            self._sealed.seal(
                EncodedItems(pa.nulls(count), values, column_slice(rows["value_encoded"], at, count))
            )
        self._sealed.restored(part, start)

    def _start_tail(self, items: list[Any]) -> None:
        self._tail = items
        self._next_look = len(items) + 1

    def _seal(self) -> None:
        try:
            items = encode_items(self.codec, self._tail)
        except StateError as error:
            raise type(error)(f"{self._where}: {error}") from error
        self._sealed.seal(items)
        self._start_tail([])


def _first_merged(sizes: Sequence[int], inline_bytes: int) -> int | None:
    """The first of the runs that are to become one with all after it, or None.

    Each takes those before it that are at most twice as large as what is merged so far, so that an item is
    written again only a few times: size-tiered compaction, as that of segments.
    """
    if len(sizes) <= _MOST_RUNS and inline_bytes <= _MOST_INLINE_BYTES:
        return None
    total = sizes[-1]
    first = len(sizes) - 1
    for at, size in reversed(list(enumerate(sizes[:-1]))):
        if size > 2 * total or total + size > _MOST_RUN_BYTES:
            break
        first, total = at, total + size
    return first if first < len(sizes) - 1 else None


def _to_bytes(items: EncodedItems) -> bytes:
    batch = pa.record_batch({"value": items.values, "value_encoded": items.encoded})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _from_bytes(data: bytes) -> pa.Table:
    table = pa.ipc.open_stream(data).read_all()
    return table.append_column("map_key", pa.nulls(table.num_rows))
