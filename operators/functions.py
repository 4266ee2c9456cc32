"""User functions, with PyFlink's names (`pyflink.datastream.functions`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .timers.timer_service import TimeDomain, TimerService

if TYPE_CHECKING:
    from .runtime_context import RuntimeContext


class Function(ABC):
    """A user function with a life cycle: `open`, any number of calls, `close`."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per subtask before the first record; state handles are made here."""

    def close(self) -> None:
        """Called once per subtask at the end, also after a failure."""


class RichFunction(Function):
    """A function that can ask for its `RuntimeContext` at any time from `open` on."""

    _runtime_context: RuntimeContext | None = None

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        """Called by the runtime, before `open`."""
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> RuntimeContext:
        """Facts about the running subtask.

        Raises:
            RuntimeError: The function does not run yet.
        """
        if self._runtime_context is None:
            raise RuntimeError("there is no runtime context before open(): the function is not in a task yet")
        return self._runtime_context


class MapFunction(Function):
    """One record in, one record out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Transform one record."""


class FlatMapFunction(Function):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the results of one record; `None` means none."""


class CoMapFunction(Function):
    """One record of one of two connected streams in, one record out."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Transform one record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Transform one record of the second stream."""


class CoFlatMapFunction(Function):
    """One record of one of two connected streams in, any number out."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the results of one record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the results of one record of the second stream."""


class FilterFunction(Function):
    """Keeps or drops records."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether to keep the record."""


class ReduceFunction(Function):
    """Combines two records into one of the same type; associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Combine the value so far with a new one."""


class AggregateFunction(Function):
    """Folds records into an accumulator, from which a result is made."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new, empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator after `value`."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """The accumulator of everything in both."""


class KeySelector(Function):
    """Extracts the key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key: an int, string, bytes, bool, date, or a tuple of these."""


class NullByteKeySelector(KeySelector):
    """One key for every record: what a stream without keys is partitioned by where a key is needed."""

    def get_key(self, value: Any) -> int:
        return 0


class Partitioner(Function):
    """Names the subtask for a key, in `DataStream.partition_custom`."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The index of a subtask, from 0 and below `num_partitions`."""


class _Context(ABC):
    """What every process function may ask while it is called."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Timers, and what time it is."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the record in milliseconds, if it has one; in `on_timer` the time of the timer."""


class _KeyedContext(_Context):
    """The same on a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or timer."""


class _OnTimerContext(_KeyedContext):
    """What is known about a timer that fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Whether the watermark or the clock reached it."""


class ProcessFunction(Function):
    """The general function of one record. Its timer service only tells the time.

    Results of the form `tag, value`, here and in the other process functions, go to the side output of that
    `OutputTag`.
    """

    class Context(_Context):
        """What is known about the record at hand."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield the results of one record; `None` means none."""


class KeyedProcessFunction(Function):
    """The general function of one record of a keyed stream; it may use keyed state and timers."""

    class Context(_KeyedContext):
        """What is known about the record at hand."""

    class OnTimerContext(_OnTimerContext):
        """What is known about the timer that fires."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield the results of one record; `None` means none."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer of a key fires; returns results as `process_element` does.

        Results of an event-time timer have its time as their event time, those of a processing-time timer
        have none.
        """
        return None


class CoProcessFunction(Function):
    """The general function of two connected streams. Its timer service only tells the time."""

    class Context(_Context):
        """What is known about the record at hand."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield the results of one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield the results of one record of the second stream."""


class KeyedCoProcessFunction(Function):
    """The general function of two connected keyed streams; both see the same state and timers of a key."""

    class Context(_KeyedContext):
        """What is known about the record at hand."""

    class OnTimerContext(_OnTimerContext):
        """What is known about the timer that fires."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield the results of one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield the results of one record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer of a key fires; see `KeyedProcessFunction.on_timer`."""
        return None


class SinkFunction(Function):
    """Takes records out of the job one by one, at least once."""

    class Context(ABC):
        """What is known about the record at hand."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, if it has one."""

        @abstractmethod
        def current_watermark(self) -> int:
            """How far event time has come, in milliseconds; the lowest integer of 64 bits at first."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The time of day, in milliseconds since the epoch."""

    @abstractmethod
    def invoke(self, value: Any, *args: Any, **kwargs: Any) -> None:
        """Write one record.

        To be written as `invoke(self, value)`, or as `invoke(self, value, context)` with a
        `SinkFunction.Context`.
        """


class RichSinkFunction(SinkFunction, RichFunction):
    """A `SinkFunction` that knows its `RuntimeContext`."""


class CallableFunction(Function):
    """Gives a plain callable the life cycle of a function."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


def as_callable(function: Any, method: str) -> tuple[Function, Callable[..., Any]]:
    """The life cycle and the bound method of a user function.

    Args:
        function: An object with `method` (usually a `Function`), or a plain callable.
        method: The name of the method that processes a record.

    Raises:
        TypeError: It is neither.
    """
    bound = getattr(function, method, None)
    if callable(bound):
        life_cycle = function if isinstance(function, Function) else CallableFunction(bound)
        return life_cycle, bound
    if callable(function):
        return CallableFunction(function), function
    raise TypeError(
        f"{type(function).__name__} is neither callable nor has a method {method}(); "
        f"pass a function or an object with {method}()"
    )
