"""The checkpoints of a job as the coordinator sees them.

What each event leads to is in the tables of `checkpoint_table.py`. The life of a checkpoint is the table
`CHECKPOINT_TRANSITIONS` in `pending_checkpoint.py`. Source: Flink's `CheckpointCoordinator`. The machine
never deletes or writes anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..elements import CheckpointBarrier, SnapshotKind
from ..ids import CheckpointId
from ..invalid_event import InvalidEvent
from ..scheduling.checkpoint_triggers import ALL_INPUT_ENDED, AttemptTasks, CheckpointTriggers, Requested
from ..scheduling.stop import STOPPED
from .abort_reasons import AbortReason
from .checkpoint_events import (
    Acknowledgement,
    AcknowledgeResult,
    AnswerRequest,
    CheckpointCommand,
    CheckpointEvent,
    CheckpointRequested,
    CleaningCounted,
    DeleteSubsumed,
    DiscardFiles,
    DrainSources,
    FailJob,
    ManifestFailed,
    ManifestWritten,
    NotifyAborted,
    NotifyComplete,
    RegisterFiles,
    RequestId,
    SubtaskAcknowledged,
    SubtaskDeclined,
    SubtaskInputEnded,
    SubtaskMetrics,
    TasksRunning,
    TasksStopped,
    TimePassed,
    TriggerSubtasks,
    UndoDrain,
    WriteManifest,
)
from .checkpoint_table import (
    Action,
    CoordinatorInput,
    CoordinatorState,
    checkpoint_actions,
    coordinator_actions,
)
from .pending_checkpoint import (
    CheckpointState,
    CheckpointStep,
    PendingCheckpoint,
    operator_snapshots,
    step_of,
)
from .trigger import NEVER_MS, TriggerDecider, TriggerPolicy

__all__ = [
    "AbortReason",
    "AcknowledgeResult",
    "Acknowledgement",
    "AnswerRequest",
    "CheckpointCommand",
    "CheckpointCoordinator",
    "CheckpointEvent",
    "CheckpointRequested",
    "CleaningCounted",
    "DeleteSubsumed",
    "DiscardFiles",
    "DrainSources",
    "FailJob",
    "ManifestFailed",
    "ManifestWritten",
    "NotifyAborted",
    "NotifyComplete",
    "PendingCheckpoint",
    "RegisterFiles",
    "RequestId",
    "SubtaskAcknowledged",
    "SubtaskDeclined",
    "SubtaskInputEnded",
    "SubtaskMetrics",
    "TasksRunning",
    "TasksStopped",
    "TimePassed",
    "TriggerSubtasks",
    "UndoDrain",
    "WriteManifest",
    "operator_snapshots",
]

REMEMBERED_IDS = 1_000
"""Ended checkpoints that are remembered, to distinguish a late acknowledgement from an unknown one."""

FINAL_RETRY_MS = 1_000
"""Pause before a failed final checkpoint is tried again where no interval is set."""


@dataclass(frozen=True, slots=True)
class _Happened:
    """An event with what its actions need; `pending`, `reason` and `cause` where it is about a checkpoint."""

    now_ms: int
    event: Any = None
    pending: Any = None
    reason: AbortReason = AbortReason.RESTARTED
    cause: str = ""


_Perform = Callable[[_Happened], list[CheckpointCommand]]


class CheckpointCoordinator:
    """Triggers, collects, completes and aborts the checkpoints of one job.

    Args:
        policy: Interval, pause, timeout and bounds.
        next_checkpoint_id: First id to give; must exceed every id ever given for this job.
    """

    def __init__(self, policy: TriggerPolicy, next_checkpoint_id: int) -> None:
        self._policy = policy
        self._triggers = CheckpointTriggers(TriggerDecider(policy))
        self._next_id = next_checkpoint_id
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._ended_ids: dict[CheckpointId, None] = {}
        self._failures = 0
        self._last_completed = CheckpointId(0)
        self.counts = dict.fromkeys(AcknowledgeResult, 0)
        self._actions: dict[Action, _Perform] = {
            Action.BEGIN_ATTEMPT: self._begin_attempt,
            Action.END_ATTEMPT: self._end_attempt,
            Action.CLOSE: self._close,
            Action.QUEUE: self._queue,
            Action.QUEUE_STOP: self._queue_stop,
            Action.REFUSE_CLOSED: self._refuse_closed,
            Action.REFUSE_ENDED: self._refuse(AbortReason.TASKS_NOT_RUNNING, ALL_INPUT_ENDED),
            Action.REFUSE_OTHER_STOP: self._refuse(AbortReason.STOP_UNDER_WAY),
            Action.REFUSE_TOO_MANY: self._refuse(AbortReason.TOO_MANY_REQUESTS),
            Action.EXPIRE: self._expire,
            Action.COUNT_DELETIONS: self._count_deletions,
            Action.COUNT_INPUT_ENDED: self._count_input_ended,
            Action.TRIGGER_IF_DUE: self._trigger_if_due,
            Action.TRIGGER_NEXT: lambda happened: self._trigger(
                self._triggers.next_request(happened.now_ms), happened
            ),
            Action.TRIGGER_STOP: lambda happened: self._trigger(self._triggers.stop_request(), happened),
            Action.DRAIN: lambda happened: [DrainSources(self._triggers.drain())],
            Action.TRIGGER_FINAL: self._trigger_final,
            Action.REGISTER: self._register,
            Action.DISCARD: lambda happened: [DiscardFiles(happened.event.acknowledgement)],
            Action.TRIGGER_SUBTASK: self._trigger_subtask,
            Action.WRITE: lambda happened: [happened.pending.write_manifest()],
            Action.RESET_FAILURES: self._reset_failures,
            Action.SUBSUME_OLDER: self._subsume_older,
            Action.NOTIFY_COMPLETE: lambda happened: [happened.pending.notify_complete()],
            Action.NOTIFY_ABORTED: lambda happened: [
                happened.pending.notify_aborted(happened.reason, happened.cause)
            ],
            Action.ANSWER: self._answer,
            Action.END_STOPPED: lambda happened: self._end(STOPPED),
            Action.END_FINAL: lambda happened: self._end(ALL_INPUT_ENDED),
            Action.DELETE_SUBSUMED: lambda happened: [DeleteSubsumed(happened.pending.checkpoint_id)],
            Action.UNDO_DRAIN: self._undo_drain,
            Action.RETRY_LATER: self._retry_later,
            Action.COUNT_FAILURE: self._count_failure,
        }

    @property
    def next_checkpoint_id(self) -> int:
        """The id that the next checkpoint will get."""
        return self._next_id

    @property
    def pending(self) -> Mapping[CheckpointId, PendingCheckpoint]:
        """Checkpoints that are under way, by id."""
        return self._pending

    @property
    def state(self) -> CoordinatorState:
        """What may be triggered now."""
        return self._triggers.state

    @property
    def ending(self) -> str:
        """Why the job is about to end, an empty text if it is not."""
        return self._triggers.ending

    @property
    def failures(self) -> int:
        """Checkpoints that failed since the last one that completed."""
        return self._failures

    def next_due_ms(self) -> int:
        """When `TimePassed` should be handled next; `NEVER_MS` if nothing waits for time."""
        if not self._tasks.is_running:
            return NEVER_MS
        timeouts = (p.deadline_ms for p in self._pending.values() if p.life.allows(CheckpointStep.EXPIRED))
        return min(self._triggers.due_ms(len(self._pending)), *timeouts, NEVER_MS)

    def obstacle(self, now_ms: int) -> AbortReason | None:
        """Why no checkpoint is triggered at `now_ms`, `None` if one is due (pre-flight checks)."""
        return self._triggers.obstacle(now_ms, len(self._pending))

    @property
    def _tasks(self) -> AttemptTasks:
        return self._triggers.tasks

    # ------------------------------------------------------------ the tables

    def handle(self, event: CheckpointEvent, now_ms: int) -> list[CheckpointCommand]:
        """Take one event at `now_ms` and return what must be done, in order."""
        if isinstance(event, SubtaskAcknowledged):
            return self._on_acknowledged(event, now_ms)
        if isinstance(event, ManifestWritten | ManifestFailed):
            return self._on_manifest(event, now_ms)
        if isinstance(event, SubtaskDeclined):
            return self._on_declined(event, now_ms)
        return self._perform(self._input_of(event), _Happened(now_ms, event))

    def _perform(self, kind: CoordinatorInput, happened: _Happened) -> list[CheckpointCommand]:
        return self._act(coordinator_actions(self.state, kind), happened)

    def _advance(
        self, pending: PendingCheckpoint, step: CheckpointStep, happened: _Happened
    ) -> list[CheckpointCommand]:
        """Something happens to a pending checkpoint."""
        pending.life.handle(step)
        if pending.is_ended:
            del self._pending[pending.checkpoint_id]
            self._remember(pending.checkpoint_id)
        actions = checkpoint_actions(step, pending.barrier.kind)
        return self._act(actions, replace(happened, pending=pending))

    def _act(self, actions: tuple[Action, ...], happened: _Happened) -> list[CheckpointCommand]:
        return [command for action in actions for command in self._actions[action](happened)]

    def _input_of(self, event: CheckpointEvent) -> CoordinatorInput:
        if isinstance(event, CheckpointRequested):
            return self._triggers.input_of(event)
        if isinstance(event, TasksStopped):
            is_restart = event.reason in (AbortReason.RESTARTED, AbortReason.TASK_FAILED)
            return CoordinatorInput.RESTARTING if is_restart else CoordinatorInput.ENDED
        if isinstance(event, SubtaskInputEnded):
            is_new = self._tasks.may_end(event)
            return CoordinatorInput.INPUT_ENDED if is_new else CoordinatorInput.IGNORED
        if isinstance(event, CleaningCounted):
            return CoordinatorInput.DELETIONS_COUNTED
        return CoordinatorInput.STARTED if isinstance(event, TasksRunning) else CoordinatorInput.TIME_PASSED

    # ------------------------------------------------------------ events about one checkpoint

    def _on_acknowledged(self, event: SubtaskAcknowledged, now_ms: int) -> list[CheckpointCommand]:
        result, happened = self._classify(event), _Happened(now_ms, event)
        self.counts[result] += 1
        if not self._tasks.is_current(event.attempt) or event.subtask not in self._tasks.subtasks:
            return self._perform(CoordinatorInput.ACKNOWLEDGED_ELSEWHERE, happened)
        if result is AcknowledgeResult.DUPLICATE:
            return self._perform(CoordinatorInput.IGNORED, happened)
        if result is not AcknowledgeResult.SUCCESS:
            return self._perform(CoordinatorInput.ACKNOWLEDGED_LATE, happened)
        pending = self._pending[event.checkpoint_id]
        return self._advance(pending, pending.acknowledge(event.subtask, event.acknowledgement), happened)

    def _classify(self, event: SubtaskAcknowledged) -> AcknowledgeResult:
        if not self._tasks.is_current(event.attempt):
            return AcknowledgeResult.UNKNOWN
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            ended = event.checkpoint_id in self._ended_ids
            return AcknowledgeResult.DISCARDED if ended else AcknowledgeResult.UNKNOWN
        if event.subtask in pending.acknowledgements:
            return AcknowledgeResult.DUPLICATE
        known = event.subtask in pending.missing
        return AcknowledgeResult.SUCCESS if known else AcknowledgeResult.UNKNOWN

    def _on_manifest(self, event: ManifestWritten | ManifestFailed, now_ms: int) -> list[CheckpointCommand]:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            if event.checkpoint_id >= self._next_id:
                raise InvalidEvent(
                    f"checkpoint {event.checkpoint_id} was never triggered, but it has a manifest"
                )
            return self._perform(CoordinatorInput.IGNORED, _Happened(now_ms, event))
        pending.check_is_writing(type(event).__name__)
        if isinstance(event, ManifestWritten):
            return self._advance(pending, CheckpointStep.WRITTEN, _Happened(now_ms, event))
        return self._abort(pending, _Happened(now_ms, event, None, AbortReason.MANIFEST_FAILED, event.cause))

    def _on_declined(self, event: SubtaskDeclined, now_ms: int) -> list[CheckpointCommand]:
        if not event.reason.is_decline:
            raise InvalidEvent(f"{event.subtask} cannot decline a checkpoint because {event.reason.value}")
        pending = self._pending.get(event.checkpoint_id)
        cause = f"{event.subtask}: {event.cause}"
        happened = _Happened(now_ms, event, None, event.reason, cause)
        is_current = self._tasks.is_current(event.attempt)
        if pending is None or not is_current or event.subtask not in pending.missing:
            # An abort would undo what the manifest of the checkpoint may commit.
            return self._perform(CoordinatorInput.IGNORED, happened)
        return self._abort(pending, happened)

    def _abort(self, pending: PendingCheckpoint, happened: _Happened) -> list[CheckpointCommand]:
        return self._advance(pending, step_of(happened.reason), happened)

    # ------------------------------------------------------------ actions: attempts

    def _begin_attempt(self, happened: _Happened) -> list[CheckpointCommand]:
        self._triggers.begin(happened.event, happened.now_ms)
        return []

    def _end_attempt(self, happened: _Happened) -> list[CheckpointCommand]:
        self._triggers.end()
        return self._abort_each(self._pending, replace(happened, reason=happened.event.reason))

    def _abort_each(self, ids: Iterable[CheckpointId], happened: _Happened) -> list[CheckpointCommand]:
        return [command for each in sorted(ids) for command in self._abort(self._pending[each], happened)]

    def _close(self, happened: _Happened) -> list[CheckpointCommand]:
        self._triggers.closed_by = happened.event.reason
        return self._triggers.refuse_all(happened.event.reason)

    def _count_input_ended(self, happened: _Happened) -> list[CheckpointCommand]:
        event = happened.event
        if not self._tasks.end_input(event):
            return []
        lacking = [self._pending[each] for each in sorted(self._pending)]
        return [
            command
            for pending in lacking
            if event.subtask in pending.missing
            for command in self._advance(pending, CheckpointStep.INPUT_ENDED, happened)
        ]

    # ------------------------------------------------------------ actions: requests

    def _queue(self, happened: _Happened) -> list[CheckpointCommand]:
        self._triggers.decider.request(happened.event)
        return []

    def _queue_stop(self, happened: _Happened) -> list[CheckpointCommand]:
        self._triggers.queue_stop(happened.event)
        return []

    def _refuse(self, reason: AbortReason, cause: str = "") -> _Perform:
        return lambda happened: [AnswerRequest(happened.event.request_id, None, reason, cause)]

    def _refuse_closed(self, happened: _Happened) -> list[CheckpointCommand]:
        return [AnswerRequest(happened.event.request_id, None, self._triggers.closed_by)]

    # ------------------------------------------------------------ actions: trigger

    def _count_deletions(self, happened: _Happened) -> list[CheckpointCommand]:
        is_less = self._triggers.decider.counted(happened.event.count)
        return self._trigger_if_due(happened) if is_less else []

    def _trigger_if_due(self, happened: _Happened) -> list[CheckpointCommand]:
        is_due = self.obstacle(happened.now_ms) is None
        return self._perform(CoordinatorInput.DUE, happened) if is_due else []

    def _trigger_final(self, happened: _Happened) -> list[CheckpointCommand]:
        requested, refused = self._triggers.final_request()
        return [*self._trigger(requested, happened), *refused]

    def _trigger(self, requested: Requested, happened: _Happened) -> list[CheckpointCommand]:
        checkpoint_id, tasks, now_ms = CheckpointId(self._next_id), self._tasks, happened.now_ms
        self._next_id += 1
        # The tasks of an attempt have seen none of the checkpoints before its first.
        oldest = None if tasks.is_first else min(self._pending, default=checkpoint_id)
        tasks.is_first = False
        barrier = CheckpointBarrier(
            checkpoint_id, now_ms, requested.kind, savepoint=requested.savepoint, oldest_pending=oldest
        )
        timeout_ms = self._policy.timeout_ms if requested.timeout_ms is None else requested.timeout_ms
        self._pending[checkpoint_id] = PendingCheckpoint(
            barrier, now_ms + timeout_ms, set(tasks.subtasks), requested.request_ids
        )
        return [TriggerSubtasks(barrier, tasks.without_barriers, is_new=True)]

    def _trigger_subtask(self, happened: _Happened) -> list[CheckpointCommand]:
        return [TriggerSubtasks(happened.pending.barrier, (happened.event.subtask,), is_new=False)]

    # ------------------------------------------------------------ actions: complete

    def _register(self, happened: _Happened) -> list[CheckpointCommand]:
        event, is_pending = happened.event, happened.pending is not None
        return [RegisterFiles(event.subtask, event.checkpoint_id, event.acknowledgement, is_pending)]

    def _reset_failures(self, happened: _Happened) -> list[CheckpointCommand]:
        self._failures = 0
        self._last_completed = max(self._last_completed, happened.pending.checkpoint_id)
        self._triggers.decider.checkpoint_completed(happened.now_ms)
        return []

    def _subsume_older(self, happened: _Happened) -> list[CheckpointCommand]:
        older = [
            known
            for known, pending in self._pending.items()
            if known < happened.pending.checkpoint_id
            and checkpoint_actions(CheckpointStep.SUBSUMED, pending.barrier.kind)
        ]
        return self._abort_each(older, replace(happened, reason=AbortReason.SUBSUMED))

    def _answer(self, happened: _Happened) -> list[CheckpointCommand]:
        pending, requests = happened.pending, list(happened.pending.requests)
        if self._triggers.stop_of(pending.barrier) is not None:
            requests += self._triggers.end_stop()
        if pending.life.state is CheckpointState.COMPLETED:
            savepoint = pending.barrier.savepoint
            return [AnswerRequest(each, pending.checkpoint_id, savepoint=savepoint) for each in requests]
        return [AnswerRequest(each, None, happened.reason, happened.cause) for each in requests]

    def _end(self, cause: str) -> list[CheckpointCommand]:
        self._triggers.has_ended = True
        return self._triggers.refuse_all(AbortReason.TASKS_NOT_RUNNING, cause)

    # ------------------------------------------------------------ actions: abort

    def _expire(self, happened: _Happened) -> list[CheckpointCommand]:
        commands: list[CheckpointCommand] = []
        for _, pending in sorted(self._pending.items()):
            if pending.has_expired(happened.now_ms):
                cause = pending.missed()
                commands += self._abort(pending, replace(happened, reason=AbortReason.EXPIRED, cause=cause))
        return commands

    def _retry_later(self, happened: _Happened) -> list[CheckpointCommand]:
        self._triggers.final_due_ms = happened.now_ms + (self._policy.interval_ms or FINAL_RETRY_MS)
        return []

    def _undo_drain(self, happened: _Happened) -> list[CheckpointCommand]:
        stop = self._triggers.stop_of(happened.pending.barrier)
        if stop is None or not stop.is_draining:
            return []
        self._triggers.is_failing = True
        return [UndoDrain(f"the savepoint of a stop with drain failed: {happened.reason.value}")]

    def _count_failure(self, happened: _Happened) -> list[CheckpointCommand]:
        barrier, reason = happened.pending.barrier, happened.reason
        # What a person asked for and is notified about must not restart the job.
        is_requested = barrier.savepoint is not None
        is_old = barrier.checkpoint_id < self._last_completed
        if is_old or is_requested or self._triggers.is_failing or not reason.counts_as_failure:
            return []
        self._failures += 1
        failures = self._failures
        if failures <= self._policy.tolerable_failures:
            return []
        self._triggers.is_failing, self._failures = True, 0
        return [FailJob(_too_many(barrier.checkpoint_id, reason, happened.cause, failures))]

    def _remember(self, checkpoint_id: CheckpointId) -> None:
        self._ended_ids[checkpoint_id] = None
        while len(self._ended_ids) > REMEMBERED_IDS:
            del self._ended_ids[next(iter(self._ended_ids))]

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        bounded = [p for p in self._pending.values() if p.barrier.kind is not SnapshotKind.SAVEPOINT]
        assert len(bounded) <= max(1, self._policy.max_concurrent), "too many pending"
        for checkpoint_id, pending in self._pending.items():
            assert checkpoint_id < self._next_id, "a pending id was never given"
            assert checkpoint_id not in self._ended_ids, "an ended checkpoint is pending"
            assert bool(pending.missing) != pending.is_writing, "complete but not being written"
            assert pending.missing | set(pending.acknowledgements) == self._tasks.subtasks
        assert self._tasks.is_running or not self._pending, "pending without running tasks"


def _too_many(checkpoint_id: CheckpointId, reason: AbortReason, cause: str, failures: int) -> str:
    detail = f": {cause}" if cause else ""
    return (
        f"checkpoint {checkpoint_id} failed because {reason.value}{detail} "
        f"({failures} in a row; raise execution.checkpointing.tolerable-failed-checkpoints "
        f"to let the job go on)"
    )
