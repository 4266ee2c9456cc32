"""What triggers, assigners, evictors and window functions are given of the operator that runs them."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ...common.errors import StateError
from ...state.backend import KeyedStateBackend
from ...state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ...state.kinds import AggregatingState, FoldingState, ListState, MapState, ReducingState, ValueState
from ..base import OperatorContext
from ..runtime_context import KeyedStateStore, RuntimeContext
from ..timers.timers import InternalTimerService
from ..window_functions import ProcessWindowFunction
from .assigners import WindowAssigner
from .evictors import Evictor
from .triggers import Trigger

D = TypeVar("D", bound=StateDescriptor)


class NamespacedStates:
    """Handles of namespaced states, by the descriptor of the user.

    Args:
        prefix: What their names start with, so that triggers and functions cannot meet each other's state.
    """

    def __init__(self, keyed: KeyedStateBackend, prefix: str) -> None:
        self._keyed = keyed
        self._prefix = prefix
        self._handles: dict[str, tuple[StateDescriptor, Any]] = {}

    def handle(self, descriptor: StateDescriptor) -> Any:
        """The state of a descriptor; it means the namespace that is set when it is used."""
        known = self._handles.get(descriptor.name)
        if known is not None and known[0] is descriptor:
            return known[1]
        state = self._declare(self._named(descriptor))
        self._handles[descriptor.name] = (descriptor, state)
        return state

    def _named(self, descriptor: D) -> D:
        named = copy.copy(descriptor)
        named.name = self._prefix + descriptor.name
        named.previous_names = tuple(self._prefix + name for name in descriptor.previous_names)
        return named

    def _declare(self, descriptor: StateDescriptor) -> Any:
        keyed = self._keyed
        if isinstance(descriptor, ValueStateDescriptor):
            return keyed.get_value_state(descriptor, namespaced=True)
        if isinstance(descriptor, ListStateDescriptor):
            return keyed.get_list_state(descriptor, namespaced=True)
        if isinstance(descriptor, MapStateDescriptor):
            return keyed.get_map_state(descriptor, namespaced=True)
        if isinstance(descriptor, ReducingStateDescriptor):
            return keyed.get_reducing_state(descriptor, namespaced=True)
        if isinstance(descriptor, AggregatingStateDescriptor):
            return keyed.get_aggregating_state(descriptor, namespaced=True)
        if isinstance(descriptor, FoldingStateDescriptor):
            return keyed.get_folding_state(descriptor, namespaced=True)
        raise StateError(f"there is no state for {descriptor!r}; pass a state descriptor")


class PerWindowStates(KeyedStateStore):
    """State of the current key and window (`context.window_state()`)."""

    def __init__(self, context: OperatorContext, keyed: KeyedStateBackend) -> None:
        super().__init__(context, keyed)
        self._states = NamespacedStates(keyed, "window.")

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        state: ValueState[Any] = self._handle(state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        state: ListState[Any] = self._handle(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        state: MapState[Any, Any] = self._handle(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        state: ReducingState[Any] = self._handle(state_descriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        state: AggregatingState[Any, Any] = self._handle(state_descriptor)
        return state

    def get_folding_state(self, state_descriptor: FoldingStateDescriptor) -> FoldingState[Any, Any]:
        state: FoldingState[Any, Any] = self._handle(state_descriptor)
        return state

    def _handle(self, descriptor: StateDescriptor) -> Any:
        return self._states.handle(descriptor)


class NoPerWindowStates(PerWindowStates):
    """Windows that merge have no state of their own: nobody could say how to merge it."""

    def _handle(self, descriptor: StateDescriptor) -> Any:
        raise StateError(
            f"operator {self._context.name_with_subtask}: state {descriptor.name!r}: windows that merge, "
            f"such as sessions, have no per-window state; use context.global_state()"
        )


class TriggerContext(Trigger.OnMergeContext):
    """What triggers are given; the namespace in the keyed backend is that of their window.

    Attributes:
        namespace: Of the window at hand.
        merged: Namespaces of the windows that are being merged into it.
    """

    def __init__(self, keyed: KeyedStateBackend, timers: InternalTimerService) -> None:
        self.namespace: Any = None
        self.merged: list[Any] = []
        self._keyed = keyed
        self._timers = timers
        self._states = NamespacedStates(keyed, "trigger.")

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark()

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(self.namespace, time)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(self.namespace, time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(self.namespace, time)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(self.namespace, time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._states.handle(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        if self.merged:
            state = self._states.handle(state_descriptor)
            self._keyed.merge_namespaces(state, self.namespace, self.merged)


class AssignerContext(WindowAssigner.WindowAssignerContext, Evictor.EvictorContext):
    """What assigners and evictors are given."""

    def __init__(self, runtime_context: RuntimeContext, timers: InternalTimerService) -> None:
        self._runtime_context = runtime_context
        self._timers = timers

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark()

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


class FunctionContext(ProcessWindowFunction.Context[Any]):
    """What window functions are given; the namespace in the keyed backend is that of their window.

    Attributes:
        of: The window at hand.
    """

    def __init__(
        self, timers: InternalTimerService, window_states: KeyedStateStore, global_states: KeyedStateStore
    ) -> None:
        self.of: Any = None
        self._timers = timers
        self._window_states = window_states
        self._global_states = global_states

    def window(self) -> Any:
        return self.of

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        return self._window_states

    def global_state(self) -> KeyedStateStore:
        return self._global_states
