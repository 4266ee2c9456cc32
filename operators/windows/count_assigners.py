"""Windows of a number of records per key."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from ...common.errors import ConfigurationError
from ...common.serializer import TypeSerializer
from ...common.typeinfo import Types
from ...state.descriptors import ValueStateDescriptor
from ...state.kinds import ValueState
from .assigners import WindowAssigner
from .builtin_triggers import CountTrigger
from .durations import check_whole
from .triggers import Trigger
from .windows import CountWindow, CountWindowSerializer

T = TypeVar("T")


class _CountAssigner(WindowAssigner[T, CountWindow]):
    def __init__(self, window_size: int, state_name: str) -> None:
        name = type(self).__name__
        self._window_size = check_whole(window_size, f"the size of {name}")
        if window_size <= 0:
            raise ConfigurationError(f"{name} must satisfy size > 0, got {window_size} records")
        self._descriptor = ValueStateDescriptor(state_name, Types.LONG())
        # Set for the first record in a task; a handle is good for the life of the task.
        self._count: ValueState[int] | None = None

    def _next_number(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """How many records of the key came before this one."""
        if self._count is None:
            self._count = context.get_runtime_context().get_state(self._descriptor)
        number: int = self._count.value() or 0
        self._count.update(number + 1)
        return number

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountAssigner[T]):
    """Windows of `window_size` records of a key, one after the other.

    Raises:
        ConfigurationError: The size is not positive.
    """

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Windows of so many records."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return [CountWindow(self._next_number(context) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountAssigner[T]):
    """Windows of `window_size` records of a key, one every `window_slide` records.

    Raises:
        ConfigurationError: The size or the slide is not positive.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, "slide-count-assigner")
        self._window_slide = check_whole(window_slide, "the slide of CountSlidingWindowAssigner")
        if window_slide <= 0:
            raise ConfigurationError(
                f"CountSlidingWindowAssigner must satisfy slide > 0, got {window_slide} records"
            )

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Windows of so many records, one every so many."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        number = self._next_number(context)
        last = number // self._window_slide
        # The window `n` has the records from n * slide on and before n * slide + size.
        first = max(0, -(-(number - self._window_size + 1) // self._window_slide))
        return [CountWindow(window_id) for window_id in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"
