"""Makes the table and the handle of a state from its descriptor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...common.typeinfo import ListTypeInfo, PickledBytesTypeInfo
from ..descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ..kinds import State
from ..serializers.codecs import ValueCodec, value_codec
from ..ttl.expiry import ExpiryLayout, ListExpiry, SingleExpiry
from ..ttl.ttl_cleanup import IncrementalCleanUp
from ..ttl.ttl_tables import ExpiringFlat, ExpiringMap, Ttl
from ..ttl_config import StateTtlConfig
from .key_context import KeyContext
from .keyed_states import (
    DirectValueState,
    ExpiringListState,
    ImmutableValueState,
    TableAggregatingState,
    TableFoldingState,
    TableListState,
    TableMapState,
    TableReducingState,
    TableValueState,
)
from .map_keys import MapKeys
from .map_table import MapTable
from .tables import FlatTable, TableSettings, private_copy

if TYPE_CHECKING:
    from ..lmdb.store import LmdbStore


@dataclass(frozen=True)
class StateParts:
    """One state of a backend.

    Attributes:
        ttl: its time to live, or None.
        clean_up: its incremental clean-up, or None.
    """

    table: FlatTable | MapTable
    handle: State
    ttl: Ttl | None
    clean_up: IncrementalCleanUp | None


@dataclass(frozen=True)
class StateFactory:
    """What the states of one backend share.

    Attributes:
        store: the LMDB environment; None keeps everything in memory.
        cache_entries: see `TableSettings`.
        journals: see `TableSettings`.
        processing_time: the clock of the task, in milliseconds.
        event_time: the current watermark; None before the first.
    """

    store: LmdbStore | None
    max_parallelism: int
    cache_entries: int | None
    journals: bool
    processing_time: Callable[[], int]
    event_time: Callable[[], int | None]

    def create(
        self, descriptor: StateDescriptor, state_id: int, is_namespaced: bool, keys: KeyContext
    ) -> StateParts:
        """A new state.

        Args:
            state_id: tells the states of one LMDB environment apart.
            keys: where its handle finds the current key.
        """
        ttl = None if descriptor.ttl_config is None else self._ttl(descriptor.ttl_config)
        expiry: ExpiryLayout | None = None
        if ttl is not None:
            expiry = ListExpiry() if isinstance(descriptor, ListStateDescriptor) else SingleExpiry()
        codec, copy = _stored_form(descriptor)
        store = None
        if self.store is not None:
            store = self.store.table(state_id, codec, self.max_parallelism, is_namespaced, expiry)
        settings = TableSettings(
            descriptor.get_name(),
            codec,
            copy,
            self.cache_entries,
            self.journals,
            store,
            is_namespaced,
            expiry,
        )
        is_map = isinstance(descriptor, MapStateDescriptor)
        table = MapTable(settings) if is_map else FlatTable(settings)
        clean_up = None if ttl is None or ttl.incremental is None else IncrementalCleanUp(table, ttl)
        on_access = _nothing if clean_up is None else clean_up.on_access
        return StateParts(table, _handle(descriptor, keys, table, ttl, on_access), ttl, clean_up)

    def _ttl(self, config: StateTtlConfig) -> Ttl:
        is_event_time = config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
        return Ttl(config, self.event_time if is_event_time else self.processing_time)


def _nothing() -> None:
    """The clean-up on access of a state without one."""


def _stored_form(descriptor: StateDescriptor) -> tuple[ValueCodec, Callable[[Any], Any] | None]:
    """How the values of a state are stored, and how a private copy is made."""
    codec = value_codec(descriptor.type_info)
    if not isinstance(descriptor, ListStateDescriptor):
        return codec, None if codec.immutable else private_copy
    if not isinstance(descriptor.type_info, PickledBytesTypeInfo):
        return value_codec(ListTypeInfo(descriptor.type_info)), list if codec.immutable else private_copy
    return codec, private_copy


def _handle(
    descriptor: StateDescriptor,
    keys: KeyContext,
    table: FlatTable | MapTable,
    ttl: Ttl | None,
    on_access: Callable[[], None],
) -> State:
    if isinstance(table, MapTable):
        assert isinstance(descriptor, MapStateDescriptor)
        map_keys = MapKeys(keys.where, table.name, descriptor.key_type_info)
        return TableMapState(keys, table if ttl is None else ExpiringMap(table, ttl, on_access), map_keys)
    if isinstance(descriptor, ListStateDescriptor):
        return TableListState(keys, table) if ttl is None else ExpiringListState(keys, table, ttl, on_access)
    if isinstance(descriptor, ValueStateDescriptor) and ttl is None:
        if table.copy:
            return DirectValueState(keys, table, descriptor)
        return ImmutableValueState(keys, table, descriptor)
    values = table if ttl is None else ExpiringFlat(table, ttl, on_access)
    if isinstance(descriptor, ValueStateDescriptor):
        return TableValueState(keys, values, descriptor)
    if isinstance(descriptor, ReducingStateDescriptor):
        return TableReducingState(keys, values, descriptor)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return TableAggregatingState(keys, values, descriptor)
    if isinstance(descriptor, FoldingStateDescriptor):
        return TableFoldingState(keys, values, descriptor)
    raise AssertionError(f"no handle for {type(descriptor).__name__}")
