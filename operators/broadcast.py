"""Operators of the broadcast state pattern: input 0 is the stream, input 1 the broadcast stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

from ..common.errors import StateError
from ..common.typeinfo import TypeInformation
from ..protocol.elements import Batch
from ..state.backend import KeyedStateBackend
from ..state.descriptors import MapStateDescriptor, StateDescriptor
from ..state.kinds import BroadcastState, ListState, MapState, ReadOnlyBroadcastState, ValueState
from .base import OperatorContext, StreamOperator
from .broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from .elementwise import ProcessOperator, process_unkeyed
from .functions import as_callable
from .keyed.keyed import KeyedProcessOperator, Selector
from .process import KeyedRecordContext, RecordContext, TimerContext
from .runtime_context import KeyedStateStore, declared_state
from .timers.timer_service import TimerService

_STREAM, _BROADCAST = 0, 1
_ELEMENT, _BROADCAST_ELEMENT = "process_element", "process_broadcast_element"


class _BroadcastStates:
    """The maps of one operator, by name, and views of them that cannot be written."""

    def __init__(self, context: OperatorContext, descriptors: Sequence[MapStateDescriptor]) -> None:
        self._where = context.name_with_subtask
        self._states = {
            descriptor.get_name(): context.operator_state.get_broadcast_state(descriptor)
            for descriptor in descriptors
        }
        self._views = {name: _ReadOnlyView(state, self._where, name) for name, state in self._states.items()}

    def get(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map, to be written."""
        return self._states[self._known(descriptor)]

    def view(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """A map, to be read."""
        return self._views[self._known(descriptor)]

    def _known(self, descriptor: MapStateDescriptor) -> str:
        name = descriptor.get_name()
        if name not in self._states:
            raise StateError(
                f"operator {self._where}: there is no broadcast state {name!r}, but "
                f"{', '.join(sorted(self._states)) or 'none at all'}; name it in broadcast(descriptor, …)"
            )
        return name


class _ReadOnlyView(ReadOnlyBroadcastState[Any, Any]):
    """A map as the records of the other stream see it. Writing would make the subtasks differ."""

    def __init__(self, state: BroadcastState[Any, Any], where: str, name: str) -> None:
        self._state = state
        self._message = (
            f"operator {where}: broadcast state {name!r} was written from process_element() or on_timer(), "
            f"which only some subtasks run; write it in process_broadcast_element()"
        )

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def put(self, key: Any, value: Any) -> NoReturn:
        """Refused."""
        raise StateError(self._message)

    def put_all(self, dict_value: dict[Any, Any]) -> NoReturn:
        """Refused."""
        raise StateError(self._message)

    def remove(self, key: Any) -> NoReturn:
        """Refused."""
        raise StateError(self._message)

    def clear(self) -> NoReturn:
        """Refused."""
        raise StateError(self._message)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise StateError(self._message)

    def __delitem__(self, key: Any) -> NoReturn:
        raise StateError(self._message)


class _HasTimers(Protocol):
    def timer_service(self) -> TimerService: ...


class _Clock:
    """What time it is, for contexts that have a timer service to ask."""

    def current_processing_time(self: _HasTimers) -> int:
        return self.timer_service().current_processing_time()

    def current_watermark(self: _HasTimers) -> int:
        return self.timer_service().current_watermark()


class _WriteContext(RecordContext, _Clock, BroadcastProcessFunction.Context):
    """Of a broadcast record."""

    def __init__(self, operator: StreamOperator, states: _BroadcastStates) -> None:
        super().__init__(operator)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.get(state_descriptor)


class _KeyedWriteContext(_WriteContext, KeyedBroadcastProcessFunction.Context):
    """Of a broadcast record beside a keyed stream."""

    def __init__(self, operator: StreamOperator, states: _BroadcastStates, keyed: KeyedStateBackend) -> None:
        super().__init__(operator, states)
        self._operator = operator
        self._keyed = keyed

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
    ) -> None:
        keyed = self._keyed
        state = declared_state(KeyedStateStore(self._operator.context, keyed), state_descriptor)
        try:
            for key in keyed.keys(state_descriptor.get_name()):
                keyed.current_key = key
                if not _is_empty(state):
                    function(key, state)
        finally:
            keyed.current_key = None


def _is_empty(state: Any) -> bool:
    if isinstance(state, MapState):
        return state.is_empty()
    held = state.value() if isinstance(state, ValueState) else state.get()
    return held is None or (isinstance(state, ListState) and not held)


class _ReadContext(RecordContext, _Clock, BroadcastProcessFunction.ReadOnlyContext):
    """Of a record of a stream without keys."""

    def __init__(self, operator: StreamOperator, states: _BroadcastStates) -> None:
        super().__init__(operator)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.view(state_descriptor)


class _KeyedReadContext(KeyedRecordContext, _Clock, KeyedBroadcastProcessFunction.ReadOnlyContext):
    """Of a record of a keyed stream."""

    def __init__(self, keyed: KeyedStateBackend, timers: TimerService, states: _BroadcastStates) -> None:
        super().__init__(keyed, timers)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.view(state_descriptor)


class _BroadcastTimerContext(TimerContext, _Clock, KeyedBroadcastProcessFunction.OnTimerContext):
    """Of a timer that fires."""

    def __init__(self, keyed: KeyedStateBackend, timers: TimerService, states: _BroadcastStates) -> None:
        super().__init__(keyed, timers)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.view(state_descriptor)


class BroadcastProcessOperator(ProcessOperator):
    """A `BroadcastProcessFunction`.

    Args:
        function: The user function.
        descriptors: Of the maps that its broadcast side may write.
    """

    input_count = 2

    def __init__(self, function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(function)
        self._broadcast_call = as_callable(function, _BROADCAST_ELEMENT)[1]
        self._descriptors = tuple(descriptors)

    def open(self) -> None:
        states = _BroadcastStates(self.context, self._descriptors)
        super().open()
        self._reading, self._writing = _ReadContext(self, states), _WriteContext(self, states)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if input_index == _STREAM:
            process_unkeyed(self, self._reading, batch, self._call, _ELEMENT)
        else:
            process_unkeyed(self, self._writing, batch, self._broadcast_call, _BROADCAST_ELEMENT)


class KeyedBroadcastProcessOperator(KeyedProcessOperator):
    """A `KeyedBroadcastProcessFunction`.

    Args:
        function: The user function.
        descriptors: Of the maps that its broadcast side may write.
        key_selector: Gives the key of a record of the keyed stream that came without one.
        key_type: Declared type of the key, if any.
    """

    input_count = 2

    def __init__(
        self,
        function: Any,
        descriptors: Sequence[MapStateDescriptor],
        key_selector: Selector,
        key_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(function, key_selector, key_type)
        self._broadcast_call = as_callable(function, _BROADCAST_ELEMENT)[1]
        self._descriptors = tuple(descriptors)

    def open(self) -> None:
        states = _BroadcastStates(self.context, self._descriptors)
        super().open()
        timers = self._record_context.timer_service()
        self._record_context = _KeyedReadContext(self.keyed, timers, states)
        self._timer_context = _BroadcastTimerContext(self.keyed, timers, states)
        self._writing = _KeyedWriteContext(self, states, self.keyed)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if input_index == _STREAM:
            super().process_batch(batch, input_index)
        else:
            # Without a key: keyed state is only in reach for all keys, and timers are not.
            process_unkeyed(self, self._writing, batch, self._broadcast_call, _BROADCAST_ELEMENT)
