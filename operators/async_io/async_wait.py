"""The async operator: keeps records in flight while their functions wait for something outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from itertools import chain, groupby, repeat
from typing import Any

from ...common.errors import ConfigurationError, StateError
from ...protocol.elements import Batch, CheckpointBarrier, RowBatch, Watermark, WatermarkStatus
from ...state.backend import KeyedStateBackend
from ...state.descriptors import ListStateDescriptor
from ...state.kinds import ListState
from ..base import FrozenOperator, OperatorContext
from ..elementwise import FunctionOperator
from ..functions import Function
from ..runtime_context import RuntimeContext
from .async_function import AsyncRetryStrategy, NoRetryStrategy
from .async_invoker import AsyncInvoker, Failure
from .async_loop import STOP_TIMEOUT_S, TaskEventLoop
from .async_queue import ElementQueue, InFlight, OrderedQueue, UnorderedQueue


class AsyncWaitOperator(FunctionOperator):
    """Runs an `AsyncFunction` on the event loop of its task.

    Records in flight are part of the snapshot, and start over when it is restored. Semantics are those
    of Flink's `AsyncWaitOperator`.

    Args:
        function: An `AsyncFunction`, or a coroutine function of one argument.
        timeout_ms: How long a record may take with all its attempts; 0 for any time.
        capacity: How many calls may be under way. With so many records whose results have not left, the
            task takes no further batch.
        is_ordered: Whether results leave in the order of their records.
        retry: When a call is tried again.
    """

    STATE_NAME = "_async_in_flight"

    def __init__(
        self, function: Any, timeout_ms: int, capacity: int, is_ordered: bool, retry: AsyncRetryStrategy
    ) -> None:
        super().__init__(function, "async_invoke")
        _check(function, self._call, timeout_ms, capacity, retry)
        self._on_event_loop = self._life_cycle = _OnEventLoop(self._life_cycle)
        self._timeout = getattr(function, "timeout", _no_answer)
        self._timeout_ms = timeout_ms
        self._capacity = capacity
        self._is_ordered = is_ordered
        self._retry = retry
        self._event_loop: TaskEventLoop | None = None

    def declare_states(self) -> None:
        """Without `open` of the function, which may reach for what its calls need."""
        self._declare_in_flight()
        self._hooks.initialize(self.context, None)

    def _declare_in_flight(self) -> None:
        self._state: ListState[Any] = self.context.operator_state.get_list_state(
            ListStateDescriptor(self.STATE_NAME, None)
        )

    def open(self) -> None:
        self._declare_in_flight()
        self._queue: ElementQueue = OrderedQueue() if self._is_ordered else UnorderedQueue()
        self._delivered: deque[list[InFlight]] = deque()
        self._is_mailed = False
        self._invoker = AsyncInvoker(
            self._call, self._timeout, self._capacity, self._timeout_ms, self._retry, self._deliver
        )
        self._event_loop = self.context.event_loop.acquire()
        self._on_event_loop.bind(self._event_loop, self.context)
        super().open()
        self._start([InFlight(value, timestamp) for value, timestamp in self._state.get()])

    # ------------------------------------------------------------ what comes in

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._start(list(map(InFlight, batch.rows(), batch.timestamps or repeat(None))))

    def _start(self, records: list[InFlight]) -> None:
        assert self._event_loop is not None
        self._queue.put(records)
        self._event_loop.submit(partial(self._invoker.start, records))

    def process_watermark(self, timestamp_ms: int, input_index: int = 0) -> None:
        self._queue.put_fence(Watermark(timestamp_ms))
        self._emit_ready()

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        self._queue.put_fence(WatermarkStatus(is_idle))
        self._emit_ready()

    def is_ready(self) -> bool:
        return len(self._queue) < self._capacity

    def is_drained(self) -> bool:
        return len(self._queue) == 0

    # ------------------------------------------------------------ what comes back

    def _deliver(self, completed: list[InFlight]) -> None:
        """Called on the event loop's thread."""
        self._delivered.append(completed)
        if not self._is_mailed:
            self._is_mailed = True
            self.context.mailbox(self._collect)

    def _collect(self) -> None:
        # Before the records are taken: what is delivered from now on may need another mail.
        self._is_mailed = False
        failure = self._invoker.failure
        if failure is not None:
            raise self._failed(failure) from failure.error
        while self._delivered:
            self._queue.complete(self._delivered.popleft())
        self._emit_ready()

    def _failed(self, failure: Failure) -> Exception:
        action = failure.action
        if action == "timeout()":
            action = f"async_invoke() took longer than {self._timeout_ms} ms, and timeout()"
        return self.user_error(action, failure.error, failure.record)

    def _emit_ready(self) -> None:
        for ready in self._queue.take():
            if isinstance(ready, list):
                self._emit_results(ready)
            elif isinstance(ready, Watermark):
                self.output.emit_watermark(ready.timestamp_ms)
            elif isinstance(ready, WatermarkStatus):
                self.output.emit_status(ready.is_idle)

    def _emit_results(self, records: list[InFlight]) -> None:
        times = [record.timestamp for record in records]
        untimed = times.count(None)
        if untimed and untimed < len(records):
            # Some inputs have timestamps and others not, as in a union.
            for _, run in groupby(records, lambda record: record.timestamp is None):
                self._emit_results(list(run))
            return
        groups = [record.results or () for record in records]
        values = list(chain.from_iterable(groups))
        if values:
            self.emit(RowBatch(values, None if untimed else _repeated(times, groups)))

    # ------------------------------------------------------------ life cycle

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        """What is there leaves before the barrier, so that it need not be asked for again."""
        self._collect()

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._state.update([(record.value, record.timestamp) for record in self._queue.records()])
        return super().snapshot_state(barrier)

    def close(self) -> None:
        event_loop, self._event_loop = self._event_loop, None
        if event_loop is None:
            super().close()
            return
        try:
            event_loop.run(self._invoker.stop(), STOP_TIMEOUT_S)
        finally:
            try:
                super().close()
            finally:
                self.context.event_loop.release()


class _OnEventLoop(Function):
    """The life cycle of a function whose `open` and `close` may be coroutines."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def bind(self, event_loop: TaskEventLoop, context: OperatorContext) -> None:
        """Take the event loop of the task; before `open`."""
        self._event_loop = event_loop
        self._context = context

    def open(self, runtime_context: RuntimeContext) -> None:
        self._finish(self._function.open(_WithoutKeyedState(self._context, None)))

    def close(self) -> None:
        self._finish(self._function.close())

    def _finish(self, outcome: Any) -> None:
        if isawaitable(outcome):
            self._event_loop.run(_awaited(outcome))


class _WithoutKeyedState(RuntimeContext):
    def _backend(self) -> KeyedStateBackend:
        raise StateError(
            f"{self._context.name_with_subtask}: an async function has no keyed state, also not on a keyed "
            f"stream, because its calls overlap; keep state in a KeyedProcessFunction before or after it"
        )


def _repeated(times: Iterable[Any], groups: Iterable[Sequence[Any]]) -> list[int]:
    """The time of each group once for each of its members."""
    return [time for time, group in zip(times, groups) for _ in group]


async def _awaited(outcome: Awaitable[Any]) -> None:
    await outcome


def _no_answer(value: Any) -> Any:
    raise TimeoutError(f"Async function call has timed out for input: {value}")


def _check(function: Any, call: Any, timeout_ms: int, capacity: int, retry: Any) -> None:
    """Raise `ConfigurationError` for what can never work."""
    name = getattr(function, "__name__", type(function).__name__)
    if not iscoroutinefunction(call):
        raise ConfigurationError(
            f"Method 'async_invoke' of class '{name}' should be declared as 'async def'; a function that "
            f"blocks would hold up every other record"
        )
    if timeout_ms < 0:
        raise ConfigurationError(f"{name}: the timeout is {timeout_ms} ms; it cannot be negative, 0 is none")
    if capacity < 1:
        raise ConfigurationError(f"{name}: the capacity is {capacity}; at least one call must be possible")
    if not isinstance(retry, AsyncRetryStrategy):
        raise ConfigurationError(
            f"{name}: Async retry strategy should not be {retry!r}; see AsyncRetryStrategy"
        )
    if retry.get_retry_predicate() is None:
        raise ConfigurationError(f"Retry predicate of the async retry strategy '{type(retry)}' is None.")
    if timeout_ms == 0 and not isinstance(retry, NoRetryStrategy):
        raise ConfigurationError(
            f"{name}: Timeout should be configured when do async with retry: it bounds all attempts together"
        )
