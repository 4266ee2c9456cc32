"""The tables of the checkpoint coordinator are what it does: each row is complete and performed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.checkpoint_table import (
    CHECKPOINT_ACTIONS,
    COORDINATOR_TABLE,
    NOT_DUE_IN,
    Action,
    CoordinatorInput,
    CoordinatorState,
    checkpoint_actions,
)
from tidegate.protocol.checkpoints.pending_checkpoint import CHECKPOINT_TRANSITIONS, CheckpointStep
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId

SOURCE, MAP = SubtaskId("source", 0), SubtaskId("map", 0)
FIRST, ATTEMPT, TIMEOUT_MS = CheckpointId(1), Attempt(1), 1_000
COMMANDS: dict[Action, type[object]] = {
    Action.REGISTER: core.RegisterFiles,
    Action.WRITE: core.WriteManifest,
    Action.TRIGGER_SUBTASK: core.TriggerSubtasks,
    Action.NOTIFY_COMPLETE: core.NotifyComplete,
    Action.NOTIFY_ABORTED: core.NotifyAborted,
    Action.ANSWER: core.AnswerRequest,
    Action.DELETE_SUBSUMED: core.DeleteSubsumed,
    Action.UNDO_DRAIN: core.UndoDrain,
    Action.COUNT_FAILURE: core.FailJob,
}
"""What an action answers with; the others answer with nothing, or with what others do, in these tests."""


def request(kind: SnapshotKind = SnapshotKind.CHECKPOINT, number: int = 1) -> core.CheckpointEvent:
    return core.CheckpointRequested(core.RequestId(number), kind)


def acknowledge(subtask: SubtaskId, checkpoint_id: int = FIRST) -> core.CheckpointEvent:
    return core.SubtaskAcknowledged(ATTEMPT, subtask, CheckpointId(checkpoint_id), core.Acknowledgement({}))


ENDED = [core.SubtaskInputEnded(ATTEMPT, subtask) for subtask in (SOURCE, MAP)]
STOPPED_FOR_GOOD = core.TasksStopped(core.AbortReason.SHUT_DOWN)
WRITTEN = [acknowledge(SOURCE), acknowledge(MAP), core.ManifestWritten(FIRST)]
DECLINED = core.SubtaskDeclined(ATTEMPT, MAP, FIRST, "disk full")
PENDING_OF: dict[SnapshotKind, Sequence[core.CheckpointEvent]] = {
    SnapshotKind.CHECKPOINT: [request()],
    SnapshotKind.SAVEPOINT: [request(SnapshotKind.SAVEPOINT)],
    SnapshotKind.STOP: [request(SnapshotKind.STOP)],
    SnapshotKind.FINAL: [request(SnapshotKind.FINAL), *ENDED],
}
"""What leads to a pending checkpoint 1 of a kind."""
EVENTS_OF: dict[CoordinatorState, Sequence[core.CheckpointEvent]] = {
    CoordinatorState.TRIGGERING: [],
    CoordinatorState.STOP_REQUESTED: [request(), request(SnapshotKind.STOP, 2)],
    CoordinatorState.DRAIN_REQUESTED: [request(), request(SnapshotKind.FINAL, 2)],
    CoordinatorState.DRAINING: [request(SnapshotKind.FINAL)],
    CoordinatorState.INPUT_ENDED: ENDED,
    CoordinatorState.FAILING: [request(), DECLINED],
    CoordinatorState.NOT_RUNNING: [core.TasksStopped()],
    CoordinatorState.CLOSED: [STOPPED_FOR_GOOD],
    CoordinatorState.LAST_COMPLETED: [*ENDED, *WRITTEN],
}


def coordinator_after(
    events: Sequence[core.CheckpointEvent], concurrent: int = 1
) -> core.CheckpointCoordinator:
    """One whose tasks run, after these events; the first checkpoint that fails fails the job."""
    policy = TriggerPolicy(interval_ms=None, timeout_ms=TIMEOUT_MS, max_concurrent=concurrent)
    coordinator = core.CheckpointCoordinator(policy, 1)
    coordinator.handle(core.TasksRunning(ATTEMPT, frozenset({SOURCE, MAP}), frozenset({SOURCE}), 0), 0)
    for event in events:
        coordinator.handle(event, 0)
    return coordinator


def test_every_action_is_in_a_row_and_every_input_has_one_unless_it_is_ignored() -> None:
    rows = [*COORDINATOR_TABLE.values(), *CHECKPOINT_ACTIONS.values()]
    assert {action for actions in rows for action in actions} == set(Action)
    assert {event for _, event in COORDINATOR_TABLE} == set(CoordinatorInput) - {CoordinatorInput.IGNORED}


def test_every_transition_of_a_checkpoint_has_a_row_and_only_checkpoints_are_subsumed() -> None:
    assert {step for step, _ in CHECKPOINT_ACTIONS} == {step for _, step in CHECKPOINT_TRANSITIONS}
    lacking = {
        (step, kind) for step in CheckpointStep for kind in SnapshotKind if not checkpoint_actions(step, kind)
    }
    others = set(SnapshotKind) - {SnapshotKind.CHECKPOINT}
    assert lacking == {(CheckpointStep.SUBSUMED, kind) for kind in others}


@pytest.mark.parametrize("state", CoordinatorState)
def test_a_state_triggers_something_or_says_why_not(state: CoordinatorState) -> None:
    assert ((state, CoordinatorInput.DUE) in COORDINATOR_TABLE) is not (state in NOT_DUE_IN)
    coordinator = coordinator_after(EVENTS_OF[state])
    assert coordinator.state is state
    if state in NOT_DUE_IN:
        assert coordinator.obstacle(0) is NOT_DUE_IN[state]


@pytest.mark.parametrize("state", [CoordinatorState.CLOSED, CoordinatorState.LAST_COMPLETED])
@pytest.mark.parametrize("kind", SnapshotKind)
def test_requests_are_refused_when_no_checkpoint_can_follow(
    state: CoordinatorState, kind: SnapshotKind
) -> None:
    (answer,) = coordinator_after(EVENTS_OF[state]).handle(request(kind, 9), 0)
    assert isinstance(answer, core.AnswerRequest)
    is_closed = state is CoordinatorState.CLOSED
    reason = core.AbortReason.SHUT_DOWN if is_closed else core.AbortReason.TASKS_NOT_RUNNING
    assert (answer.request_id, answer.checkpoint_id, answer.reason) == (9, None, reason)


NEWER = [request(number=2), *(acknowledge(subtask, 2) for subtask in (SOURCE, MAP))]
# What comes before the event (after the checkpoint is pending), the event, and its time.
HAPPENS: dict[CheckpointStep, tuple[Sequence[core.CheckpointEvent], core.CheckpointEvent, int]] = {
    CheckpointStep.ACKNOWLEDGED: ([], acknowledge(SOURCE), 0),
    CheckpointStep.ALL_ACKNOWLEDGED: ([acknowledge(SOURCE)], acknowledge(MAP), 0),
    CheckpointStep.INPUT_ENDED: ([], ENDED[1], 0),
    CheckpointStep.DECLINED: ([], DECLINED, 0),
    CheckpointStep.EXPIRED: ([], core.TimePassed(), TIMEOUT_MS),
    CheckpointStep.STOPPED: ([], core.TasksStopped(), 0),
    CheckpointStep.WRITTEN: (WRITTEN[:2], WRITTEN[2], 0),
    CheckpointStep.FAILED: (WRITTEN[:2], core.ManifestFailed(FIRST, "disk full"), 0),
    CheckpointStep.SUBSUMED: (NEWER, core.ManifestWritten(CheckpointId(2)), 0),
}


@pytest.mark.parametrize("kind", SnapshotKind)
@pytest.mark.parametrize("step", CheckpointStep)
def test_a_row_of_a_checkpoint_is_performed(step: CheckpointStep, kind: SnapshotKind) -> None:
    actions = checkpoint_actions(step, kind)
    if not actions or (step is CheckpointStep.INPUT_ENDED and kind is SnapshotKind.FINAL):
        # Then all input has ended already.
        return
    before, event, now_ms = HAPPENS[step]
    coordinator = coordinator_after([*PENDING_OF[kind], *before], concurrent=2)
    pending = coordinator.pending[FIRST]
    assert pending.barrier.kind is kind
    commands = coordinator.handle(event, now_ms)
    coordinator.validate()
    if step is CheckpointStep.SUBSUMED:
        # They come first; the rest is about the checkpoint that completed.
        commands = commands[:2]
    if kind is SnapshotKind.FINAL:
        # The job restarts anyway, since its sources have ended their input for a stop.
        actions = tuple(action for action in actions if action is not Action.COUNT_FAILURE)
    assert [type(command) for command in commands] == [COMMANDS[each] for each in actions if each in COMMANDS]
