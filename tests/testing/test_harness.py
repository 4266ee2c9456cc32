"""The harnesses: what goes in, what comes out, and what happens to state in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError, StateError, StateMigrationError, UserCodeError
from tidegate.datastream import (
    CheckpointListener,
    FilterFunction,
    FlatMapFunction,
    HashMapStateBackend,
    KeyedProcessFunction,
    LmdbStateBackend,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    StateBackend,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.testing import HarnessSnapshot, KeyedOneInputHarness, OneInputHarness

BACKENDS = [HashMapStateBackend(), LmdbStateBackend()]


class Count(KeyedProcessFunction):
    """Emits every record with its number among those of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value, count


def counting(**options: Any) -> KeyedOneInputHarness:
    return KeyedOneInputHarness(Count(), lambda value: value, Types.STRING(), **options)


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value % 2 == 0)


class Repeat(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[Any]:
        yield from [value] * value


class Stamp(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Double(), [(0, 5), (2, 6), (4, 7)]),
        (Even(), [(0, 5), (2, 7)]),
        (Repeat(), [(1, 6), (2, 7), (2, 7)]),
        (Stamp(), [((0, 5), 5), ((1, 6), 6), ((2, 7), 7)]),
    ],
)
def test_a_function_alone_is_run_as_its_stream_would(function: Any, expected: Any) -> None:
    with OneInputHarness(function) as harness:
        harness.process_elements([0, 1, 2], [5, 6, 7])
        assert harness.records() == expected


def test_a_part_of_a_job_is_run_with_its_shuffles() -> None:
    def part(stream: Any) -> Any:
        return stream.filter(Even()).map(str).key_by(lambda text: text).process(Count()).map(list)

    with OneInputHarness(part, parallelism=3) as harness:
        harness.process_elements([1, 2, 4, 2])
        assert sorted(harness.output()) == [["2", 1], ["2", 2], ["4", 1]]


def test_output_can_be_taken_piece_by_piece() -> None:
    with OneInputHarness(Double()) as harness:
        harness.process_element(1)
        assert harness.take_output() == [2]
        harness.process_element(2, timestamp=9)
        assert harness.output() == harness.take_output() == [4]
        assert harness.output() == []


def test_watermarks_and_barriers_come_through_in_order_once_for_all_subtasks() -> None:
    with counting(parallelism=2) as harness:
        harness.process_watermark(5)
        harness.process_watermark(4)
        harness.process_barrier(1)
        harness.process_watermark(7)
        assert harness.watermarks() == [5, 7]
        assert harness.barriers() == [1]
        harness.end_input()
        assert harness.watermarks() == [5, 7, MAX_WATERMARK_MS]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: type(backend).__name__)
def test_state_is_there_to_be_looked_at_and_survives_in_snapshots(backend: StateBackend) -> None:
    with counting(state_backend=backend) as harness:
        harness.process_elements(["a", "b", "a"])
        assert harness.get_state("count", "a") == 2
        assert harness.get_state("count", "never seen") is None
        stored = harness.snapshot()
        harness.process_element("a")
    assert stored.checkpoint_id == 1
    with counting(state_backend=backend, restored=stored) as again:
        again.process_elements(["a", "c"])
        assert again.output() == [("a", 3), ("c", 1)]
        assert again.snapshot().checkpoint_id == 2


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_snapshot_can_be_restored_with_another_parallelism(parallelism: int) -> None:
    keys = [f"key {number}" for number in range(40)]
    with counting(parallelism=3) as harness:
        harness.process_elements(keys)
        stored = harness.snapshot()
    with counting(parallelism=parallelism, restored=stored) as again:
        again.process_elements(keys)
        assert sorted(again.output()) == sorted((key, 2) for key in keys)


def test_a_snapshot_can_be_restored_with_another_backend() -> None:
    with counting(state_backend=HashMapStateBackend()) as harness:
        harness.process_element("a")
        stored = harness.snapshot()
    with counting(state_backend=LmdbStateBackend(), restored=stored) as again:
        assert again.get_state("count", "a") == 1


def test_a_snapshot_of_another_max_parallelism_is_refused() -> None:
    with counting() as harness:
        harness.process_element("a")
        stored = harness.snapshot()
    with pytest.raises(StateMigrationError, match="max parallelism"):
        counting(max_parallelism=64, restored=stored)


def test_a_chain_of_snapshots_holds_what_came_before_each() -> None:
    stored: HarnessSnapshot | None = None
    for round_number in range(1, 5):
        with counting(restored=stored, parallelism=round_number) as harness:
            harness.process_element("a")
            assert harness.output() == [("a", round_number)]
            stored = harness.snapshot()


def test_functions_hear_of_checkpoints() -> None:
    class Listening(MapFunction, CheckpointListener):
        heard: list[Any]

        def open(self, runtime_context: RuntimeContext) -> None:
            self.heard = []

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.heard.append(("complete", checkpoint_id))

        def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
            self.heard.append(("aborted", checkpoint_id))

        def map(self, value: Any) -> Any:
            return list(self.heard)

    with OneInputHarness(Listening()) as harness:
        harness.notify_checkpoint_complete(harness.snapshot().checkpoint_id)
        harness.notify_checkpoint_aborted(harness.snapshot().checkpoint_id)
        harness.process_element("what?")
        assert harness.output() == [[("complete", 1), ("aborted", 2)]]


def test_reduce_runs_on_a_keyed_stream() -> None:
    class Largest(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return max(value1, value2)

    with KeyedOneInputHarness(Largest(), lambda value: value % 2) as harness:
        harness.process_elements([4, 7, 2, 9])
        assert harness.output() == [4, 7, 4, 9]


def test_an_error_in_user_code_is_raised_where_the_record_went_in() -> None:
    with (
        OneInputHarness(lambda stream: stream.map(lambda value: 1 // value).name("Divide")) as harness,
        pytest.raises(UserCodeError, match=r"Divide \(1/1\): map\(\) raised ZeroDivisionError") as raised,
    ):
        harness.process_element(0)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_an_error_in_open_is_raised_by_the_harness_itself() -> None:
    class Broken(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no such host")

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(UserCodeError, match=r"open\(\) raised OSError: no such host"):
        OneInputHarness(Broken())


def test_functions_are_closed_once(tmp_path: Path) -> None:
    class Closing(MapFunction):
        def close(self) -> None:
            with (tmp_path / "closed").open("a") as file:
                file.write("x")

        def map(self, value: Any) -> Any:
            return value

    with OneInputHarness(Closing()) as harness:
        harness.process_element(1)
    harness.close()
    assert (tmp_path / "closed").read_text() == "x"


def test_what_a_harness_does_not_know_is_said_clearly() -> None:
    with counting() as harness:
        harness.process_element("a")
        with pytest.raises(StateError, match="no keyed state 'amount'; there is: 'count'"):
            harness.get_state("amount", "a")
        with pytest.raises(ConfigurationError, match="time cannot pass by -1 ms"):
            harness.advance_processing_time(-1)
    with pytest.raises(ConfigurationError, match="give a callable that takes the stream"):
        OneInputHarness(object())


def test_a_snapshot_that_is_still_being_written_behind_holds_nothing_up_for_good() -> None:
    keys = [str(number) for number in range(20_000)]
    with counting(state_backend=LmdbStateBackend()) as harness:
        for _ in range(3):
            harness.process_elements(keys)
            harness.snapshot()
            harness.process_element("0")
        assert len(harness.records()) == 3 * (len(keys) + 1)
