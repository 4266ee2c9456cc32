"""The event loop of a task: in a thread of its own, and in virtual time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tidegate.common.errors import TidegateError
from tidegate.operators.async_io.async_loop import EventLoopThread, SharedEventLoop, TaskEventLoop
from tidegate.testing.virtual_event_loop import VirtualEventLoop

WAIT_S = 30


@pytest.fixture
def thread() -> Iterator[EventLoopThread]:
    loop = EventLoopThread("event loop of a test")
    yield loop
    loop.close()


def test_actions_run_in_order_in_one_other_thread(thread: EventLoopThread) -> None:
    seen: list[Any] = []
    done = threading.Event()
    for number in range(5):
        thread.submit(lambda number=number: seen.append((number, threading.current_thread().name)))  # type: ignore[misc]
    thread.submit(done.set)
    assert done.wait(WAIT_S)
    assert seen == [(number, "event loop of a test") for number in range(5)]


def test_run_gives_back_what_a_coroutine_returns_or_raises(thread: EventLoopThread) -> None:
    async def answer(value: int) -> int:
        await asyncio.sleep(0)
        return 10 // value

    assert thread.run(answer(5)) == 2
    with pytest.raises(ZeroDivisionError):
        thread.run(answer(0))


def test_a_coroutine_that_takes_too_long_is_an_error_that_says_what_to_do(thread: EventLoopThread) -> None:
    with pytest.raises(
        TidegateError, match=r"event loop of a test.*let async_invoke.* end when it is cancelled"
    ):
        thread.run(asyncio.sleep(WAIT_S), timeout_s=0.01)


def test_close_cancels_what_still_runs_and_ends_the_thread() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def start() -> None:
        kept.append(asyncio.create_task(work()))

    kept: list[Any] = []
    loop = EventLoopThread("event loop to be closed")
    loop.run(start())
    loop.close()
    assert ended == ["cancelled"]
    assert "event loop to be closed" not in [each.name for each in threading.enumerate()]


def test_a_shared_event_loop_lives_from_its_first_user_to_its_last() -> None:
    made: list[str] = []

    def create(name: str) -> TaskEventLoop:
        made.append(name)
        return EventLoopThread(name)

    shared = SharedEventLoop(create, "Ask (1/2)")
    assert made == []
    first, second = shared.acquire(), shared.acquire()
    assert first is second
    shared.release()
    assert second.run(asyncio.sleep(0, "still there")) == "still there"
    shared.release()
    assert made == ["event loop of Ask (1/2)"]
    assert "event loop of Ask (1/2)" not in [each.name for each in threading.enumerate()]
    shared.acquire()
    shared.release()
    assert len(made) == 2


def test_virtual_time_passes_only_when_it_is_told_to() -> None:
    now_ms, woken, seen = [0], [0], []

    def wake() -> None:
        woken[0] += 1

    async def work(wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        seen.append(wait_s)

    loop = VirtualEventLoop(lambda: now_ms[0] * 1_000_000, wake)
    kept: list[Any] = []
    loop.submit(lambda: kept.extend(asyncio.ensure_future(work(wait_s)) for wait_s in (0.2, 0.1)))
    assert woken == [1]
    started = time.monotonic()
    assert loop.pump() == 100_000_000
    now_ms[0] = 100
    assert loop.pump() == 100_000_000
    assert seen == [0.1]
    now_ms[0] = 200
    assert loop.pump() is None
    assert seen == [0.1, 0.2]
    loop.run(asyncio.sleep(3_600))
    loop.close()
    assert time.monotonic() - started < WAIT_S
