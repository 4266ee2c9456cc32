"""The tables of the checkpoint coordinator: what it does about each event.

`CheckpointCoordinator` performs the actions of the row that a table has for an event, in order; without a row
it does nothing. `COORDINATOR_TABLE` is about the job, `CHECKPOINT_ACTIONS` about one checkpoint, whose
states are in `pending_checkpoint.py`. `docs/protocol.md` shows the same tables.
"""

from __future__ import annotations

import enum

from ..elements import SnapshotKind
from .abort_reasons import AbortReason
from .pending_checkpoint import CheckpointStep


class CoordinatorState(enum.Enum):
    """What the coordinator may trigger. If several fit, the last one counts."""

    TRIGGERING = "tasks run"
    STOP_REQUESTED = "a stop is requested"
    DRAIN_REQUESTED = "a stop with drain is requested"
    DRAINING = "the sources end their input for a stop"
    INPUT_ENDED = "all input has ended"
    FAILING = "the tasks are about to be stopped"
    NOT_RUNNING = "tasks do not run"
    CLOSED = "tasks will not run again"
    LAST_COMPLETED = "the last checkpoint of the job has completed"


class CoordinatorInput(enum.Enum):
    """The events that are not about a pending checkpoint."""

    STARTED = "all tasks run"
    RESTARTING = "tasks stopped, to start again"
    ENDED = "tasks stopped for good"
    REQUESTED = "checkpoint or savepoint requested"
    TOO_MANY_REQUESTED = "one request more than may wait"
    STOP_REQUESTED = "stop requested"
    OTHER_STOP_REQUESTED = "stop requested while another one is under way"
    TIME_PASSED = "time passed"
    DELETIONS_COUNTED = "old checkpoints that wait to be deleted were counted"
    INPUT_ENDED = "input of a subtask ended"
    ACKNOWLEDGED_LATE = "acknowledged, but not pending"
    ACKNOWLEDGED_ELSEWHERE = "acknowledged by a task that is not of this attempt"
    IGNORED = "repeated, or of another attempt"
    DUE = "a checkpoint is due"


class Action(enum.Enum):
    """What a row does. Actions that say "if" depend on the checkpoint, on counts and on the time."""

    BEGIN_ATTEMPT = "begin the attempt"
    END_ATTEMPT = "end the attempt, and abort all pending checkpoints"
    CLOSE = "refuse the requests that wait, and all later ones"
    QUEUE = "queue the request"
    QUEUE_STOP = "queue the stop, or let it share the outcome of the same one"
    REFUSE_CLOSED = "refuse it: tasks will not run again"
    REFUSE_ENDED = "refuse it: the last checkpoint has completed"
    REFUSE_OTHER_STOP = "refuse it: another stop is under way"
    REFUSE_TOO_MANY = "refuse it: too many wait"
    EXPIRE = "abort the pending checkpoints whose timeout has passed"
    COUNT_DELETIONS = "if they were too many and are not now, trigger what is due"
    COUNT_INPUT_ENDED = "count its input as ended, and trigger it for the pending checkpoints that lack it"
    TRIGGER_IF_DUE = "trigger what is due"
    TRIGGER_NEXT = "trigger the first request that waits, or the periodic checkpoint"
    TRIGGER_STOP = "trigger the stop"
    DRAIN = "end the input of the sources"
    TRIGGER_FINAL = "trigger the final checkpoint, and refuse savepoints in other places"

    REGISTER = "register its files"
    DISCARD = "discard its files"
    TRIGGER_SUBTASK = "trigger the subtask directly"
    WRITE = "write the manifest"
    RESET_FAILURES = "reset the count of failures, and begin the minimum pause"
    SUBSUME_OLDER = "abort older pending checkpoints"
    NOTIFY_COMPLETE = "notify the tasks: complete"
    NOTIFY_ABORTED = "notify the tasks: aborted"
    ANSWER = "answer its requests, and if it was of a stop, end that"
    END_STOPPED = "refuse requests from now on: the job has stopped"
    END_FINAL = "refuse requests from now on: all input has ended"
    DELETE_SUBSUMED = "delete what is not needed any more"
    UNDO_DRAIN = "if the sources ended their input for it, restart the job"
    RETRY_LATER = "wait for an interval before the next final checkpoint"
    COUNT_FAILURE = "if it counts as a failure and these are too many now, fail the job"


_State, _In, _Do = CoordinatorState, CoordinatorInput, Action

COORDINATOR_TABLE: dict[tuple[CoordinatorState | None, CoordinatorInput], tuple[Action, ...]] = {
    (None, _In.STARTED): (_Do.BEGIN_ATTEMPT, _Do.TRIGGER_IF_DUE),
    (None, _In.RESTARTING): (_Do.END_ATTEMPT,),
    (None, _In.ENDED): (_Do.END_ATTEMPT, _Do.CLOSE),
    (None, _In.TIME_PASSED): (_Do.EXPIRE, _Do.TRIGGER_IF_DUE),
    (None, _In.DELETIONS_COUNTED): (_Do.COUNT_DELETIONS,),
    (None, _In.INPUT_ENDED): (_Do.COUNT_INPUT_ENDED, _Do.TRIGGER_IF_DUE),
    # A later acknowledgement of the subtask may refer to these files.
    (None, _In.ACKNOWLEDGED_LATE): (_Do.REGISTER,),
    (None, _In.ACKNOWLEDGED_ELSEWHERE): (_Do.DISCARD,),
    #
    (None, _In.REQUESTED): (_Do.QUEUE, _Do.TRIGGER_IF_DUE),
    (None, _In.TOO_MANY_REQUESTED): (_Do.REFUSE_TOO_MANY,),
    (None, _In.STOP_REQUESTED): (_Do.QUEUE_STOP, _Do.TRIGGER_IF_DUE),
    (None, _In.OTHER_STOP_REQUESTED): (_Do.REFUSE_OTHER_STOP,),
    (_State.CLOSED, _In.REQUESTED): (_Do.REFUSE_CLOSED,),
    (_State.CLOSED, _In.STOP_REQUESTED): (_Do.REFUSE_CLOSED,),
    (_State.LAST_COMPLETED, _In.REQUESTED): (_Do.REFUSE_ENDED,),
    (_State.LAST_COMPLETED, _In.STOP_REQUESTED): (_Do.REFUSE_ENDED,),
    #
    (_State.TRIGGERING, _In.DUE): (_Do.TRIGGER_NEXT,),
    (_State.STOP_REQUESTED, _In.DUE): (_Do.TRIGGER_STOP,),
    (_State.DRAIN_REQUESTED, _In.DUE): (_Do.DRAIN,),
    (_State.INPUT_ENDED, _In.DUE): (_Do.TRIGGER_FINAL,),
}
"""By state (`None`: any; a row for a certain state takes precedence) and event."""

NOT_DUE_IN: dict[CoordinatorState, AbortReason] = {
    # Some sources have ended early, so a checkpoint now would not be of any moment of the real stream.
    CoordinatorState.DRAINING: AbortReason.SCHEDULER_STOPPED,
    CoordinatorState.FAILING: AbortReason.TASKS_NOT_RUNNING,
    CoordinatorState.NOT_RUNNING: AbortReason.TASKS_NOT_RUNNING,
    CoordinatorState.CLOSED: AbortReason.TASKS_NOT_RUNNING,
    CoordinatorState.LAST_COMPLETED: AbortReason.TASKS_NOT_RUNNING,
}
"""The states in which nothing is triggered, and why."""

_Happens, _Kind = CheckpointStep, SnapshotKind
# The last checkpoint of a job is triggered only when no other one is pending.
_COMPLETE_LAST = (_Do.RESET_FAILURES, _Do.NOTIFY_COMPLETE, _Do.ANSWER)
_ABORT = (_Do.NOTIFY_ABORTED, _Do.ANSWER)
# Repeated until it completes, but not in a tight loop.
_ABORT_FINAL = (_Do.RETRY_LATER, _Do.NOTIFY_ABORTED, _Do.UNDO_DRAIN, _Do.ANSWER, _Do.COUNT_FAILURE)

CHECKPOINT_ACTIONS: dict[tuple[CheckpointStep, SnapshotKind | None], tuple[Action, ...]] = {
    (_Happens.ACKNOWLEDGED, None): (_Do.REGISTER,),
    (_Happens.ALL_ACKNOWLEDGED, None): (_Do.REGISTER, _Do.WRITE),
    # Its channels ended, so no barrier will reach it any more.
    (_Happens.INPUT_ENDED, None): (_Do.TRIGGER_SUBTASK,),
    #
    # After the clean-up: then nothing of this checkpoint is left to do but the commits of the tasks.
    (_Happens.WRITTEN, _Kind.CHECKPOINT): (
        _Do.RESET_FAILURES,
        _Do.SUBSUME_OLDER,
        _Do.NOTIFY_COMPLETE,
        _Do.ANSWER,
        _Do.DELETE_SUBSUMED,
        _Do.TRIGGER_IF_DUE,
    ),
    # No restart falls back to a savepoint: what it holds is committed with the next checkpoint.
    (_Happens.WRITTEN, _Kind.SAVEPOINT): (
        _Do.RESET_FAILURES,
        _Do.ANSWER,
        _Do.DELETE_SUBSUMED,
        _Do.TRIGGER_IF_DUE,
    ),
    (_Happens.WRITTEN, _Kind.STOP): (*_COMPLETE_LAST, _Do.END_STOPPED, _Do.DELETE_SUBSUMED),
    (_Happens.WRITTEN, _Kind.FINAL): (*_COMPLETE_LAST, _Do.END_FINAL, _Do.DELETE_SUBSUMED),
    #
    (_Happens.DECLINED, None): (*_ABORT, _Do.COUNT_FAILURE, _Do.TRIGGER_IF_DUE),
    (_Happens.DECLINED, _Kind.FINAL): _ABORT_FINAL,
    (_Happens.EXPIRED, None): (*_ABORT, _Do.COUNT_FAILURE),
    # A restart would not fix what failed in the coordinator, and the savepoint's owner is notified.
    (_Happens.EXPIRED, _Kind.SAVEPOINT): _ABORT,
    (_Happens.EXPIRED, _Kind.FINAL): _ABORT_FINAL,
    (_Happens.FAILED, None): (*_ABORT, _Do.COUNT_FAILURE, _Do.TRIGGER_IF_DUE),
    (_Happens.FAILED, _Kind.SAVEPOINT): (*_ABORT, _Do.TRIGGER_IF_DUE),
    (_Happens.FAILED, _Kind.FINAL): _ABORT_FINAL,
    # No savepoint: it replaces no checkpoint, and no checkpoint replaces it.
    (_Happens.SUBSUMED, _Kind.CHECKPOINT): _ABORT,
    (_Happens.STOPPED, None): _ABORT,
}
"""By what happens to a checkpoint and its kind (`None`: any; a row for a certain kind takes precedence)."""


def coordinator_actions(state: CoordinatorState, event: CoordinatorInput) -> tuple[Action, ...]:
    """The actions of the row for an event, none if there is no row."""
    return COORDINATOR_TABLE.get((state, event)) or COORDINATOR_TABLE.get((None, event), ())


def checkpoint_actions(step: CheckpointStep, kind: SnapshotKind) -> tuple[Action, ...]:
    """The actions of the row for a checkpoint of this kind, none if there is no row."""
    return CHECKPOINT_ACTIONS.get((step, kind)) or CHECKPOINT_ACTIONS.get((step, None), ())
