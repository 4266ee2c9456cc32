"""Async functions in whole jobs: real event loops in threads of their own, and crashes in the simulator."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import AsyncDataStream, AsyncFunction, DataStream, StreamExecutionEnvironment
from tidegate.testing import verify_exactly_once

from .jobs import WAIT_S, HeldSource, environment


class Doubler(AsyncFunction):
    """Twice the record, after a moment."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(value % 3 / 1_000)
        return [2 * value]


def loops() -> list[threading.Thread]:
    """The threads of event loops that run now."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("event loop of")]


@pytest.mark.parametrize("capacity", [1, 7, 1_000])
def test_ordered_results_of_a_job_are_in_order(capacity: int) -> None:
    env = environment()
    stream = env.from_collection(range(200))
    results = AsyncDataStream.ordered_wait(stream, Doubler(), Time.seconds(30), capacity)
    assert list(results.execute_and_collect()) == [2 * number for number in range(200)]
    assert loops() == []


def test_unordered_results_of_a_job_are_complete_and_its_operators_share_one_loop() -> None:
    class Names(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            return [(*value, threading.current_thread().name)]

    env = environment()
    stream = env.from_collection([(number,) for number in range(100)])
    once = AsyncDataStream.unordered_wait(stream, Names(), Time.seconds(30))
    twice = AsyncDataStream.unordered_wait(once, Names(), Time.seconds(30))
    found = list(twice.execute_and_collect())
    assert sorted(number for number, _, _ in found) == list(range(100))
    assert len({name for _, *names in found for name in names}) == 1
    assert all("event loop of" in name for _, *names in found for name in names)
    assert loops() == []


def test_annotations_and_a_declared_type_say_what_results_are() -> None:
    class Hinted(AsyncFunction):
        async def async_invoke(self, value: int) -> list[str]:
            return [str(value)]

    stream = environment().from_collection([1])
    assert AsyncDataStream.ordered_wait(stream, Hinted(), Time.seconds(1)).get_type() == Types.STRING()
    declared = AsyncDataStream.ordered_wait(stream, Doubler(), Time.seconds(1), output_type=Types.STRING())
    assert declared.get_type() == Types.STRING()
    with pytest.raises(JobExecutionError, match=r"async wait operator.*STRING"):
        list(declared.execute_and_collect())


def test_a_failure_names_operator_and_record_and_leaves_no_thread() -> None:
    class Broken(Doubler):
        async def async_invoke(self, value: Any) -> list[Any]:
            if value == 7:
                raise LookupError("nobody there")
            await asyncio.sleep(30)
            return []

    env = environment()
    AsyncDataStream.ordered_wait(env.from_collection(range(20)), Broken(), Time.seconds(60)).name("Ask")
    with pytest.raises(JobExecutionError, match=r"Ask \(1/1\): async_invoke\(\) raised LookupError: nobody"):
        env.execute()
    assert loops() == []


def test_a_cancelled_job_cancels_its_calls_and_leaves_no_thread() -> None:
    cancelled = threading.Event()
    started = threading.Event()

    class Waiting(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return []

    env = environment()
    AsyncDataStream.unordered_wait(env.from_collection([1]), _Here(Waiting()), Time.seconds(0))
    client = env.execute_async()
    assert started.wait(WAIT_S)
    client.cancel().result()
    with pytest.raises(JobExecutionError):
        client.get_job_execution_result().result()
    assert cancelled.wait(WAIT_S)
    assert loops() == []


class _Here:
    """A function that is not copied on its way into a task of this process."""

    kept: list[Any] = []  # noqa: RUF012

    def __init__(self, function: Any) -> None:
        self.kept.append(function)
        self._index = len(self.kept) - 1

    async def async_invoke(self, value: Any) -> list[Any]:
        return await self.kept[self._index].async_invoke(value)  # type: ignore[no-any-return]


def test_a_job_that_restarts_asks_again_and_gives_everything_once(tmp_path: Path) -> None:
    class FailsOnce(Doubler):
        async def async_invoke(self, value: Any) -> list[Any]:
            if value == 150 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise ConnectionError("gone")
            return await super().async_invoke(value)

    env = environment(tmp_path)
    stream = env.from_source(HeldSource(200), WatermarkStrategy.no_watermarks(), "Held")
    results = AsyncDataStream.unordered_wait(stream, FailsOnce(), Time.seconds(30), 20).uid("ask")
    assert sorted(results.execute_and_collect()) == [2 * number for number in range(200)]
    assert (tmp_path / "failed").exists()
    assert loops() == []


@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
def test_crashes_lose_and_double_nothing_that_is_in_flight(wait: Any) -> None:
    def job(env: StreamExecutionEnvironment) -> DataStream:
        env.set_parallelism(2)
        asked: DataStream = wait(env.from_collection(range(60)).rebalance(), Doubler(), Time.seconds(5), 4)
        return asked.uid("ask")

    report = verify_exactly_once(job, crashes=2, seeds=8)
    assert report.crashes >= 8
    assert report.checkpoints > 0
