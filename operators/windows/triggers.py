"""Triggers: when a window fires, and when it is emptied."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from ...state.descriptors import StateDescriptor

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(enum.Enum):
    """What happens to a window. A window without records never fires, whatever its trigger says."""

    CONTINUE = (False, False)
    """Nothing."""
    FIRE_AND_PURGE = (True, True)
    """Its function is called, and then its records are removed."""
    FIRE = (True, False)
    """Its function is called; it keeps its records."""
    PURGE = (False, True)
    """Its records are removed, and its function is not called."""

    def is_fire(self) -> bool:
        """Whether the window function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the records are removed."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides for each key and window when it fires. It keeps nothing between two calls but in state."""

    class TriggerContext(ABC):
        """Time, timers and state of the key and window at hand."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The time of the machine, in milliseconds since the epoch."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The event time of the operator, in milliseconds."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called at a time in milliseconds."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called when the watermark reaches a time in milliseconds."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Undo `register_processing_time_timer`; nothing happens if there is no such timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Undo `register_event_time_timer`; nothing happens if there is no such timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """State of the trigger for the key and window at hand. It is to be removed in `clear`."""

    class OnMergeContext(TriggerContext):
        """The same while windows are merged; the window at hand is the one they become."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the merged windows into that of the new one.

            Raises:
                StateError: It is neither list, reducing nor aggregating state.
            """

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A record was put into the window.

        Args:
            timestamp: Its event time in milliseconds, `None` if it has none.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A processing-time timer of the window is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of the window is due."""

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge; then it must have `on_merge`."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Several windows became `window`: merge their state and register its timers."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """The window is over: remove the trigger's state and timers."""
