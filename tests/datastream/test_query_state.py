"""A driver asks its running job what a key holds: as of the last checkpoint, or live."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError, KeyTypeError, StateError
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

from .jobs import WAIT_S, HeldSource, environment

COUNT = 100
KEYS = 5


class Mean:
    """Averages numbers; the accumulator is (count, sum)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]


class Everything(KeyedProcessFunction):
    """Keeps each number in every kind of state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = StateTtlConfig.new_builder(Time.milliseconds(1)).build()
        short = ValueStateDescriptor("short", Types.LONG())
        short.enable_time_to_live(ttl)
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.short = runtime_context.get_state(short)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.squares = runtime_context.get_map_state(MapStateDescriptor("squares", Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), pair))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.last.update(value)
        self.short.update(value)
        self.all.add(value)
        self.squares.put(value, {"square": value * value})
        self.mean.add(value)
        yield value


@contextmanager
def running(tmp_path: Path | None, parallelism: int = 2, **options: str) -> Iterator[JobClient]:
    """A job that has processed the first half of the numbers and waits."""
    if tmp_path is not None:
        options = {"execution.checkpointing.interval": "1 h", **options}
    env = environment(tmp_path, parallelism, options)
    arrived = threading.Semaphore(0)
    source = HeldSource(COUNT, None, splits=2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "Held").uid("held")
    keyed = stream.key_by(lambda value: value % KEYS, key_type=Types.LONG())
    keyed.process(Everything()).name("All").uid("all").add_sink(lambda value: _note(value))
    _SEEN[:] = [arrived]
    client = env.execute_async("queried")
    try:
        for _ in range(COUNT // 2):
            assert arrived.acquire(timeout=WAIT_S)
        yield client
    finally:
        client.close()


_SEEN: list[threading.Semaphore] = []


def _note(value: int) -> None:
    # By name: a semaphore cannot travel in a function's closure.
    _SEEN[0].release()


HALF = [*range(25), *range(50, 75)]


def of_key(key: int) -> list[int]:
    return [value for value in HALF if value % KEYS == key]


@pytest.mark.parametrize("consistency", ["checkpoint", "live"])
@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_every_kind_of_state_can_be_asked_for_a_key(tmp_path: Path, consistency: str, backend: str) -> None:
    with running(tmp_path, **{"state.backend.type": backend}) as client:
        client.trigger_checkpoint()

        def ask(state: str, key: int) -> Any:
            return client.query_state("all", state, key, consistency=consistency)

        for key in range(KEYS):
            mine = of_key(key)
            assert sorted(ask("all", key)) == mine
            assert ask("squares", key) == {value: {"square": value * value} for value in mine}
            assert ask("last", key) in mine
            assert ask("mean", key) == (len(mine), sum(mine))
            assert ask("short", key) is None, "expired"
        assert ask("last", KEYS) is None
        assert ask("all", KEYS) is None
        assert ask("squares", KEYS) is None


def test_a_live_read_is_newer_than_the_last_checkpoint(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        with pytest.raises(StateError, match="has completed no checkpoint to read state from"):
            client.query_state("all", "last", 0)
        assert client.query_state("all", "last", 0, consistency="live") in of_key(0)


def test_a_job_without_checkpoints_answers_live_only() -> None:
    with running(None) as client:
        assert sorted(client.query_state("all", "all", 1, consistency="live")) == of_key(1)
        with pytest.raises(StateError, match=r"execution\.checkpointing\.interval"):
            client.query_state("all", "all", 1)


@pytest.mark.parametrize("consistency", ["checkpoint", "live"])
def test_unknown_names_are_errors_that_list_what_there_is(tmp_path: Path, consistency: str) -> None:
    with running(tmp_path) as client:
        client.trigger_checkpoint()
        with pytest.raises(StateError, match=r"no operator with uid 'nobody'.*all \(All\)"):
            client.query_state("nobody", "last", 0, consistency=consistency)
        with pytest.raises(StateError, match=r"state 'first'.*there is: .*'last'"):
            client.query_state("all", "first", 0, consistency=consistency)
        with pytest.raises(StateError, match=r"Held.*(no keyed state|no state 'x')"):
            client.query_state("held", "x", 0, consistency=consistency)
        with pytest.raises(KeyTypeError, match="no deterministic encoding"):
            client.query_state("all", "last", 0.5, consistency=consistency)
        assert client.query_state("all", "last", 0, consistency=consistency) in of_key(0)
    with pytest.raises(ConfigurationError, match="'checkpoint' or 'live'"):
        client.query_state("all", "last", 0, consistency="eventual")


def test_a_job_that_is_over_does_not_answer_live(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        pass
    with pytest.raises(JobExecutionError, match="the job is CANCELED"):
        client.query_state("all", "last", 0, consistency="live")


def test_reading_while_checkpoints_replace_one_another_always_answers(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        client.trigger_checkpoint()
        stop = threading.Event()

        def checkpoints() -> None:
            while not stop.is_set():
                client.trigger_checkpoint()

        thread = threading.Thread(target=checkpoints)
        thread.start()
        try:
            for key in itertools.islice(itertools.cycle(range(KEYS)), 100):
                assert sorted(client.query_state("all", "all", key)) == of_key(key)
        finally:
            stop.set()
            thread.join()


def test_questions_do_not_change_what_the_job_computes(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        before = [sorted(client.query_state("all", "all", key, consistency="live")) for key in range(KEYS)]
        for found in before:
            found.append(-1)
        after = [sorted(client.query_state("all", "all", key, consistency="live")) for key in range(KEYS)]
    assert after == [of_key(key) for key in range(KEYS)]
