"""An event loop without a thread and without a clock: async functions as parts of a repeatable run."""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from ..common.errors import TidegateError
from ..operators.async_io.async_loop import STOP_TIMEOUT_S, TaskEventLoop, cancel_all

_POLL_S = 0.02


class VirtualEventLoop(TaskEventLoop):
    """Runs on the caller's thread, whenever it is told to, and takes its time from a virtual clock.

    What coroutines wait for should come from asyncio itself (`asyncio.sleep`, futures, locks): answers
    of the real world come at another moment in every run, if they come at all.

    Args:
        now_ns: The virtual clock.
        wake: Called when there is something to do; `pump` is to be called soon after.
    """

    def __init__(self, now_ns: Callable[[], int], wake: Callable[[], None]) -> None:
        self._loop = _VirtualLoop(now_ns)
        self._wake = wake

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._loop.is_closed()

    def submit(self, action: Callable[[], None]) -> None:
        self._loop.call_soon(action)
        self._wake()

    def pump(self) -> int | None:
        """Run until everything waits; nanoseconds until something wants to go on, `None` for never."""
        self._loop.run_forever()
        wait_s = self._loop.polls.wait_s
        # asyncio lets what is due within a nanosecond run, which is more than rounding can be off.
        return None if wait_s is None else max(1, round(wait_s * 1e9))

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        with self._loop.hurrying(timeout_s):
            return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self.run(cancel_all(), STOP_TIMEOUT_S)
            self.run(self._loop.shutdown_asyncgens(), STOP_TIMEOUT_S)
            self.run(self._loop.shutdown_default_executor(), STOP_TIMEOUT_S)
        finally:
            self._loop.close()


class _VirtualLoop(asyncio.SelectorEventLoop):
    """Stops when it would have to wait, unless it is in a hurry: then virtual time jumps ahead."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._skew_s = 0.0
        self._is_hurrying = False
        self._give_up_s = math.inf
        self.polls = _Polls(self._idle)
        super().__init__(self.polls)

    def time(self) -> float:
        return self._now_ns() / 1e9 + self._skew_s

    @contextmanager
    def hurrying(self, timeout_s: float | None) -> Iterator[None]:
        """While this is open, what would have to wait for its time goes on at once."""
        self._give_up_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._is_hurrying = True
        try:
            yield
        finally:
            self._is_hurrying = False

    def _idle(self, wait_s: float | None) -> float:
        """Called when nothing is left to do for `wait_s`; for how long to wait in earnest."""
        if not self._is_hurrying:
            self.stop()
            return 0.0
        if time.monotonic() > self._give_up_s:
            raise TidegateError("async functions still run though they were told to end")
        if wait_s is None:
            # For an answer of the real scheduler, or of another thread.
            return _POLL_S
        self._skew_s += wait_s
        return 0.0


class _Polls(selectors.DefaultSelector):
    """asyncio asks it to wait only when it has nothing else to do; then `idle` decides."""

    def __init__(self, idle: Callable[[float | None], float]) -> None:
        super().__init__()
        self._idle = idle
        self.wait_s: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        self.wait_s = timeout
        return super().select(self._idle(timeout))
