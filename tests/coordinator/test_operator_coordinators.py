"""The coordinator's half of a source: what it assigns, in which order, and what a checkpoint keeps of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cloudpickle
import pytest
from tidegate.operators.sources.enumerators import SplitEnumerator, SplitEnumeratorContext
from tidegate.operators.sources.sources import Source, SourceOperator, SourceReader
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.scheduling.plan import JobGraph
from tidegate.protocol.source_events import (
    NoMoreSplits,
    ReaderStarted,
    SourceEventSent,
    SplitRequested,
    SplitsAssigned,
    WatermarkLimit,
    WatermarkReported,
)

from .fakes import SOURCE, SUBTASKS, FakeCluster, job_graph, job_spec


class Letters(Source):
    """The letters of a word, one for each request."""

    def __init__(self, word: str) -> None:
        self.word = word

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return LetterEnumerator(context, list(self.word))

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return LetterEnumerator(context, checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        raise NotImplementedError


class LetterEnumerator(SplitEnumerator):
    def __init__(self, context: SplitEnumeratorContext, waiting: list[str]) -> None:
        self.context = context
        self.waiting = waiting

    def start(self) -> None:
        self.context.call_async(lambda: "z", self.found, initial_delay_ms=50, period_ms=500)

    def found(self, letter: Any, problem: BaseException | None) -> None:
        self.waiting.append(letter)

    def handle_split_request(self, subtask_id: int) -> None:
        if self.waiting:
            self.context.assign_split(self.waiting.pop(0), subtask_id)
        else:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self.waiting = splits + self.waiting

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        self.context.send_event_to_source_reader(subtask_id, list(self.waiting))

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return list(self.waiting)


class Cluster(FakeCluster):
    """A job whose source has an enumerator, and its one reader."""

    def __init__(self, word: str = "abc", **settings: Any) -> None:
        super().__init__(job_spec(coordinated(Letters(word)), **settings))

    def say(self, event: Any) -> None:
        """The reader says something."""
        self.coordinator.handle(events.FromOperator(self.attempt, SOURCE, "numbers", event))

    def run_with(self, *restored: str) -> Cluster:
        """Start an attempt whose reader had these splits."""
        if not self.deployments:
            self.start()
        self.say(ReaderStarted(tuple(restored)))
        self.initialized()
        return self

    def told(self) -> list[Any]:
        """What the reader is told in this attempt, by number; the numbers have no gap."""
        numbered = {
            mail.number: mail.mail
            for attempt, to, mail in self.sent
            if attempt == self.attempt and to == SOURCE and isinstance(mail, events.Numbered)
        }
        assert sorted(numbered) == list(range(len(numbered)))
        return [_shown(numbered[number]) for number in sorted(numbered)]


def _shown(mail: Any) -> Any:
    if isinstance(mail, events.ToOperator):
        assert mail.operator_uid == "numbers"
        return mail.event
    return f"trigger {mail.barrier.checkpoint_id}" if isinstance(mail, events.TriggerCheckpoint) else "start"


def coordinated(source: Source) -> JobGraph:
    graph = job_graph()
    for task in graph.tasks:
        for node in task.nodes:
            if node.uid == "numbers":
                node.operator = cloudpickle.dumps(SourceOperator(source))
                node.is_coordinated = True
    return graph


def assigned(*letters: str) -> SplitsAssigned:
    return SplitsAssigned(letters)


def acknowledge(cluster: Cluster, checkpoint_id: int) -> None:
    for subtask in SUBTASKS:
        given = cluster.stored(subtask, CheckpointId(checkpoint_id))
        cluster.coordinator.handle(
            SubtaskAcknowledged(cluster.attempt, subtask, CheckpointId(checkpoint_id), given)
        )


def test_splits_and_triggers_reach_a_reader_in_one_order() -> None:
    cluster = Cluster().run_with()
    cluster.say(SplitRequested())
    cluster.pass_ms(100)
    cluster.say(SplitRequested())
    assert cluster.told() == ["start", assigned("a"), "trigger 1", assigned("b")]


def test_a_checkpoint_keeps_the_enumerator_of_the_moment_of_its_trigger() -> None:
    cluster = Cluster().run_with()
    cluster.say(SplitRequested())
    cluster.pass_ms(100)
    cluster.say(SplitRequested())
    acknowledge(cluster, 1)
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    # The reader had "a" in its snapshot; "b" and what was found since are the enumerator's, once.
    cluster.run_with("a")
    for _ in range(5):
        cluster.say(SplitRequested())
    assert [told for told in cluster.told() if not isinstance(told, str)] == [
        assigned("a"), assigned("b"), assigned("c"), assigned("z"), NoMoreSplits(),
    ]  # fmt: skip


def test_without_a_checkpoint_a_restart_begins_afresh() -> None:
    cluster = Cluster().run_with()
    cluster.say(SplitRequested())
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.run_with()
    cluster.say(SplitRequested())
    assert cluster.told() == ["start", assigned("a")]


def test_a_request_of_an_attempt_that_is_over_gets_no_split() -> None:
    cluster = Cluster().run_with()
    late = events.FromOperator(cluster.attempt, SOURCE, "numbers", SplitRequested())
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.run_with()
    cluster.coordinator.handle(late)
    cluster.say(SplitRequested())
    assert cluster.told() == ["start", assigned("a")]


def test_discovery_is_repeated_every_period() -> None:
    cluster = Cluster("", trigger=None, checkpoint_dir=None).run_with()
    cluster.pass_ms(50)
    for _ in range(3):
        cluster.pass_ms(500)
    cluster.say(SourceEventSent("what is there?"))
    assert cluster.told()[-1] == SourceEventSent(["z"] * 4)


def test_splits_of_a_checkpoint_without_enumerator_are_not_lost_in_silence() -> None:
    cluster = Cluster().run_with("left over")
    assert cluster.coordinator.failure is not None
    assert "holds splits of readers, but no state of an enumerator" in cluster.coordinator.failure.cause


@pytest.mark.parametrize("drift_ms", [5, 50])
def test_sources_of_a_group_are_told_how_far_they_may_go(drift_ms: int) -> None:
    cluster = Cluster().run_with()
    report = WatermarkReported("g", 100, drift_ms, 20)
    cluster.say(report)
    cluster.pass_ms(1)
    cluster.say(replace(report, watermark_ms=107))
    cluster.pass_ms(10)
    assert cluster.told() == ["start", WatermarkLimit(100 + drift_ms)]
    cluster.pass_ms(10)
    assert cluster.told()[-1] == WatermarkLimit(107 + drift_ms)
