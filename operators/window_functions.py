"""Functions of windows and joins, with PyFlink's names (`pyflink.datastream.functions`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from .functions import Function
from .runtime_context import KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Turns the records of one key in a window into results."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return or yield the results of a window that fires; `None` means none.

        Args:
            inputs: Its records in the order they came, or the one result of a reduce or aggregate.
        """


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """The same for windows without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return or yield the results of a window that fires; `None` means none."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Gives what is in the window."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Gives what is in the window."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class _WindowContext(ABC, Generic[W]):
    """What is known about the window that fires."""

    @abstractmethod
    def window(self) -> W:
        """The window."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The time of the machine, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time of the operator, in milliseconds."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of the key and the window; remove it in `clear`. Windows that merge have none."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of the key, the same for all its windows."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Turns the records of one key in a window into results; it knows the window and has state."""

    class Context(_WindowContext[W2]):
        """What is known about the window that fires."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Return or yield the results of a window that fires; `None` means none.

        Yield `(OutputTag, value)` for a side output.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """The window is over: remove what `context.window_state()` holds for it."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """The same for windows without keys."""

    class Context(_WindowContext[W2]):
        """What is known about the window that fires."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Return or yield the results of a window that fires; `None` means none."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """The window is over: remove what `context.window_state()` holds for it."""


class JoinFunction(Function):
    """Combines two records that were joined into one (Flink's; PyFlink has no joins)."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The result of a pair."""


class FlatJoinFunction(Function):
    """Combines two records that were joined into any number of results."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return or yield the results of a pair; `None` means none."""


class CoGroupFunction(Function):
    """Combines what two streams have for one key in one window."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Return or yield the results; one of the two lists may be empty. `None` means none."""


class ProcessJoinFunction(Function):
    """Combines two records that an interval join brought together."""

    class Context(ABC):
        """What is known about the pair."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Event time of the left record, in milliseconds."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Event time of the right record, in milliseconds."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Event time of the results: the later of the two."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield the results of a pair; `None` means none."""
