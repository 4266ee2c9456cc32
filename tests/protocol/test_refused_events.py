"""An event that cannot happen in the current state is refused: a core never applies it."""

from __future__ import annotations

import pytest
from tidegate.common.errors import ConfigurationError, TidegateError
from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.alignment import (
    BarrierAligner,
    BarrierReceived,
    BarrierTracker,
    ChannelEnded,
)
from tidegate.protocol.checkpoints.barrier_handler import BarrierHandler
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import CheckpointBarrier, SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId
from tidegate.protocol.invalid_event import InvalidEvent
from tidegate.protocol.key_groups import KeyGroupRange

SOURCE, MAP = SubtaskId("source", 0), SubtaskId("map", 0)
FOREIGN = SubtaskId("another job", 0)
FIRST = CheckpointId(1)
ATTEMPT = Attempt(1)


def coordinator() -> core.CheckpointCoordinator:
    """One whose first checkpoint was triggered and acknowledged by no subtask."""
    result = core.CheckpointCoordinator(TriggerPolicy(None, tolerable_failures=5), 1)
    result.handle(core.TasksRunning(ATTEMPT, frozenset({SOURCE, MAP}), frozenset({SOURCE}), 0), 0)
    result.handle(core.CheckpointRequested(core.RequestId(1)), 0)
    assert list(result.pending) == [FIRST]
    return result


def acknowledge(target: core.CheckpointCoordinator, *subtasks: SubtaskId) -> list[core.CheckpointCommand]:
    commands: list[core.CheckpointCommand] = []
    for subtask in subtasks:
        event = core.SubtaskAcknowledged(ATTEMPT, subtask, FIRST, core.Acknowledgement({}))
        commands += target.handle(event, 0)
    return commands


@pytest.mark.parametrize("acknowledged", [(), (SOURCE,)])
def test_a_manifest_is_not_written_while_an_acknowledgement_is_missing(
    acknowledged: tuple[SubtaskId, ...],
) -> None:
    target = coordinator()
    acknowledge(target, *acknowledged)
    with pytest.raises(TidegateError, match=r"checkpoint 1 .*map#0.* acknowledge"):
        target.handle(core.ManifestWritten(FIRST), 0)
    assert FIRST in target.pending
    target.validate()


def test_a_manifest_that_is_not_being_written_does_not_fail() -> None:
    target = coordinator()
    with pytest.raises(TidegateError, match=r"checkpoint 1"):
        target.handle(core.ManifestFailed(FIRST, "the disk is full"), 0)
    assert FIRST in target.pending


@pytest.mark.parametrize("event", [core.ManifestWritten, lambda each: core.ManifestFailed(each, "cause")])
def test_a_checkpoint_that_was_never_triggered_has_no_manifest(event: type[core.ManifestWritten]) -> None:
    with pytest.raises(TidegateError, match=r"checkpoint 2 was never triggered"):
        coordinator().handle(event(CheckpointId(2)), 0)


def test_the_manifest_of_an_aborted_checkpoint_may_still_be_reported() -> None:
    target = coordinator()
    acknowledge(target, SOURCE, MAP)
    target.handle(core.TasksStopped(), 0)
    assert target.handle(core.ManifestWritten(FIRST), 0) == []


def test_an_attempt_does_not_start_while_another_one_runs() -> None:
    target = coordinator()
    running = core.TasksRunning(Attempt(2), frozenset({SOURCE}), frozenset({SOURCE}), 0)
    with pytest.raises(TidegateError, match=r"attempt 2 .* attempt 1"):
        target.handle(running, 0)
    assert FIRST in target.pending


@pytest.mark.parametrize("subtask", [MAP, SOURCE])
def test_a_checkpoint_that_all_subtasks_acknowledged_is_not_declined(subtask: SubtaskId) -> None:
    """Its manifest is being written: an abort would undo transactions that the manifest commits."""
    target = coordinator()
    acknowledge(target, SOURCE, MAP)
    assert target.handle(core.SubtaskDeclined(ATTEMPT, subtask, FIRST, "too late"), 0) == []
    commands = target.handle(core.ManifestWritten(FIRST), 0)
    assert core.NotifyComplete(FIRST, (MAP, SOURCE)) in commands


def test_a_subtask_that_is_not_of_the_job_cannot_decline() -> None:
    target = coordinator()
    assert target.handle(core.SubtaskDeclined(ATTEMPT, FOREIGN, FIRST, "cause"), 0) == []
    assert FIRST in target.pending


def test_the_end_of_input_of_a_foreign_subtask_does_not_end_the_job() -> None:
    target = coordinator()
    acknowledge(target, SOURCE, MAP)
    target.handle(core.ManifestWritten(FIRST), 0)
    for subtask in (SOURCE, FOREIGN):
        commands = target.handle(core.SubtaskInputEnded(ATTEMPT, subtask), 0)
        triggered = [each.barrier.kind for each in commands if isinstance(each, core.TriggerSubtasks)]
        assert SnapshotKind.FINAL not in triggered


def test_a_task_cannot_give_a_reason_that_only_the_coordinator_has() -> None:
    target = coordinator()
    event = core.SubtaskDeclined(ATTEMPT, MAP, FIRST, "cause", core.AbortReason.EXPIRED)
    with pytest.raises(TidegateError, match=r"map#0"):
        target.handle(event, 0)


@pytest.mark.parametrize("handler", [BarrierAligner(2), BarrierTracker(2)])
@pytest.mark.parametrize("channel", [1, 2, -1])
def test_a_channel_that_ended_or_does_not_exist_brings_no_barrier(
    handler: BarrierHandler, channel: int
) -> None:
    handler.handle(ChannelEnded(1), 0)
    with pytest.raises(InvalidEvent, match=f"channel {channel} "):
        handler.handle(BarrierReceived(channel, CheckpointBarrier(FIRST, 0)), 0)
    handler.validate()


@pytest.mark.parametrize(
    ("start", "end"), [(-3, 2), (-1, -1), (-5, -9), (0, -2), (0, 32_768), (40_000, 40_001)]
)
def test_a_range_of_key_groups_that_cannot_exist_is_rejected(start: int, end: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"\[{start}, {end}\]"):
        KeyGroupRange(start, end)


@pytest.mark.parametrize(("start", "end"), [(0, -1), (3, 2), (0, 32_767), (128, 2)])
def test_empty_and_whole_ranges_of_key_groups_are_ranges(start: int, end: int) -> None:
    assert KeyGroupRange(start, end).size == max(0, end - start + 1)
