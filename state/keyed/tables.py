"""State tables: the live values of one state, its write buffer, and the buffers frozen so far.

`values` holds live Python objects: all of them without an LMDB store, else a cache in two generations.
`dirty` holds what changed since the last freeze, `DELETED` for what was removed. A freeze swaps
`dirty`; nothing is copied. So that a frozen value can never change, a mutable value that is read while
not in `dirty` is replaced by a private copy first: only that copy is ever in the user's hands.

Values that cannot change become columns some thousands at a time (`log`), as long as nobody reads them
from the buffers: on the task's thread and not on that of snapshots, because there they are still in the
processor's cache and no second thread wants the interpreter lock (docs/adr/025).

LMDB gets nothing as long as `values` holds everything. With checkpoints it is filled from segments later;
without, `values` becomes its first write buffer when it is too large for a cache (docs/adr/050).

`values` never holds what LMDB would contradict: an entry leaves it only by `remove` or with its whole
generation, and then `dirty`, the frozen buffers (newest first) and LMDB still have it.
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import repeat, starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...common.errors import KeyTypeError
from ...protocol.spill_state import SpillEvent, SpillState, spill_after
from ..lmdb.write_interleaving import SMALL_ENTRIES, WriteInterleaver
from ..serializers.pickling import dumps
from ..serializers.type_layouts import IMMUTABLE_TYPES
from ..serializers.value_codecs import ValueCodec
from ..ttl.expiry import ExpiryLayout
from .read_ahead import ReadAhead

if TYPE_CHECKING:
    import pyarrow as pa

    from ..lmdb.store import LmdbTable


class _Deleted:
    """Marks a removed entry in a write buffer."""

    def __repr__(self) -> str:
        return "DELETED"


DELETED: Final = _Deleted()
MISSING: Final = object()

_FREE_CHUNK = 65_536
_FREE_SOME = 8_192
# In these many times the usual, a buffer is left to the snapshot thread: the loop would stand still.
_MOST_DRAINED = 8
# Columns hold every change, the buffer only the last of each key: it takes over when they get this large.
_MOST_LOG_BYTES = 64 << 20


def private_copy(value: Any) -> Any:
    """A value that shares nothing mutable with `value`; the value itself when it cannot change."""
    kind = type(value)
    if kind in IMMUTABLE_TYPES or (kind is tuple and IMMUTABLE_TYPES.issuperset(map(type, value))):
        return value
    return pickle.loads(dumps(value))


class PackedRows(NamedTuple):
    """Changes of integer keys to values of fixed width, in the order in which they came.

    Attributes:
        keys: 64-bit integers, one after the other.
        fields: each field of the values in the same way.
        num_rows: how many changes.
    """

    keys: bytes
    fields: list[bytes]
    num_rows: int

    @property
    def nbytes(self) -> int:
        """Size of all of it."""
        return len(self.keys) + sum(map(len, self.fields))


class FrozenTable:
    """What changed in one table between two freezes.

    Args:
        log: earlier changes, as unsorted change tables or packed.
    """

    __slots__ = ("changes", "has_deletes", "log", "table")

    def __init__(
        self, table: StateTable, changes: dict[Any, Any], has_deletes: bool, log: list[pa.Table | PackedRows]
    ) -> None:
        self.table = table
        self.changes = changes
        self.has_deletes = has_deletes
        self.log = log

    @property
    def is_small(self) -> bool:
        """Whether it takes less time than to alternate with the loop. A key of a map may hold a million."""
        return not self.table.is_map and len(self.changes) <= SMALL_ENTRIES

    def release(self, turns: WriteInterleaver) -> None:
        """Drop the buffer piece by piece, so that the task's thread gets the GIL in between."""
        changes = self.changes
        if self.is_small:
            changes.clear()
        while changes:
            count = min(_FREE_CHUNK, len(changes))
            with turns.writing():
                deque(starmap(changes.popitem, repeat((), count)), maxlen=0)


@dataclass(frozen=True)
class TableSettings:
    """What a table must know about its state.

    Attributes:
        name: of the state.
        codec: of the stored values.
        copy: makes a private copy of a value; None when values are immutable.
        cache_entries: size of one generation of `values`; None keeps everything.
        journals: whether changes must be remembered for a snapshot.
        store: the table in LMDB, or None.
        is_namespaced: whether the keys of the table are pairs of key and namespace.
        expiry: how entries carry their expiry; None without a time to live.
    """

    name: str
    codec: ValueCodec
    copy: Callable[[Any], Any] | None
    cache_entries: int | None
    journals: bool
    store: LmdbTable | None
    is_namespaced: bool = False
    expiry: ExpiryLayout | None = None


class StateTable(ABC):
    """What the tables of all kinds of state share."""

    is_map: bool
    # Whether changes may become columns before the freeze.
    can_drain = True

    def __init__(self, settings: TableSettings) -> None:
        self.name = settings.name
        self.codec = settings.codec
        self.copy = settings.copy
        self.store = settings.store
        self.is_namespaced = settings.is_namespaced
        self.expiry = settings.expiry
        self.spill = SpillState.NONE
        # Where a miss in `values` goes on: nowhere as long as `values` holds everything there is.
        self.behind: LmdbTable | None = None
        self.values: dict[Any, Any] = {}
        # Without snapshots nobody asks what changed: with one dict for both, nothing is kept twice.
        self.dirty: dict[Any, Any] = {} if settings.journals else self.values
        self.log: list[pa.Table | PackedRows] = []
        self.log_bytes = 0
        # Not where the same keys change again and again: a buffer holds each only once.
        self.is_draining = settings.journals and self.copy is None and self.can_drain
        self.frozen: tuple[FrozenTable, ...] = ()
        # Both threads replace `frozen`; neither ever does anything slow under this lock.
        self._frozen_lock = threading.Lock()
        self.has_deletes = False
        # The column forms that fitted last time: saves failed attempts at the next snapshot.
        self.key_hints: dict[str, int] = {}
        self._old: dict[Any, Any] = {}
        self.cache_entries = settings.cache_entries
        self.journals = settings.journals
        self._discarded: dict[Any, Any] = {}

    @property
    @abstractmethod
    def dirty_entries(self) -> int:
        """About how many entries the write buffer holds."""

    @property
    @abstractmethod
    def cached_entries(self) -> int:
        """About how many entries the young generation of `values` holds."""

    @abstractmethod
    def load(self, keys: list[Any], map_keys: list[Any] | None, values: list[Any]) -> None:
        """Put restored entries into `values`."""

    def happened(self, event: SpillEvent) -> None:
        """Change where the entries are: on the task's thread, or for `FILLED` on the snapshot thread."""
        self.spill = spill_after(self.spill, event)

    @property
    def is_backed(self) -> bool:
        """Whether LMDB must get every change."""
        return self.spill in (SpillState.FILLING, SpillState.COMPLETE)

    def freeze(self) -> FrozenTable | None:
        """Swap the write buffer; None when it is empty, or when nobody asks what changed."""
        if not self.journals or not (self.dirty or self.log):
            return None
        frozen = self._taken()
        frozen.log, self.log, self.log_bytes = self.log, [], 0
        if self.is_backed:
            with self._frozen_lock:
                self.frozen = (*self.frozen, frozen)
        return frozen

    def judge_draining(self, changed: int, records: int) -> None:
        """Decide whether to make columns of changes as they come.

        Args:
            changed: different entries that were changed by some records.
            records: how many records.
        """
        self.is_draining = self.journals and self.copy is None and self.can_drain and 2 * changed > records

    def is_drain_due(self, entries: int) -> bool:
        """Whether the write buffer holds so many entries, and columns are to be made of them."""
        return (
            self.is_draining
            and entries <= self.dirty_entries < _MOST_DRAINED * entries
            and not self.is_backed
            and self.log_bytes < _MOST_LOG_BYTES
        )

    def drain(self, to_rows: Callable[[FrozenTable], pa.Table | PackedRows]) -> None:
        """Make columns of the write buffer.

        Raises:
            StateError: when a value cannot be stored as its declared type; the buffer stays as it was.
            KeyTypeError: when a key has no deterministic encoding; the same.
        """
        rows = to_rows(FrozenTable(self, self.dirty, self.has_deletes, []))
        self.log.append(rows)
        self.log_bytes += rows.nbytes
        self._taken()

    def _taken(self) -> FrozenTable:
        """The write buffer, in whose place there is an empty one."""
        taken = FrozenTable(self, self.dirty, self.has_deletes, [])
        self.dirty = {}
        self.has_deletes = False
        return taken

    def forget_frozen(self, frozen: FrozenTable) -> None:
        """A frozen buffer is in LMDB now. Called on the snapshot thread.

        Readers on the task's thread may still hold the old tuple: they look into LMDB after it.
        """
        with self._frozen_lock:
            self.frozen = tuple(other for other in self.frozen if other is not frozen)

    def prefetch(self, keys: Collection[Any]) -> None:
        """These keys are about to be used; a table may fetch what it does not have in memory."""

    def trim(self) -> bool:
        """Start a new cache generation if the young one is full; whether it was. Independent of its size.

        While LMDB does not have what would be dropped this only asks for it.
        """
        if self.cache_entries is None or self.cached_entries <= self.cache_entries:
            return False
        if self.spill is SpillState.NONE and not self.journals:
            self.back_by_store()
            return True
        if self.spill is not SpillState.COMPLETE:
            if self.spill is SpillState.NONE:
                self.happened(SpillEvent.OUTGREW_MEMORY)
            return False
        self._discarded = self._old
        self._old = self.values
        self.values = {}
        self.behind = self.store
        return True

    def back_by_store(self) -> None:
        """From now on LMDB gets every change, and has everything that is not in a buffer.

        Where changes have not been remembered, all of `values` is one: the cache begins anew.
        """
        if not self.journals:
            self.values = {}
            self.journals = True
        self.happened(SpillEvent.STORED)
        self.behind = self.store

    def release_discarded(self) -> None:
        """Free some of the oldest cache generation: more than a batch of that size can have read anew."""
        discarded = self._discarded
        for _ in range(min(_FREE_SOME, len(discarded))):
            discarded.popitem()


class FlatTable(StateTable):
    """One value per key. None is not a value: it means that there is none."""

    is_map = False

    def __init__(self, settings: TableSettings) -> None:
        super().__init__(settings)
        self._read_ahead = ReadAhead()
        # Keys of this batch that are known to be nowhere.
        self._absent: set[Any] = set()

    @property
    def dirty_entries(self) -> int:
        return len(self.dirty)

    @property
    def cached_entries(self) -> int:
        return len(self.values)

    def read(self, key: Any) -> Any:
        """The value of a key, private to the caller; None when there is none."""
        value = self.values.get(key)
        if value is None:
            if self.behind is None:
                return None
            return self._read_behind(key, self.behind)
        if self.copy is not None and key not in self.dirty:
            value = self.values[key] = self.copy(value)
        return value

    def peek(self, key: Any) -> Any:
        """The value of a key, to be looked at only; None when there is none."""
        value = self.values.get(key)
        return self.read(key) if value is None and self.behind is not None else value

    def read_many(self, keys: Collection[Any]) -> list[Any]:
        """The values of many keys, as `read` gives them."""
        is_plain = self.behind is None and self.copy is None
        return list(map(self.values.get if is_plain else self.read, keys))

    def write(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self.values[key] = value
        self.dirty[key] = value

    def write_many(self, keys: Collection[Any], values: Collection[Any]) -> None:
        """Set the values of many keys."""
        self.values.update(zip(keys, values))
        if self.dirty is not self.values:
            self.dirty.update(zip(keys, values))

    def remove_many(self, keys: Collection[Any]) -> None:
        """Remove the values of many keys."""
        deque(map(self.values.pop, keys, repeat(None)), maxlen=0)
        if self.journals:
            deque(map(self._old.pop, keys, repeat(None)), maxlen=0)
            self.dirty.update(zip(keys, repeat(DELETED)))
            self.has_deletes = True

    def remove(self, key: Any) -> None:
        """Remove the value of a key."""
        self.values.pop(key, None)
        if self.journals:
            self._old.pop(key, None)
            self.dirty[key] = DELETED
            self.has_deletes = True

    def load(self, keys: list[Any], map_keys: list[Any] | None, values: list[Any]) -> None:
        self.values.update(zip(keys, values, strict=True))

    def freeze(self) -> FrozenTable | None:
        # What was absent may have been written since, and will leave the buffers for LMDB.
        self._absent = set()
        return super().freeze()

    def prefetch(self, keys: Collection[Any]) -> None:
        store = self.behind
        if store is None or self.is_namespaced or not self._read_ahead.is_due(len(keys)):
            return
        try:
            # The buffers first and LMDB after, as in `_read_behind`. One by one: given several collections, a
            # set goes over all but the first entry by entry, as `difference_update` does over any.
            unknown = set(keys)
            for known in (self.values, self._old, self.dirty, *(frozen.changes for frozen in self.frozen)):
                unknown = unknown.difference(known)
            found = store.get_many(list(unknown))
        except (KeyTypeError, TypeError):
            # Some key cannot be one. The record that has it will fail, with its name in the error.
            return
        self._absent = unknown.difference(found)
        self.trim()
        self.values.update(found)

    def _read_behind(self, key: Any, store: LmdbTable) -> Any:
        value = self._old.get(key)
        if value is None:
            value = self.dirty.get(key)
        if value is None:
            # The buffers first and LMDB after: what leaves a buffer is in LMDB before.
            for frozen in reversed(self.frozen):
                value = frozen.changes.get(key)
                if value is not None:
                    break
            else:
                if key in self._absent:
                    return None
                self._read_ahead.single_reads += 1
                value = store.get(key)
        if value is None or value is DELETED:
            return None
        if self.copy is not None and key not in self.dirty:
            value = self.copy(value)
        self.trim()
        self.values[key] = value
        return value
