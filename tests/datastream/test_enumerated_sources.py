"""Sources whose splits an enumerator in the coordinator finds and assigns while the job runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import (
    Boundedness,
    MapFunction,
    Source,
    SourceReader,
    SplitEnumerator,
    SplitEnumeratorContext,
    StreamExecutionEnvironment,
)
from tidegate.operators.base import OperatorContext
from tidegate.protocol.elements import Batch

from .jobs import WAIT_S, environment


@dataclass(frozen=True)
class Range:
    """The numbers from `position` to below `end`."""

    position: int
    end: int


class Ranges(Source):
    """Finds `count` ranges of ten numbers, a few at a time, and ends after the last.

    Args:
        pushes: Whether the enumerator assigns on its own, in turn, instead of waiting to be asked.
    """

    def __init__(self, count: int, pushes: bool = False) -> None:
        self.count = count
        self.pushes = pushes

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return RangeEnumerator(self, context, 0, [])

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return RangeEnumerator(self, context, *checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        assert splits == []
        return RangeReader()


class RangeEnumerator(SplitEnumerator):
    completed: ClassVar[list[int]] = []

    def __init__(
        self, source: Ranges, context: SplitEnumeratorContext, found: int, waiting: list[Range]
    ) -> None:
        self.source = source
        self.context = context
        self.found = found
        self.waiting = list(waiting)
        self.asking: list[int] = []
        self.turn = 0

    def start(self) -> None:
        self.context.call_async(self.discover, self.discovered, initial_delay_ms=1, period_ms=3)

    def discover(self) -> list[int]:
        """In another thread: how much there is outside."""
        assert threading.current_thread() is not threading.main_thread()
        return list(range(self.source.count))

    def discovered(self, there: list[int] | None, problem: BaseException | None) -> None:
        assert problem is None
        assert there is not None
        new = there[self.found : self.found + 3]
        self.found += len(new)
        self.waiting += [Range(number * 10, number * 10 + 10) for number in new]
        self.assign()

    def assign(self) -> None:
        if self.source.pushes:
            for split in self.waiting:
                self.context.assign_split(split, self.turn % self.context.current_parallelism())
                self.turn += 1
            self.waiting = []
        while self.asking and self.waiting:
            self.context.assign_splits({self.asking.pop(0): [self.waiting.pop(0)]})
        if self.found == self.source.count and not self.waiting:
            for subtask_id in self.context.registered_readers():
                if self.source.pushes or subtask_id in self.asking:
                    self.context.signal_no_more_splits(subtask_id)

    def handle_split_request(self, subtask_id: int) -> None:
        self.asking.append(subtask_id)
        self.assign()

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self.waiting += splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self.found, list(self.waiting)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        RangeEnumerator.completed.append(checkpoint_id)


class RangeReader(SourceReader):
    def __init__(self) -> None:
        self.splits: list[Range] = []

    def add_splits(self, splits: list[Any]) -> None:
        self.splits += splits

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        split = self.splits[0]
        stop = min(split.position + 3, split.end)
        if stop < split.end:
            self.splits[0] = replace(split, position=stop)
        else:
            self.splits.pop(0)
        return Batch(list(range(split.position, stop)))

    def snapshot_state(self) -> list[Any]:
        return list(self.splits)


def read(env: StreamExecutionEnvironment, source: Source, *maps: MapFunction) -> list[Any]:
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "Ranges").uid("ranges")
    for number, function in enumerate(maps):
        stream = stream.map(function).uid(f"map-{number}")
    with stream.execute_and_collect() as results:
        return list(results)


@pytest.mark.parametrize("pushes", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("is_checkpointing", [False, True])
def test_every_split_that_is_found_is_read_once(
    tmp_path: Path, pushes: bool, parallelism: int, is_checkpointing: bool
) -> None:
    env = environment(tmp_path if is_checkpointing else None, parallelism)
    assert sorted(read(env, Ranges(20, pushes))) == list(range(200))


class Crashes(MapFunction):
    """Fails at some of the records, each of these once, when another checkpoint has completed."""

    left: ClassVar[set[int]] = set()
    completed: ClassVar[int] = 0

    def map(self, value: Any) -> Any:
        if value in Crashes.left and len(RangeEnumerator.completed) > Crashes.completed:
            Crashes.left.discard(value)
            Crashes.completed = len(RangeEnumerator.completed)
            raise RuntimeError(f"crash at {value}")
        return value


@pytest.mark.parametrize("pushes", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_after_crashes_no_split_is_lost_and_none_is_read_twice(
    tmp_path: Path, pushes: bool, parallelism: int
) -> None:
    Crashes.left = set(range(100, 600))
    Crashes.completed = len(RangeEnumerator.completed)
    env = environment(tmp_path, parallelism, {
        "restart-strategy.fixed-delay.attempts": "1000",
    })  # fmt: skip
    assert sorted(read(env, Ranges(60, pushes), Crashes())) == list(range(600))
    assert len(Crashes.left) < 500


class Seen(MapFunction):
    """Keeps what passes, and sets an event at some time."""

    reached: ClassVar[threading.Event] = threading.Event()
    values: ClassVar[list[Any]] = []

    def map(self, value: Any) -> Any:
        Seen.values.append(value)
        if len(Seen.values) >= 60:
            Seen.reached.set()
        return value


def ignore(value: Any) -> None:
    """Take a record."""


@pytest.mark.parametrize("pushes", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_splits_are_shared_out_anew_when_the_parallelism_changes(
    tmp_path: Path, before: int, after: int, pushes: bool
) -> None:
    Seen.values.clear()
    Seen.reached.clear()
    env = environment(tmp_path, before)
    stream = env.from_source(Ranges(300, pushes), WatermarkStrategy.no_watermarks(), "Ranges").uid("ranges")
    stream.map(Seen()).uid("map-0").add_sink(ignore)
    client = env.execute_async()
    assert Seen.reached.wait(WAIT_S)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    seen = sorted(Seen.values)
    options = {
        "execution.state-recovery.path": str(path),
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    rest = read(environment(tmp_path / "again", after, options), Ranges(300, pushes), Seen())
    assert 60 <= len(seen) < 3_000
    assert sorted(seen + rest) == list(range(3_000))


# ---------------------------------------------------------------- source events


class Talking(Ranges):
    """Its reader greets its enumerator, which answers with what the reader then reads."""

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return TalkingEnumerator(self, context, 0, [])

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return TalkingReader()


class TalkingEnumerator(RangeEnumerator):
    def start(self) -> None:
        """Find nothing."""

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign nothing."""

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        self.context.send_event_to_source_reader(subtask_id, f"{source_event}, {subtask_id}")
        self.context.signal_no_more_splits(subtask_id)


class TalkingReader(RangeReader):
    def open(self, context: OperatorContext) -> None:
        self.context = context
        self.answers: list[str] = []
        self.has_greeted = False

    def handle_source_event(self, source_event: Any) -> None:
        self.answers.append(source_event)

    def poll(self, max_records: int) -> Batch | None:
        if not self.has_greeted:
            self.has_greeted = True
            self.context.send_source_event("hello")
            return Batch([])
        answers, self.answers = self.answers, []
        return Batch(answers) if answers else None


def test_reader_and_enumerator_send_each_other_events() -> None:
    assert sorted(read(environment(parallelism=2), Talking(0))) == ["hello, 0", "hello, 1"]


# ---------------------------------------------------------------- errors


class Failing(Ranges):
    """Raises in one of its methods."""

    def __init__(self, where: str) -> None:
        super().__init__(3, pushes=True)
        self.where = where

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        self.fail("create_enumerator()")
        return FailingEnumerator(self, context, 0, [])

    def fail(self, where: str) -> None:
        if self.where == where:
            raise ValueError("boom")


class FailingEnumerator(RangeEnumerator):
    source: Failing

    def start(self) -> None:
        self.source.fail("start()")
        super().start()

    def add_reader(self, subtask_id: int) -> None:
        self.source.fail("add_reader()")
        if self.source.where == "assign":
            self.context.assign_split(Range(0, 1), 7)

    def discovered(self, there: list[int] | None, problem: BaseException | None) -> None:
        self.source.fail("handler of call_async()")
        super().discovered(there, problem)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        self.source.fail("snapshot_state()")
        return super().snapshot_state(checkpoint_id)


@pytest.mark.parametrize(
    "where", ["create_enumerator()", "start()", "add_reader()", "handler of call_async()"]
)
def test_an_exception_in_the_enumerator_fails_the_job_and_names_the_operator(where: str) -> None:
    with pytest.raises(JobExecutionError) as failure:
        read(environment(), Failing(where))
    assert f"operator 'Ranges': the enumerator's {where} raised ValueError: boom" in str(failure.value)


def test_a_split_for_a_subtask_that_is_not_there_fails_the_job() -> None:
    with pytest.raises(JobExecutionError, match=r"no reader in subtask 7; those there are: \[0\]"):
        read(environment(), Failing("assign"))


def test_an_enumerator_that_cannot_be_snapshotted_aborts_the_checkpoint(tmp_path: Path) -> None:
    options = {"execution.checkpointing.tolerable-failed-checkpoints": "0", "restart-strategy.type": "none"}
    with pytest.raises(
        JobExecutionError, match=r"the enumerator's snapshot_state\(\) raised ValueError: boom"
    ):
        read(environment(tmp_path, options=options), Failing("snapshot_state()"))


class Static(Source):
    """Knows its splits from the start."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return [Range(0, 30)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        reader = RangeReader()
        reader.add_splits(splits)
        return reader


def test_a_source_without_enumerator_needs_none(tmp_path: Path) -> None:
    assert read(environment(tmp_path), Static()) == list(range(30))


class Nothing(Source):
    def create_reader(self, splits: list[Any]) -> SourceReader:
        return RangeReader()


class Forgetful(Nothing):
    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return RangeEnumerator(Ranges(1), context, 0, [])


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (Nothing(), r"Nothing has neither create_splits\(\) nor create_enumerator\(\)"),
        (Forgetful(), r"Forgetful has create_enumerator\(\) but no restore_enumerator\(\)"),
    ],
)
def test_a_source_that_lacks_a_method_is_refused_in_the_driver(source: Source, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        environment().from_source(source, WatermarkStrategy.no_watermarks(), "x")
