"""Window assigners: into which windows a record goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from ...common.serializer import TypeSerializer
from ..runtime_context import RuntimeContext
from .builtin_triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from .triggers import Trigger
from .windows import GlobalWindow, GlobalWindowSerializer, TimeWindow, TimeWindowSerializer

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Puts records into windows; it keeps nothing between two records but in state."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The time of the machine, in milliseconds since the epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """The way to state of the current key, and facts about the subtask."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of a record.

        Args:
            timestamp: Its event time in milliseconds; `None` if it has none and `is_event_time` is false.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger of a stream that sets none.

        Args:
            env: The execution environment of the job.
        """

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """How the windows of this assigner are written as bytes; equal windows give equal bytes."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows go by the event time of records, not by the time of the machine or by counts."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can grow together, as sessions do."""

    class MergeCallback(ABC, Generic[W2]):
        """Is told what is to be merged."""

        @abstractmethod
        def merge(self, to_be_merged: Collection[W2], merge_result: W2) -> None:
            """These windows become that one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Tell the callback which of the windows of one key are to be merged, if any."""


class EventTimeAssigner(WindowAssigner[T, TimeWindow]):
    """What assigners of time windows by event time share."""

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(WindowAssigner[T, TimeWindow]):
    """What assigners of time windows by the time of the machine share."""

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """All records of a key in one window. It fires only if a trigger is set that fires it."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow.get(),)

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
