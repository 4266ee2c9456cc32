"""The event loop of a task: one for all its async operators, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent import futures
from typing import Any

from ...common.errors import TidegateError
from ...telemetry import logs

STOP_TIMEOUT_S = 10.0
"""How long coroutines may take to end once they are cancelled."""


class TaskEventLoop(ABC):
    """An event loop beside a task's own loop. All calls come from the task's thread."""

    @abstractmethod
    def submit(self, action: Callable[[], None]) -> None:
        """Run `action` on the event loop, after the actions before it."""

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        """Run a coroutine on the event loop, and wait for what it returns or raises.

        Raises:
            TidegateError: It takes longer than `timeout_s`.
        """

    @abstractmethod
    def close(self) -> None:
        """Cancel everything that runs on the event loop, wait for its end, and end the loop."""


class EventLoopThread(TaskEventLoop):
    """An asyncio event loop in a thread.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        # Most jobs have no async functions, and asyncio brings sockets, TLS and subprocesses.
        import asyncio

        self._loop = asyncio.new_event_loop()
        # A daemon: a call that blocks for ever must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, args=(logs.current(),), name=name, daemon=True)
        self._thread.start()

    def _run(self, log_context: logs.LogContext | None) -> None:
        import asyncio

        logs.enter(log_context)
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(cancel_all())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def submit(self, action: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(action)

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        import asyncio

        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if futures.wait([future], timeout_s).not_done:
            future.cancel()
            raise self._stuck(timeout_s)
        return future.result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise self._stuck(STOP_TIMEOUT_S)

    def _stuck(self, timeout_s: float | None) -> TidegateError:
        return TidegateError(
            f"{self._thread.name}: async functions still run {timeout_s:.0f} s after they were told to end; "
            f"let async_invoke() end when it is cancelled, and call nothing in it that blocks"
        )


async def cancel_all() -> None:
    """Cancel every task of the loop, also those that user code started, and wait for them."""
    import asyncio

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class SharedEventLoop:
    """The event loop of one task: begins with the first operator that wants it, ends with the last.

    Args:
        create: Makes the event loop, given a name for its thread.
        name: Of the task.
    """

    def __init__(self, create: Callable[[str], TaskEventLoop], name: str) -> None:
        self._create = create
        self._name = name
        self._loop: TaskEventLoop | None = None
        self._users = 0

    def acquire(self) -> TaskEventLoop:
        """The event loop; every call needs a `release`."""
        if self._loop is None:
            self._loop = self._create(f"event loop of {self._name}")
        self._users += 1
        return self._loop

    def release(self) -> None:
        """An operator needs the event loop no more."""
        self._users -= 1
        if self._users == 0 and self._loop is not None:
            loop, self._loop = self._loop, None
            loop.close()
