"""Checkpoints of a task whose input has ended while its operators have something under way."""

from __future__ import annotations

from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId

SOURCE, STAGE = SubtaskId("source", 0), SubtaskId("stage", 0)
ATTEMPT = Attempt(1)


def triggered(commands: list[core.CheckpointCommand]) -> list[tuple[int, tuple[SubtaskId, ...], bool]]:
    found = [command for command in commands if isinstance(command, core.TriggerSubtasks)]
    return [(int(each.barrier.checkpoint_id), each.subtasks, each.is_new) for each in found]


def request(target: core.CheckpointCoordinator, number: int) -> list[core.CheckpointCommand]:
    return target.handle(core.CheckpointRequested(core.RequestId(number)), 0)


def test_a_task_that_drains_gets_its_barriers_from_the_coordinator() -> None:
    target = core.CheckpointCoordinator(TriggerPolicy(None, tolerable_failures=5), 1)
    target.handle(core.TasksRunning(ATTEMPT, frozenset({SOURCE, STAGE}), frozenset({SOURCE}), 0), 0)
    assert triggered(request(target, 1)) == [(1, (SOURCE,), True)]
    target.handle(core.SubtaskInputEnded(ATTEMPT, SOURCE), 0)
    draining = core.SubtaskInputEnded(ATTEMPT, STAGE, is_drained=False)
    assert triggered(target.handle(draining, 0)) == [(1, (STAGE,), False)]
    for subtask in (SOURCE, STAGE):
        acknowledgement = core.Acknowledgement({})
        target.handle(core.SubtaskAcknowledged(ATTEMPT, subtask, CheckpointId(1), acknowledgement), 0)
    target.handle(core.ManifestWritten(CheckpointId(1)), 0)
    second = request(target, 2)
    assert triggered(second) == [(2, (SOURCE, STAGE), True)]
    assert all(
        command.barrier.kind is not SnapshotKind.FINAL
        for command in second
        if isinstance(command, core.TriggerSubtasks)
    ), "the last checkpoint waits for what is under way"
    assert triggered(target.handle(core.SubtaskInputEnded(ATTEMPT, STAGE), 0)) == []
