"""The keyed backend: tables of live values, with or without LMDB behind them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from ...common.errors import CheckpointStorageError, KeyTypeError, StateError
from ...common.typeinfo import Types
from ...protocol.checkpoints.handles import KeyedStateHandle
from ...protocol.spill_state import SpillEvent, SpillState
from ..backend import BackendClosedError, FrozenKeyedState, KeyedStateBackend, KeyedStateBackendParameters
from ..claims import Unclaimed
from ..descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ..kinds import (
    AggregatingState,
    FoldingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from ..lmdb.write_interleaving import WriteInterleaver
from ..serializers.codecs import value_codec
from ..serializers.encoded_values import damage_named
from ..serializers.key_hashing import key_groups_of
from ..snapshots.segment_log import TINY_ENTRIES, SegmentLog
from ..snapshots.segments import column_slice, decoded_values, key_values
from ..ttl.expiration import Expiration
from ..ttl.ttl_cleanup import IncrementalCleanUp
from .all_keys import all_keys
from .changes import change_table, drained_rows
from .conversion import StateConversion
from .declared_schemas import DeclaredSchemas
from .frozen_buffers import Epoch, FrozenTables, cut_off_of
from .key_context import MergeableState, NamespacedKeys
from .memory_budget import MemoryBudget
from .memory_load import load_into_memory
from .queryable_state import query
from .state_factory import StateFactory, StateParts
from .tables import FrozenTable, StateTable, TableSettings
from .timer_table import TimerTable

if TYPE_CHECKING:
    from ..lmdb.store import LmdbStore

_SAMPLE_ROWS = 64
# About what is still in the processor's cache, and some milliseconds of work.
DRAIN_ENTRIES = 16_384


class TableKeyedStateBackend(KeyedStateBackend):
    """Keyed state in tables.

    Args:
        store: the LMDB environment behind the tables; None keeps everything in memory.
        budget: bounds the memory in front of `store`.
        drain_entries: of how many changes columns are made before the freeze.
        tiny_entries: how large a state may be that is written anew in each checkpoint.
    """

    def __init__(
        self,
        params: KeyedStateBackendParameters,
        store: LmdbStore | None = None,
        budget: MemoryBudget | None = None,
        drain_entries: int = DRAIN_ENTRIES,
        tiny_entries: int = TINY_ENTRIES,
    ) -> None:
        self.current_key: Any = None
        self.current_namespace: Any = None
        self.where = f"operator {params.operator_name!r}, subtask {params.subtask_index}"
        self._params = params
        self._store = store
        self._turns = WriteInterleaver() if store is None else store.turns
        self._budget = budget
        self._drain_entries = drain_entries
        if store is not None or params.has_snapshots:
            _warm_up()
        self._factory = StateFactory(
            store,
            params.max_parallelism,
            cache_entries=None if budget is None else budget.first_cache_entries,
            journals=params.has_snapshots,
            processing_time=params.now_ms,
            event_time=lambda: self.current_watermark,
        )
        self._tables: dict[str, StateTable] = {}
        self._states: dict[str, StateParts] = {}
        self._per_record: list[IncrementalCleanUp] = []
        self._schemas = DeclaredSchemas(params, self.where)
        # Records since the last freeze.
        self._records = 0
        self._log = SegmentLog(params, tiny_entries)
        self._pending: deque[Epoch] = deque()
        self._epochs = 0
        # The spill that is being stored, if any, and why the last attempt to store anything failed.
        self._spilling_epoch = 0
        self._failure: Exception | None = None
        self._persist_lock = threading.Lock()
        # In segments, but not yet in LMDB, and the thread that brings it there.
        self._unstored: deque[Epoch] = deque()
        self._write_behind: Future[None] | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._is_closed = False

    def get_value_state(self, descriptor: ValueStateDescriptor, namespaced: bool = False) -> ValueState[Any]:
        return cast(ValueState[Any], self._state(descriptor, namespaced))

    def get_list_state(self, descriptor: ListStateDescriptor, namespaced: bool = False) -> ListState[Any]:
        return cast(ListState[Any], self._state(descriptor, namespaced))

    def get_map_state(self, descriptor: MapStateDescriptor, namespaced: bool = False) -> MapState[Any, Any]:
        return cast(MapState[Any, Any], self._state(descriptor, namespaced))

    def get_reducing_state(
        self, descriptor: ReducingStateDescriptor, namespaced: bool = False
    ) -> ReducingState[Any]:
        return cast(ReducingState[Any], self._state(descriptor, namespaced))

    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor, namespaced: bool = False
    ) -> AggregatingState[Any, Any]:
        return cast(AggregatingState[Any, Any], self._state(descriptor, namespaced))

    def get_folding_state(
        self, descriptor: FoldingStateDescriptor, namespaced: bool = False
    ) -> FoldingState[Any, Any]:
        return cast(FoldingState[Any, Any], self._state(descriptor, namespaced))

    def get_timers(self, name: str) -> TimerTable:
        if name in self._tables:
            raise StateError(f"{self.where}: there are timers or a state named {name!r} already")
        descriptor = ValueStateDescriptor(name, Types.BOOLEAN())
        schema = self._schemas.declare(descriptor, True, self._tables, self._rename)
        codec = value_codec(descriptor.type_info)
        journals = self._params.has_snapshots
        table = TimerTable(TableSettings(name, codec, None, None, journals, None, is_namespaced=True))
        self._load(table, self._conversion(descriptor, schema, table), None)
        self._register(table, schema)
        return table

    def merge_namespaces(self, state: MergingState[Any, Any], target: Any, sources: Iterable[Any]) -> None:
        if not isinstance(state, MergeableState) or not state.is_namespaced:
            raise StateError(
                f"{self.where}: only list, reducing and aggregating states that were declared "
                f"with namespaces can be merged, not {type(state).__name__}"
            )
        before = self.current_namespace
        try:
            for source in sources:
                if source != target:
                    self.current_namespace = source
                    taken = state.take()
                    self.current_namespace = target
                    state.merge(taken)
        finally:
            self.current_namespace = before

    def keys(self, state_name: str) -> Iterator[Any]:
        return all_keys(self._states[state_name].table)

    def query(self, state_name: str, key: Any, namespace: Any = None) -> Any:
        parts = self._states.get(state_name)
        if parts is None:
            there = ", ".join(map(repr, sorted(self._states))) or "none"
            raise StateError(f"{self.where}: there is no keyed state {state_name!r}; there is: {there}")
        return query(self.where, parts, key, namespace)

    def table_keys(self, keys: Sequence[Any]) -> Sequence[Any]:
        """Keys are in the tables as they are; see `KeyContext`."""
        return keys

    def check_owned(self, keys: Sequence[Any]) -> None:
        """Raise `StateError` if a key belongs to another subtask."""
        owned = self._params.key_groups
        groups = key_groups_of(keys, self._params.max_parallelism)
        foreign = np.flatnonzero((groups < owned.start) | (groups > owned.end))
        if len(foreign):
            raise StateError(
                f"{self.where}: the key {keys[foreign[0]]!r:.100} belongs to another subtask; put_many() "
                f"takes keys of the batch at hand only"
            )

    def prefetch(self, keys: Collection[Any]) -> None:
        for table in self._tables.values():
            table.prefetch(keys)

    def records_processed(self, count: int) -> None:
        for clean_up in self._per_record:
            clean_up.on_records(count)
        self._records += count
        for table in self._tables.values():
            if table.is_drain_due(self._drain_entries):
                self._drain(table)

    def _drain(self, table: StateTable) -> None:
        try:
            table.drain(lambda buffer: drained_rows(buffer, self._params.max_parallelism))
        except (StateError, KeyTypeError):
            # What cannot be stored fails the next snapshot, which tells of it, and not the record at hand.
            table.is_draining = False

    def restore(self, handle: KeyedStateHandle, owned: bool) -> None:
        self._log.restore(handle, owned)
        self._schemas.restore(handle.descriptors)

    def opened(self) -> None:
        self._schemas.claims.opened(self._tables)

    def unclaimed(self) -> list[Unclaimed]:
        missing = [name for name in self._schemas.known if name not in self._tables and self._log.holds(name)]
        return self._schemas.claims.unclaimed(missing)

    @property
    def needs_spill(self) -> bool:
        budget = self._budget
        if budget is None:
            return False
        budget.look(self._tables.values())
        for table in self._tables.values():
            table.release_discarded()
        if self._failure is not None and budget.buffer_bytes > budget.size_bytes:
            raise CheckpointStorageError(
                f"{self.where}: changed state takes {budget.buffer_bytes:,} bytes of memory, more than the "
                f"{budget.size_bytes:,} it may have, and cannot be stored: {self._failure}"
            ) from self._failure
        return budget.is_spill_due and not self._spilling_epoch

    @property
    def is_ready(self) -> bool:
        is_full = self._budget is not None and bool(self._spilling_epoch) and self._budget.are_buffers_full
        return self._turns.may_process() and not is_full

    def rest(self) -> None:
        self._turns.rest()

    def freeze(self) -> FrozenKeyedState:
        tables = self._tables.values()
        size_bytes = 0 if self._budget is None else self._budget.froze(tables)
        for table in tables:
            if self._records and not table.log:
                table.judge_draining(table.dirty_entries, self._records)
        self._records = 0
        frozen = [table.freeze() for table in tables]
        self._epochs += 1
        changed = deque(table for table in frozen if table is not None)
        cut_offs = {name: cut_off_of(parts) for name, parts in self._states.items() if parts.ttl is not None}
        self._pending.append(
            Epoch(self._epochs, changed, deque(), deque(), self._schemas.known, size_bytes, cut_offs)
        )
        return self._frozen(is_spill=False)

    def spill(self) -> FrozenKeyedState:
        self.freeze()
        self._spilling_epoch = self._epochs
        for table in self._tables.values():
            if table.spill is SpillState.WANTED:
                table.happened(SpillEvent.SPILL_BEGUN)
                self._pending[-1].filled.append(table)
        return self._frozen(is_spill=True)

    def _frozen(self, is_spill: bool) -> FrozenTables:
        times = {"processing-time": self._params.now_ms(), "event-time": self.current_watermark}
        expiration = Expiration(times, {name: parts.table.codec for name, parts in self._states.items()})
        return FrozenTables(self.persist_until, self._epochs, is_spill, expiration)

    def persist_until(self, epoch_number: int, is_spill: bool) -> KeyedStateHandle:
        """Store every buffer frozen up to an epoch; see `FrozenKeyedState.persist`.

        A checkpoint needs only the segments: LMDB gets the same changes behind it, before anything else
        is persisted, if it has anything of the state. A spill is there to free memory, and so waits for LMDB.
        """
        with self._persist_lock:
            if self._is_closed:
                # The task ended while this waited for its thread.
                raise BackendClosedError(f"{self.where}: the backend is closed; nothing can be stored")
            try:
                self._settle()
                schemas = self._persist_epochs(epoch_number)
                if self._store is not None and is_spill:
                    self._write_unstored(self._store)
                self._failure = None
                if self._store is not None and not is_spill:
                    self._start_writing_behind(self._store)
            except Exception as error:
                self._failure = error
                raise
            finally:
                if epoch_number >= self._spilling_epoch:
                    self._spilling_epoch = 0
            if is_spill:
                # No checkpoint names them: what the next one still needs may be fewer files.
                return KeyedStateHandle(self._log.segments(), schemas)
            segments, dropped = self._log.take_snapshot()
            # A state that was renamed after the freeze has its new name already.
            renamed = {s.state_name for s in segments if s.state_name not in schemas}
            schemas = {**schemas, **{name: self._schemas.known[name] for name in renamed}}
            return KeyedStateHandle(segments, self._schemas.marked(schemas), dropped)

    def _persist_epochs(self, epoch_number: int) -> dict[str, dict[str, object]]:
        schemas: dict[str, dict[str, object]] = {}
        while self._pending and self._pending[0].number <= epoch_number:
            epoch = self._pending[0]
            schemas = epoch.schemas
            # One buffer after the other, each dropped when it is stored: what fails stays.
            while epoch.frozen:
                changes = self._persist(epoch.frozen[0], epoch)
                frozen = epoch.frozen.popleft()
                if frozen in frozen.table.frozen:
                    epoch.unstored.append((frozen, changes))
                else:
                    frozen.release(self._turns)
            if self._params.has_snapshots:
                self._log.tidy(epoch.cut_offs)
            self._pending.popleft()
            if self._store is not None:
                self._unstored.append(epoch)
        return schemas

    def _start_writing_behind(self, store: LmdbStore) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="state-lmdb")

        def write() -> None:
            try:
                self._write_unstored(store)
            except Exception as error:
                # Kept for the loop, which fails when memory runs out; the next persist tries again.
                self._failure = error
                raise

        self._write_behind = self._executor.submit(write)

    def _settle(self) -> None:
        """Have everything in LMDB that is in segments; raises what keeps it from getting there."""
        if self._store is None:
            return
        behind, self._write_behind = self._write_behind, None
        has_failed = behind is not None and behind.exception() is not None
        if self._unstored or has_failed:
            self._write_unstored(self._store)

    def _write_unstored(self, store: LmdbStore) -> None:
        while self._unstored:
            epoch = self._unstored[0]
            while epoch.unstored:
                frozen, changes = epoch.unstored[0]
                assert frozen.table.store is not None
                frozen.table.store.write(changes)
                frozen.table.forget_frozen(frozen)
                frozen.release(self._turns)
                epoch.unstored.popleft()
            while epoch.filled:
                self._fill(epoch.filled[0])
                epoch.filled.popleft()
            self._unstored.popleft()
            if self._budget is not None:
                self._budget.stored(epoch.size_bytes)
        self._sweep_expired(store)
        store.compact_if_grown()

    def _fill(self, table: StateTable) -> None:
        """Write to LMDB what the segments hold of a table that memory has become too small for."""
        assert table.store is not None
        contents = self._log.contents(table.name)
        if contents is not None:
            table.store.write(contents)
        table.happened(SpillEvent.FILLED)

    def close(self) -> None:
        with self._persist_lock:
            self._is_closed = True
            self._log.close()
            if self._executor is not None:
                self._executor.shutdown(wait=True)
            if self._store is not None:
                self._store.close()
            self._tables.clear()
            self._states.clear()
            self._pending.clear()
            self._unstored.clear()

    def _persist(self, frozen: FrozenTable, epoch: Epoch) -> pa.Table:
        """Store a buffer as a segment; the same as a change table."""
        table = frozen.table
        try:
            changes = change_table(frozen, self._params.max_parallelism, self._turns)
        except (StateError, KeyTypeError) as error:
            raise type(error)(f"{self.where}: state {table.name!r}: {error}") from error
        if self._params.has_snapshots:
            schema = _stored_schema(epoch.schemas[table.name], table)
            self._log.append(table.name, schema, changes, epoch.cut_offs.get(table.name))
        if frozen.log:
            rows = sum(part.num_rows for part in frozen.log) + len(frozen.changes)
            table.judge_draining(changes.num_rows, rows)
            frozen.log = []
        return changes

    def _sweep_expired(self, store: LmdbStore) -> None:
        times_ms: dict[int, int] = {}
        for parts in list(self._states.values()):
            ttl, table = parts.ttl, parts.table.store
            now_ms = None if ttl is None or not ttl.in_compactions else ttl.clock()
            if table is not None and now_ms is not None:
                times_ms[table.state_id] = now_ms
        if times_ms:
            store.sweep_expired(times_ms)

    def _state(self, descriptor: StateDescriptor, namespaced: bool) -> State:
        """The handle of a state, which is created and loaded when it is first asked for."""
        name = descriptor.get_name()
        if name in self._states:
            self._schemas.check_same(descriptor, namespaced)
            return self._states[name].handle
        schema = self._schemas.declare(descriptor, namespaced, self._states, self._rename)
        keys = NamespacedKeys(self) if namespaced else self
        parts = self._factory.create(descriptor, len(self._states), namespaced, keys)
        self._load(parts.table, self._conversion(descriptor, schema, parts.table), cut_off_of(parts))
        self._register(parts.table, schema)
        self._states[name] = parts
        if parts.clean_up is not None and parts.clean_up.runs_for_every_record:
            self._per_record.append(parts.clean_up)
        return parts.handle

    def _register(self, table: StateTable, schema: dict[str, object]) -> None:
        """Have a table in all snapshots from now on."""
        self._schemas.add(table.name, schema)
        # Replaced, never changed, as the schemas are.
        self._tables = {**self._tables, table.name: table}

    def _rename(self, before: str, after: str) -> None:
        with self._persist_lock:
            self._log.rename(before, after)

    def _conversion(
        self, descriptor: StateDescriptor, schema: dict[str, object], table: StateTable
    ) -> StateConversion:
        return StateConversion(
            f"{self.where}: state {table.name!r}",
            _stored_schema(schema, table),
            descriptor.type_info,
            is_list=descriptor.kind == "list",
        )

    def _load(self, table: StateTable, conversion: StateConversion, cut_off: int | None) -> None:
        """Fill a table with what was restored for its state."""
        with damage_named(f"{self.where}: state {table.name!r}"):
            with self._persist_lock:
                stored = self._log.read(table.name, conversion, cut_off)
                if stored is None:
                    return
                if table.store is not None and not self._fits(table, stored):
                    self._settle()
                    table.store.write(stored)
                    table.back_by_store()
                    return
            load_into_memory(table, stored)

    def _fits(self, table: StateTable, stored: pa.Table) -> bool:
        """Whether memory can hold restored entries, and LMDB can be filled later if it cannot any more."""
        if self._budget is None or table.spill is not SpillState.NONE:
            return False
        rows = min(_SAMPLE_ROWS, stored.num_rows)
        keys = key_values(column_slice(stored["key"], 0, rows))
        sample = list(zip(keys, decoded_values(table.codec, stored, 0, rows), strict=True))
        return self._budget.has_room(self._tables.values(), stored.num_rows, sample, table.is_map)


def _stored_schema(schema: dict[str, object], table: StateTable) -> dict[str, object]:
    """What segment files say about a state."""
    return {**schema, "value_encoding": "pickle" if table.codec.is_pickled else "typed"}


def _warm_up() -> None:
    """Have pyarrow import pandas now, unless that is deferred, and not within the first snapshot."""
    pa.array(np.zeros(1))
