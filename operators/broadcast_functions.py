"""Functions of the broadcast state pattern, with PyFlink's names.

All subtasks see every record of the broadcast stream, and keep equal maps of what they say. Only the
method for broadcast records may write those maps, and it has to do the same in every subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..state.descriptors import MapStateDescriptor, StateDescriptor
from ..state.kinds import BroadcastState, ReadOnlyBroadcastState
from .functions import Function

if TYPE_CHECKING:
    from .timers.timer_service import TimeDomain, TimerService


class _BaseContext(ABC):
    """What both sides may ask."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the record in milliseconds, if it has one."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock of the machine: milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time of the operator, which is the lower one of its two streams."""


class BaseBroadcastProcessFunction(Function):
    """What the functions of the broadcast state pattern share."""

    class Context(_BaseContext):
        """What is known about a broadcast record."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """A map that was named in `DataStream.broadcast`, to be read and written."""

    class ReadOnlyContext(_BaseContext):
        """What is known about a record of the other stream."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """A map that was named in `DataStream.broadcast`, to be read."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """The function of a stream without keys that is connected with a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What is known about a broadcast record."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What is known about a record of the other stream."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Return or yield the results of one record of the stream; `None` means none."""

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: BroadcastProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield the results of one broadcast record, which comes to every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """The function of a keyed stream that is connected with a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What is known about a broadcast record. It has no key, so there is no keyed state of its own."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
        ) -> None:
            """Call `function(key, state)` for every key of this subtask that has something in a keyed state.

            Args:
                state_descriptor: Of the state, as given to the runtime context.
                function: May read and change the state; what it returns is not used.

            Raises:
                StateError: A key is so long that LMDB only has its hash.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What is known about a record of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Timers of the key, and what time it is."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record or timer."""

    class OnTimerContext(ReadOnlyContext):
        """What is known about a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether the watermark or the clock reached it."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Return or yield the results of one record of the keyed stream; `None` means none."""

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield the results of one broadcast record, which comes to every subtask."""

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Called when a timer of a key fires; see `KeyedProcessFunction.on_timer`."""
        return None
