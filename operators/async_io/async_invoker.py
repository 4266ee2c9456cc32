"""The side of an async operator that lives on the event loop: calls, timeouts and further attempts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .async_function import AsyncRetryStrategy, as_results
from .async_queue import InFlight

_LEAST_WATCHED = 256
_LEAST_UNBROKEN = 128


@dataclass(frozen=True, slots=True)
class Failure:
    """What user code did with a record to fail the task."""

    action: str
    record: Any
    error: BaseException


class AsyncInvoker:
    """Calls a coroutine function for records, for at most so many of them at a time.

    Long-lived workers take one record after the other: an asyncio task for each record costs three times
    as much (ADR 021). All calls but the constructor belong on the event loop's thread.

    Args:
        invoke: Called for every record; its results must be iterable.
        timeout: Called for a record whose time is over, for its results.
        capacity: How many calls may be under way.
        timeout_ms: How long a record may take with all its attempts; 0 for any time.
        retry: When a call is tried again.
        deliver: Takes records that have their results, once per turn of the event loop at most. Also
            called when there is a `failure`.
    """

    def __init__(
        self,
        invoke: Callable[[Any], Awaitable[Any]],
        timeout: Callable[[Any], Iterable[Any]],
        capacity: int,
        timeout_ms: int,
        retry: AsyncRetryStrategy,
        deliver: Callable[[list[InFlight]], None],
    ) -> None:
        self._invoke = invoke
        self._timeout = timeout
        self._capacity = capacity
        self._timeout_s = timeout_ms / 1_000
        self._retry = retry
        self._retry_result = retry.get_retry_predicate().result_predicate()
        self._retry_exception = retry.get_retry_predicate().exception_predicate()
        self._retries = self._retry_result is not None or self._retry_exception is not None
        self._deliver = deliver
        self._waiting: deque[InFlight] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._completed: list[InFlight] = []
        self._is_flush_planned = False
        # All records have the same time, so deadlines come in order and one timer is enough.
        self._watched: deque[tuple[float, InFlight, asyncio.Task[None]]] = deque()
        self._most_watched = max(2 * capacity, _LEAST_WATCHED)
        self._most_unbroken = max(2 * capacity, _LEAST_UNBROKEN)
        # The time at which this turn of the loop began, more or less: asked for once a turn.
        self._turn_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self.failure: Failure | None = None

    def start(self, records: Iterable[InFlight]) -> None:
        """Call for these records, in order, as soon as there is room."""
        self._turn_s = asyncio.get_running_loop().time()
        self._waiting.extend(records)
        self._employ()

    async def stop(self) -> None:
        """Cancel all calls and wait until they have ended."""
        self._is_stopping = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    # ------------------------------------------------------------ calls

    def _employ(self) -> None:
        if self._is_stopping:
            return
        loop = asyncio.get_running_loop()
        for _ in range(min(self._capacity - len(self._workers), len(self._waiting))):
            self._workers.add(loop.create_task(self._work()))

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        attempt = self._attempts if self._retries else self._invoke
        waiting, completed = self._waiting, self._completed
        try:
            while waiting:
                record = waiting.popleft()
                if self._timeout_s:
                    self._watch(record, worker)
                try:
                    results = await attempt(record.value)
                    if record.results is not None:
                        # Its time is over, and nobody wants them any more.
                        continue
                    record.results = as_results(results, "async_invoke")
                except asyncio.CancelledError as error:
                    if self._is_stopping:
                        raise
                    if record.results is not None:
                        # Its time is over. A task that was cancelled once is not used again.
                        return
                    self._fail("async_invoke()", record, error)
                except (Exception, SystemExit) as error:
                    if record.results is None:
                        self._fail("async_invoke()", record, error)
                else:
                    completed.append(record)
                    if not self._is_flush_planned:
                        self._plan_flush()
                    elif len(completed) >= self._most_unbroken:
                        # A function that never waits would keep the loop from everything else.
                        await asyncio.sleep(0)
        finally:
            self._workers.discard(worker)
            self._employ()

    async def _attempts(self, value: Any) -> Any:
        attempts = 1
        while True:
            try:
                results = await self._invoke(value)
            except Exception as error:
                wanted = self._retry_exception is not None and self._retry_exception(error)
                if not (wanted and self._retry.can_retry(attempts)):
                    raise
            else:
                wanted = (
                    self._retry_result is not None and results is not None and self._retry_result(results)
                )
                if not (wanted and self._retry.can_retry(attempts)):
                    return results
            await asyncio.sleep(self._retry.get_backoff_time_millis(attempts) / 1_000)
            attempts += 1

    # ------------------------------------------------------------ outcomes

    def _fail(self, action: str, record: InFlight, error: BaseException) -> None:
        if self.failure is None:
            self.failure = Failure(action, record.value, error)
        self._waiting.clear()
        self._plan_flush()

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        self._turn_s = asyncio.get_running_loop().time()
        completed = self._completed.copy()
        self._completed.clear()
        self._deliver(completed)

    # ------------------------------------------------------------ timeouts

    def _watch(self, record: InFlight, worker: asyncio.Task[None]) -> None:
        if len(self._watched) >= self._most_watched:
            # Behind one slow record any number of quick ones would pile up.
            self._watched = deque(each for each in self._watched if each[1].results is None)
        deadline_s = self._turn_s + self._timeout_s
        self._watched.append((deadline_s, record, worker))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        loop, watched = asyncio.get_running_loop(), self._watched
        now_s = loop.time()
        while watched and (watched[0][1].results is not None or watched[0][0] <= now_s):
            _, record, worker = watched.popleft()
            if record.results is None:
                self._time_out(record, worker)
        self._timer = loop.call_at(watched[0][0], self._expire) if watched else None

    def _time_out(self, record: InFlight, worker: asyncio.Task[None]) -> None:
        try:
            record.results = as_results(self._timeout(record.value), "timeout")
        except (Exception, SystemExit) as error:
            self._fail("timeout()", record, error)
        else:
            self._completed.append(record)
            self._plan_flush()
            worker.cancel()
