"""Process functions with timers, as programs: on time, after a stop, after a restart, and badly written."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import JobStatus, Types, WatermarkStrategy
from tidegate.common.errors import JobExecutionError, StateError
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import (
    DataStream,
    HashMapStateBackend,
    KeyedProcessFunction,
    LmdbStateBackend,
    ProcessFunction,
    RuntimeContext,
    StateBackend,
    StreamExecutionEnvironment,
    TimeDomain,
)
from tidegate.datastream.state import ValueStateDescriptor

from .jobs import WAIT_S, HeldSource, Kept, environment

COUNT, KEYS = 200, 7
TEN_YEARS_MS = 315_576_000_000


class ItselfAsTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Totals(KeyedProcessFunction):
    """One total per key, when event time has passed all numbers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(10 * COUNT)
        # Never reached, and dropped at the end of the input.
        due = ctx.timer_service().current_processing_time() + TEN_YEARS_MS
        ctx.timer_service().register_processing_time_timer(due)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield ctx.get_current_key(), self.total.value()


def totals_of(count: int) -> list[tuple[int, int]]:
    return [(key, sum(range(key, count, KEYS))) for key in range(KEYS)]


def totals(env: StreamExecutionEnvironment, snapshots: int | None) -> DataStream:
    env.set_max_parallelism(16)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ItselfAsTime())
    source = env.from_source(HeldSource(COUNT, snapshots), strategy, "Held").uid("numbers")
    return source.key_by(lambda value: value % KEYS).process(Totals()).uid("totals")


def total_of(client: JobClient, key: int) -> int | None:
    """What a running job has so far, `None` also while it starts."""
    try:
        total: int | None = client.query_state("totals", "total", key, consistency="live")
    except StateError:
        return None
    return total


def test_at_the_end_of_the_input_event_time_timers_fire_and_others_are_dropped() -> None:
    results = list(totals(environment(parallelism=2), 0).execute_and_collect())
    assert sorted(results) == totals_of(COUNT)


def test_a_stop_with_drain_fires_every_timer(tmp_path: Path) -> None:
    env = environment(tmp_path, 2, {"execution.checkpointing.interval": "1 h"})
    totals(env, None).map(Kept("drained")).add_sink(lambda value: None)
    client = env.execute_async()
    # The sources have read half of each of their four parts, and wait.
    halves = {number for low in range(0, COUNT, 50) for number in range(low, low + 25)}
    expected = [(key, sum(n for n in halves if n % KEYS == key)) for key in range(KEYS)]
    while [(key, total_of(client, key)) for key in range(KEYS)] != expected:
        assert client.wait(0.01) is JobStatus.RUNNING, client.report().cause
    assert Kept.results["drained"] == []
    client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(WAIT_S)
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert sorted(Kept.results["drained"]) == expected


@pytest.mark.parametrize("then", [LmdbStateBackend(), HashMapStateBackend()], ids=["lmdb", "memory"])
def test_timers_move_with_a_savepoint_to_another_parallelism_and_backend(
    tmp_path: Path, then: StateBackend
) -> None:
    env = environment(tmp_path / "one", 2, {"execution.checkpointing.interval": "1 h"})
    totals(env, None).map(Kept("stopped")).add_sink(lambda value: None)
    client = env.execute_async()
    while any(total_of(client, key) is None for key in range(KEYS)):
        assert client.wait(0.01) is JobStatus.RUNNING, client.report().cause
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert Kept.results["stopped"] == []
    env = environment(tmp_path / "two", 3, {"execution.state-recovery.path": path})
    results = list(totals(env.set_state_backend(then), 0).execute_and_collect())
    assert sorted(results) == totals_of(COUNT)


class Slow(KeyedProcessFunction):
    """Answers 50 ms late; no record comes by then."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        if value == 0:
            ctx.timer_service().register_processing_time_timer(
                ctx.timer_service().current_processing_time() + 50
            )

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.timestamp() == timestamp
        yield ctx.time_domain().name, timestamp <= time.time() * 1_000


def test_a_processing_time_timer_fires_while_nothing_comes_in() -> None:
    env = environment()
    source = env.from_source(HeldSource(10, None), WatermarkStrategy.no_watermarks(), "Held")
    with source.key_by(lambda value: 0).process(Slow()).execute_and_collect() as results:
        assert next(results) == ("PROCESSING_TIME", True)


# ---------------------------------------------------------------- bad input


class Returning(ProcessFunction, KeyedProcessFunction):
    """Returns what it is given."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result


def run(function: Any, keyed: bool) -> list[Any]:
    stream = environment().from_collection([1, 2, 3])
    if keyed:
        stream = stream.key_by(lambda value: value)
    return list(stream.process(function).name("Answer").execute_and_collect())


@pytest.mark.parametrize("keyed", [False, True])
def test_none_and_an_empty_result_give_nothing(keyed: bool) -> None:
    assert run(Returning(None), keyed) == run(Returning([]), keyed) == []


@pytest.mark.parametrize("keyed", [False, True])
def test_a_result_that_is_not_iterable_names_the_operator_and_the_record(keyed: bool) -> None:
    message = r"Answer.*process_element\(\).*it returned 42 \(int\), which is not iterable.*on the record 1"
    with pytest.raises(JobExecutionError, match=message):
        run(Returning(42), keyed)


class Breaking(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value
        raise ValueError("no second one")


def test_a_generator_that_raises_midway_fails_the_job_and_names_the_record() -> None:
    with pytest.raises(JobExecutionError, match=r"Answer.*ValueError: no second one on the record 1"):
        run(Breaking(), True)


class Alarmed(ProcessFunction, KeyedProcessFunction):
    def __init__(self, domain: str, at: Any) -> None:
        self.domain, self.at = domain, at

    def process_element(self, value: Any, ctx: Any) -> None:
        getattr(ctx.timer_service(), f"register_{self.domain}_time_timer")(self.at)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise LookupError("nobody home")


@pytest.mark.parametrize("domain", ["event", "processing"])
def test_a_timer_without_a_key_says_what_to_do(domain: str) -> None:
    with pytest.raises(JobExecutionError, match=r"Answer.*stream without keys; .* call key_by\(\)"):
        run(Alarmed(domain, 5), False)


def test_a_timer_at_no_time_is_refused() -> None:
    with pytest.raises(JobExecutionError, match=r"Answer.*timer in event time: 'soon' is no time"):
        run(Alarmed("event", "soon"), True)


def test_an_error_in_on_timer_names_the_timer_and_its_key() -> None:
    with pytest.raises(JobExecutionError, match=r"Answer.*on_timer\(\) at 5 \(EVENT_TIME\) for the key 1"):
        run(Alarmed("event", 5), True)
