"""The tables of the checkpoint coordinator are what it does: each row is complete and performed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.checkpoint import FINAL_RETRY_MS
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
FIRST, SECOND, ATTEMPT, TIMEOUT_MS = CheckpointId(1), CheckpointId(2), Attempt(1), 1_000


def request(kind: SnapshotKind = SnapshotKind.CHECKPOINT, number: int = 1) -> core.CheckpointEvent:
    return core.CheckpointRequested(core.RequestId(number), kind)


def acknowledge(subtask: SubtaskId, checkpoint_id: int = FIRST) -> core.CheckpointEvent:
    return core.SubtaskAcknowledged(ATTEMPT, subtask, CheckpointId(checkpoint_id), core.Acknowledgement({}))


ENDED = [core.SubtaskInputEnded(ATTEMPT, subtask) for subtask in (SOURCE, MAP)]
STOPPED_FOR_GOOD = core.TasksStopped(core.AbortReason.SHUT_DOWN)
WRITTEN = [acknowledge(SOURCE), acknowledge(MAP), core.ManifestWritten(FIRST)]
ACKNOWLEDGED = [acknowledge(SOURCE, SECOND), acknowledge(MAP, SECOND)]
DECLINED = core.SubtaskDeclined(ATTEMPT, MAP, FIRST, "disk full")
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
    events: Sequence[core.CheckpointEvent], concurrent: int = 1, tolerable: int = 0
) -> core.CheckpointCoordinator:
    """One whose tasks run, after these events."""
    policy = TriggerPolicy(None, 0, TIMEOUT_MS, concurrent, tolerable)
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


WAITING = core.RequestId(9)
CASES: dict[str, Sequence[core.CheckpointEvent]] = {
    "checkpoint": [request()],
    "savepoint": [request(SnapshotKind.SAVEPOINT)],
    "stop": [request(SnapshotKind.STOP)],
    "drain": [request(SnapshotKind.FINAL), *ENDED],
    "end": ENDED,
}
"""What leads to a pending checkpoint 2, after the first one was declined."""
HAPPENS: dict[CheckpointStep, tuple[Sequence[core.CheckpointEvent], core.CheckpointEvent, int]] = {
    CheckpointStep.ACKNOWLEDGED: ([], acknowledge(SOURCE, SECOND), 0),
    CheckpointStep.ALL_ACKNOWLEDGED: ([acknowledge(SOURCE, SECOND)], acknowledge(MAP, SECOND), 0),
    CheckpointStep.INPUT_ENDED: ([], ENDED[1], 0),
    CheckpointStep.DECLINED: ([], core.SubtaskDeclined(ATTEMPT, MAP, SECOND, "disk full"), 0),
    CheckpointStep.EXPIRED: ([], core.TimePassed(), TIMEOUT_MS),
    CheckpointStep.STOPPED: ([], core.TasksStopped(), 0),
    CheckpointStep.WRITTEN: (ACKNOWLEDGED, core.ManifestWritten(SECOND), 0),
    CheckpointStep.FAILED: (ACKNOWLEDGED, core.ManifestFailed(SECOND, "disk full"), 0),
}
"""What comes before the event, while the checkpoint is pending, the event, and its time."""
EXPECTED: dict[tuple[CheckpointStep, str], tuple[str, int]] = {
    **{(CheckpointStep.ACKNOWLEDGED, case): ("RegisterFiles", 1) for case in CASES},
    **{(CheckpointStep.ALL_ACKNOWLEDGED, case): ("RegisterFiles WriteManifest", 1) for case in CASES},
    **{
        (CheckpointStep.INPUT_ENDED, case): ("TriggerSubtasks", 1)
        for case in ("checkpoint", "savepoint", "stop")
    },
    (CheckpointStep.WRITTEN, "checkpoint"): (
        "NotifyComplete AnswerRequest DeleteSubsumed TriggerSubtasks",
        0,
    ),
    (CheckpointStep.WRITTEN, "savepoint"): ("AnswerRequest DeleteSubsumed TriggerSubtasks", 0),
    (CheckpointStep.WRITTEN, "stop"): ("NotifyComplete AnswerRequest AnswerRequest DeleteSubsumed", 0),
    (CheckpointStep.WRITTEN, "drain"): ("NotifyComplete AnswerRequest AnswerRequest DeleteSubsumed", 0),
    (CheckpointStep.WRITTEN, "end"): ("NotifyComplete AnswerRequest DeleteSubsumed", 0),
    (CheckpointStep.DECLINED, "checkpoint"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    (CheckpointStep.DECLINED, "savepoint"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    (CheckpointStep.DECLINED, "stop"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    (CheckpointStep.EXPIRED, "checkpoint"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    (CheckpointStep.EXPIRED, "savepoint"): ("NotifyAborted AnswerRequest TriggerSubtasks", 1),
    (CheckpointStep.EXPIRED, "stop"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    (CheckpointStep.FAILED, "checkpoint"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    (CheckpointStep.FAILED, "savepoint"): ("NotifyAborted AnswerRequest TriggerSubtasks", 1),
    (CheckpointStep.FAILED, "stop"): ("NotifyAborted AnswerRequest TriggerSubtasks", 2),
    # The job restarts, which is no failure of a checkpoint.
    **{
        (step, "drain"): ("NotifyAborted UndoDrain AnswerRequest", 1)
        for step in (CheckpointStep.DECLINED, CheckpointStep.EXPIRED, CheckpointStep.FAILED)
    },
    # The next final checkpoint waits.
    **{
        (step, "end"): ("NotifyAborted", 2)
        for step in (CheckpointStep.DECLINED, CheckpointStep.EXPIRED, CheckpointStep.FAILED)
    },
    **{(CheckpointStep.STOPPED, case): ("NotifyAborted AnswerRequest", 1) for case in CASES if case != "end"},
    (CheckpointStep.STOPPED, "end"): ("NotifyAborted", 1),
}
"""The commands, and how many checkpoints have failed in a row then."""


@pytest.mark.parametrize(("step", "case"), EXPECTED)
def test_what_happens_to_a_checkpoint_leads_to_commands(step: CheckpointStep, case: str) -> None:
    before, event, now_ms = HAPPENS[step]
    events = [request(number=8), DECLINED, *CASES[case], request(number=WAITING), *before]
    coordinator = coordinator_after(events, tolerable=5)
    commands = coordinator.handle(event, now_ms)
    coordinator.validate()
    expected, failures = EXPECTED[step, case]
    assert " ".join(type(command).__name__ for command in commands) == expected
    assert coordinator.failures == failures
    if case == "end" and expected == "NotifyAborted" and failures == 2:
        assert coordinator.next_due_ms() == now_ms + FINAL_RETRY_MS


def test_a_completed_checkpoint_subsumes_older_ones_but_no_savepoint() -> None:
    pending = [request(SnapshotKind.SAVEPOINT), request(number=2), request(number=3)]
    acknowledged = [acknowledge(SOURCE, 3), acknowledge(MAP, 3)]
    coordinator = coordinator_after([*pending, *acknowledged], concurrent=3)
    aborted, answer, *_ = coordinator.handle(core.ManifestWritten(CheckpointId(3)), 0)
    assert isinstance(aborted, core.NotifyAborted)
    assert isinstance(answer, core.AnswerRequest)
    assert (aborted.checkpoint_id, answer.request_id, answer.reason) == (2, 2, core.AbortReason.SUBSUMED)
    assert list(coordinator.pending) == [1]
