"""Async functions, run by a harness: its event loop lives in the harness's time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tidegate.common import Duration, Row, Time, Types
from tidegate.common.errors import ConfigurationError, StateError, UserCodeError
from tidegate.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, RuntimeContext
from tidegate.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.testing import Harness, KeyedOneInputHarness, OneInputHarness

WAITS = [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait]


class Sleeper(AsyncFunction):
    """Gives every record back after as many milliseconds as it says."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(value / 1_000)
        return [value]


class Answerer(Sleeper):
    """The same, with an answer for what takes too long."""

    def timeout(self, value: Any) -> list[Any]:
        return [-value]


def harness(wait: Any, function: Any, timeout_ms: int = 0, capacity: int = 10, **options: Any) -> Harness:
    return OneInputHarness(
        lambda stream: wait(stream, function, Time.milliseconds(timeout_ms), capacity), **options
    )


def test_ordered_results_leave_in_the_order_of_their_records() -> None:
    with harness(AsyncDataStream.ordered_wait, Sleeper()) as running:
        running.process_elements([30, 10, 20], [1, 2, 3])
        running.advance_processing_time(25)
        assert running.records() == []
        running.advance_processing_time(5)
        assert running.records() == [(30, 1), (10, 2), (20, 3)]


def test_unordered_results_leave_as_they_come() -> None:
    with harness(AsyncDataStream.unordered_wait, Sleeper()) as running:
        running.process_elements([30, 10, 20], [1, 2, 3])
        running.advance_processing_time(15)
        assert running.records() == [(10, 2)]
        running.advance_processing_time(15)
        assert running.records() == [(10, 2), (20, 3), (30, 1)]


@pytest.mark.parametrize("wait", WAITS)
def test_no_result_passes_a_watermark(wait: Any) -> None:
    with harness(wait, Sleeper()) as running:
        running.process_element(20, 1)
        running.process_watermark(5)
        running.process_element(10, 7)
        running.advance_processing_time(15)
        assert (running.output(), running.watermarks()) == ([], [])
        running.advance_processing_time(5)
        assert (running.records(), running.watermarks()) == ([(20, 1), (10, 7)], [5])
        running.process_watermark(8)
        assert running.watermarks() == [5, 8]


def test_word_that_an_input_is_idle_waits_for_the_records_before_it() -> None:
    with harness(AsyncDataStream.unordered_wait, Sleeper()) as running:
        running.process_element(10, 1)
        running.process_status(is_idle=True)
        assert running.statuses() == []
        running.advance_processing_time(10)
        assert running.statuses() == [True]


@pytest.mark.parametrize("wait", WAITS)
def test_capacity_bounds_the_calls_under_way(wait: Any) -> None:
    class Counter(AsyncFunction):
        under_way = most = 0

        async def async_invoke(self, value: Any) -> list[Any]:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(0.01)
            self.under_way -= 1
            return [self.most]

    with harness(wait, Counter(), capacity=3) as running:
        running.process_elements(range(9))
        running.advance_processing_time(10)
        assert len(running.output()) == 3
        running.advance_processing_time(20)
        assert running.output() == [3] * 9


def test_with_as_many_records_as_its_capacity_the_task_takes_no_more_input() -> None:
    with harness(AsyncDataStream.ordered_wait, Sleeper(), capacity=2) as running:
        for value in (50, 10, 20):
            running.process_element(value)
        # The third is not taken up before the first, which holds up the second, has left.
        running.advance_processing_time(50)
        assert running.take_output() == [50, 10]
        running.advance_processing_time(19)
        assert running.output() == []
        running.advance_processing_time(1)
        assert running.output() == [20]


def test_timeout_gives_the_results_of_what_takes_too_long() -> None:
    with harness(AsyncDataStream.unordered_wait, Answerer(), timeout_ms=50) as running:
        running.process_elements([10, 100])
        running.advance_processing_time(49)
        assert running.output() == [10]
        running.advance_processing_time(1)
        assert running.output() == [10, -100]
        running.process_elements([20, 70])
        running.advance_processing_time(60)
        assert running.output() == [10, -100, 20, -70]


def test_a_call_whose_time_is_over_is_cancelled_and_makes_room() -> None:
    with harness(AsyncDataStream.ordered_wait, Answerer(), timeout_ms=5, capacity=1) as running:
        running.process_elements([100, 1, 100, 2])
        running.advance_processing_time(13)
        assert running.output() == [-100, 1, -100, 2]


def test_a_call_that_outlives_its_cancellation_gives_no_results() -> None:
    class Stubborn(Answerer):
        async def async_invoke(self, value: Any) -> list[Any]:
            try:
                return await super().async_invoke(value)
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
                return ["late"]

    with harness(AsyncDataStream.ordered_wait, Stubborn(), timeout_ms=5) as running:
        running.process_elements([100, 200])
        running.advance_processing_time(50)
        assert running.output() == [-100, -200]


def test_without_an_answer_a_timeout_fails_the_task_with_operator_and_record() -> None:
    with harness(AsyncDataStream.ordered_wait, Sleeper(), timeout_ms=50) as running:
        running.process_element(100)
        text = r"operator async wait operator \(1/1\): async_invoke\(\) took longer than 50 ms.*record 100"
        with pytest.raises(UserCodeError, match=text):
            running.advance_processing_time(60)


def test_an_exception_fails_the_task_with_operator_and_record() -> None:
    async def divide(value: int) -> list[float]:
        await asyncio.sleep(0.001)
        return [1 / value]

    with harness(AsyncDataStream.unordered_wait, divide) as running:
        running.process_elements([1, 0])
        text = r"async wait operator \(1/1\): async_invoke\(\) raised ZeroDivisionError.*on the record 0"
        with pytest.raises(UserCodeError, match=text):
            running.advance_processing_time(1)


@pytest.mark.parametrize("error", [asyncio.CancelledError("gone"), SystemExit(3)])
def test_what_is_no_ordinary_exception_fails_the_task_too(error: BaseException) -> None:
    async def leave(value: Any) -> list[Any]:
        raise error

    with (
        harness(AsyncDataStream.unordered_wait, leave) as running,
        pytest.raises(UserCodeError, match=type(error).__name__),
    ):
        running.process_element(1)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "cannot be none"),
        (5, "should be of list type.*returned int"),
        ("text", "should be of list type.*returned str"),
        (Row(1, 2), "should be of list type.*returned Row"),
    ],
)
def test_a_result_that_is_no_list_is_refused(result: Any, text: str) -> None:
    async def answer(value: Any) -> Any:
        return result

    with (
        harness(AsyncDataStream.ordered_wait, answer) as running,
        pytest.raises(UserCodeError, match=f"{text}.*on the record 'x'"),
    ):
        running.process_element("x")


def test_results_may_be_many_or_none_in_any_iterable() -> None:
    async def numbers(value: int) -> Iterator[int]:
        return iter(range(value))

    with harness(AsyncDataStream.ordered_wait, numbers) as running:
        running.process_elements([2, 0, 3], [10, 20, 30])
        assert running.records() == [(0, 10), (1, 10), (0, 30), (1, 30), (2, 30)]


def test_records_without_timestamps_may_come_between_others() -> None:
    with harness(AsyncDataStream.ordered_wait, Sleeper()) as running:
        running.process_element(20, 1)
        running.process_element(10)
        running.process_element(10, 3)
        running.advance_processing_time(20)
        assert running.records() == [(20, 1), (10, None), (10, 3)]


@pytest.mark.parametrize("wait", WAITS)
def test_records_in_flight_are_in_the_snapshot_and_start_over(wait: Any) -> None:
    with harness(wait, Sleeper()) as running:
        running.process_elements([10, 30, 20], [1, 2, 3])
        running.advance_processing_time(10)
        emitted = running.records() if wait is AsyncDataStream.unordered_wait else [(10, 1)]
        assert running.records() == emitted
        stored = running.snapshot()
    with harness(wait, Sleeper(), restored=stored) as again:
        again.advance_processing_time(30)
        assert sorted(again.records()) == [(20, 3), (30, 2)]


def test_records_in_flight_move_to_other_subtasks() -> None:
    with harness(AsyncDataStream.unordered_wait, Sleeper()) as running:
        running.process_elements([10, 20, 30, 40])
        stored = running.snapshot()
    with harness(AsyncDataStream.unordered_wait, Sleeper(), restored=stored, parallelism=3) as wider:
        wider.advance_processing_time(40)
        assert sorted(wider.output()) == [10, 20, 30, 40]
        assert wider.snapshot().checkpoint_id == 2


def test_what_is_complete_leaves_before_the_barrier() -> None:
    with harness(AsyncDataStream.unordered_wait, Sleeper()) as running:
        running.process_elements([10, 20])
        running.advance_processing_time(10)
        stored = running.snapshot()
        running.advance_processing_time(10)
        assert running.output() == [10, 20]
    with harness(AsyncDataStream.unordered_wait, Sleeper(), restored=stored) as again:
        again.advance_processing_time(20)
        assert again.output() == [20]


def test_the_end_of_input_waits_for_everything_in_flight() -> None:
    with harness(AsyncDataStream.unordered_wait, Sleeper()) as running:
        running.process_elements([10, 20])
        running.end_input()
        assert running.output() == []
        running.advance_processing_time(20)
        assert running.output() == [10, 20]
        assert len(running.watermarks()) == 1


class Flaky(AsyncFunction):
    """Fails, or has no results, at its first calls for a record."""

    def __init__(self, bad_calls: int, raises: bool) -> None:
        self._bad_calls = bad_calls
        self._raises = raises

    def open(self, runtime_context: RuntimeContext) -> None:
        self._calls: dict[Any, int] = {}

    async def async_invoke(self, value: Any) -> list[Any]:
        self._calls[value] = self._calls.get(value, 0) + 1
        if self._calls[value] > self._bad_calls:
            return [(value, self._calls[value])]
        if self._raises:
            raise ConnectionError("busy")
        return []


def retrying(function: AsyncFunction, strategy: AsyncRetryStrategy, timeout_ms: int = 1_000) -> Harness:
    return OneInputHarness(
        lambda stream: AsyncDataStream.unordered_wait_with_retry(
            stream, function, Duration.of_millis(timeout_ms), strategy, 10
        )
    )


def test_a_call_that_fails_is_tried_again_after_the_delay() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 100, None, has_exception_predicate)
    with retrying(Flaky(2, raises=True), strategy) as running:
        running.process_element("a")
        running.advance_processing_time(199)
        assert running.output() == []
        running.advance_processing_time(1)
        assert running.output() == [("a", 3)]


def test_a_result_may_ask_for_another_attempt() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(5, 10, 1_000, 2.0, empty_result_predicate, None)
    with retrying(Flaky(3, raises=False), strategy) as running:
        running.process_element("a")
        running.advance_processing_time(10 + 20 + 39)
        assert running.output() == []
        running.advance_processing_time(1)
        assert running.output() == [("a", 4)]


def test_after_the_last_attempt_the_outcome_counts() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1, 10, empty_result_predicate, has_exception_predicate)
    with retrying(Flaky(9, raises=False), strategy) as running:
        running.process_element("a")
        running.advance_processing_time(50)
        running.end_input()
        assert running.output() == []
    with retrying(Flaky(9, raises=True), strategy) as running:
        running.process_element("a")
        with pytest.raises(UserCodeError, match="ConnectionError: busy on the record 'a'"):
            running.advance_processing_time(10)


def test_a_timeout_ends_all_attempts() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(100, 10, None, has_exception_predicate)
    with retrying(Flaky(99, raises=True), strategy, timeout_ms=35) as running:
        running.process_element("a")
        with pytest.raises(UserCodeError, match="took longer than 35 ms"):
            running.advance_processing_time(40)


def test_open_and_close_may_be_coroutines_on_the_event_loop() -> None:
    class Client(AsyncFunction):
        async def open(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]
            await asyncio.sleep(0.001)
            self._loop = asyncio.get_running_loop()

        async def close(self) -> None:  # type: ignore[override]
            assert asyncio.get_running_loop() is self._loop

        async def async_invoke(self, value: Any) -> list[Any]:
            return [asyncio.get_running_loop() is self._loop]

    with harness(AsyncDataStream.ordered_wait, Client()) as running:
        running.process_element(1)
        assert running.output() == [True]


def test_keyed_streams_can_ask_too_and_two_operators_can_follow_each_other() -> None:
    async def tripled(value: int) -> list[int]:
        await asyncio.sleep(value / 1_000)
        return [3 * value]

    def build(keyed: Any) -> Any:
        once = AsyncDataStream.unordered_wait(keyed, tripled, Time.seconds(1))
        return AsyncDataStream.ordered_wait(once, tripled, Time.seconds(1))

    with KeyedOneInputHarness(build, lambda value: value % 2, parallelism=2) as running:
        running.process_elements([1, 2, 3, 4])
        running.advance_processing_time(40)
        assert sorted(running.output()) == [9, 18, 27, 36]


def test_keyed_state_in_an_async_function_is_refused() -> None:
    class Stateful(Sleeper):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def build(keyed: Any) -> Any:
        return AsyncDataStream.unordered_wait(keyed, Stateful(), Time.seconds(1))

    with pytest.raises(StateError, match="an async function has no keyed state"):
        KeyedOneInputHarness(build, lambda value: value)


class Blocking:
    def async_invoke(self, value: Any) -> list[Any]:
        return [value]


@pytest.mark.parametrize("wait", WAITS)
def test_what_can_never_work_is_refused_where_it_is_written(wait: Any) -> None:
    refused = partial(wait, None)
    with pytest.raises(ConfigurationError, match="'Blocking' should be declared as 'async def'"):
        refused(Blocking(), Time.seconds(1))
    with pytest.raises(ConfigurationError, match="capacity is 0"):
        refused(Sleeper(), Time.seconds(1), 0)
    with pytest.raises(ConfigurationError, match="timeout is -1 ms; it cannot be negative"):
        refused(Sleeper(), Time.milliseconds(-1))
    with pytest.raises(ConfigurationError, match="give a Time or a Duration"):
        refused(Sleeper(), 5)


def test_a_retry_strategy_needs_a_timeout_and_has_to_be_one() -> None:
    retry = AsyncDataStream.ordered_wait_with_retry
    strategy = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
    with pytest.raises(ConfigurationError, match="Timeout should be configured when do async with retry"):
        retry(None, Sleeper(), Time.seconds(0), strategy)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Async retry strategy should not be None"):
        retry(None, Sleeper(), Time.seconds(1), None)  # type: ignore[arg-type]
