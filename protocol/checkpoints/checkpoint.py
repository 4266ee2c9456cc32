"""The checkpoints of a job as the coordinator sees them.

The life of each is the table `CHECKPOINT_TRANSITIONS` in `pending_checkpoint.py`. Source: Flink's
`CheckpointCoordinator`. Time and checkpoint ids come in; commands go out. The machine never deletes or writes
anything itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..elements import CheckpointBarrier, SavepointTarget, SnapshotKind
from ..ids import Attempt, CheckpointId, SubtaskId
from ..invalid_event import InvalidEvent
from ..scheduling.stop import STOPPED, Stop
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
from .pending_checkpoint import CheckpointStep, PendingCheckpoint, operator_snapshots, step_of
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
"""How many ended checkpoints are remembered, so that a late acknowledgement is told from an unknown one."""

FINAL_RETRY_MS = 1_000
"""Pause before a failed final checkpoint is tried again where no interval is set."""

ALL_INPUT_ENDED = "all input ended and the last checkpoint is complete"


class CheckpointCoordinator:
    """Triggers, collects, completes and aborts the checkpoints of one job.

    Args:
        policy: Interval, pause, timeout and bounds.
        next_checkpoint_id: First id to give; must exceed every id ever given for this job.
    """

    def __init__(self, policy: TriggerPolicy, next_checkpoint_id: int) -> None:
        self._policy = policy
        self._decider = TriggerDecider(policy)
        self._next_id = next_checkpoint_id
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._ended_ids: dict[CheckpointId, None] = {}
        self._attempt: Attempt | None = None
        self._subtasks: frozenset[SubtaskId] = frozenset()
        self._sources: frozenset[SubtaskId] = frozenset()
        self._input_ended: set[SubtaskId] = set()
        self._draining: set[SubtaskId] = set()
        self._stop: Stop | None = None
        self._final_completed = False
        self._final_due_ms = -NEVER_MS
        self._failures = 0
        self._last_completed = CheckpointId(0)
        self._is_failing = False
        self._is_first = True
        self._closed_by: AbortReason | None = None
        self.counts = dict.fromkeys(AcknowledgeResult, 0)

    @property
    def next_checkpoint_id(self) -> int:
        """The id that the next checkpoint will get."""
        return self._next_id

    @property
    def pending(self) -> Mapping[CheckpointId, PendingCheckpoint]:
        """Checkpoints that are under way, by id."""
        return self._pending

    @property
    def ending(self) -> str:
        """Why the job is about to end, an empty text if it is not."""
        if self._stop is not None or (self._final_completed and not self._all_input_ended):
            return "the job is being stopped with a savepoint"
        return "all input of the job has ended" if self._all_input_ended else ""

    @property
    def failures(self) -> int:
        """Checkpoints that failed since the last one that completed."""
        return self._failures

    def next_due_ms(self) -> int:
        """When `TimePassed` should be handled next; `NEVER_MS` if nothing waits for time."""
        if self._attempt is None:
            return NEVER_MS
        timeouts = (p.deadline_ms for p in self._pending.values() if p.life.allows(CheckpointStep.EXPIRED))
        return min(self._trigger_due_ms(), *timeouts, NEVER_MS)

    def handle(self, event: CheckpointEvent, now_ms: int) -> list[CheckpointCommand]:
        """Take one event at `now_ms` and return what must be done, in order."""
        if isinstance(event, SubtaskAcknowledged):
            return self._on_acknowledged(event)
        if isinstance(event, TimePassed):
            return self._expire(now_ms) + self._trigger_if_due(now_ms)
        if isinstance(event, CheckpointRequested):
            return self._on_requested(event, now_ms)
        if isinstance(event, CleaningCounted):
            return self._trigger_if_due(now_ms) if self._decider.counted(event.count) else []
        if isinstance(event, SubtaskInputEnded):
            return self._on_input_ended(event, now_ms)
        if isinstance(event, ManifestWritten):
            return self._on_manifest_written(event, now_ms)
        if isinstance(event, (SubtaskDeclined, ManifestFailed)):
            return self._on_failed(event, now_ms)
        if isinstance(event, TasksRunning):
            return self._on_running(event, now_ms)
        return self._on_stopped(event, now_ms)

    # ------------------------------------------------------------ attempts

    def _on_running(self, event: TasksRunning, now_ms: int) -> list[CheckpointCommand]:
        if self._attempt is not None:
            raise InvalidEvent(f"attempt {event.attempt} cannot start while attempt {self._attempt} runs")
        self._attempt = event.attempt
        self._subtasks, self._sources = event.subtasks, event.sources
        self._input_ended, self._draining = set(), set()
        self._final_completed = False
        self._final_due_ms = -NEVER_MS
        self._is_failing = False
        self._is_first = True
        self._closed_by = None
        self._decider.start(now_ms, event.initial_delay_ms)
        return self._trigger_if_due(now_ms)

    def _on_stopped(self, event: TasksStopped, now_ms: int) -> list[CheckpointCommand]:
        self._attempt = None
        self._decider.stop()
        commands: list[CheckpointCommand] = []
        for checkpoint_id in sorted(self._pending):
            commands += self._abort(checkpoint_id, event.reason, "", now_ms)
        if self._stop is not None:
            self._stop.is_draining = False
        if event.reason not in (AbortReason.RESTARTED, AbortReason.TASK_FAILED):
            self._closed_by = event.reason
            commands += self._refuse_all(event.reason)
        return commands

    # ------------------------------------------------------------ requests

    def _on_requested(self, event: CheckpointRequested, now_ms: int) -> list[CheckpointCommand]:
        if self._final_completed:
            return [AnswerRequest(event.request_id, None, AbortReason.TASKS_NOT_RUNNING, ALL_INPUT_ENDED)]
        refused = self._closed_by
        if refused is None:
            refused = self._request_stop(event) if event.kind.ends_job else self._decider.request(event)
        if refused is not None:
            return [AnswerRequest(event.request_id, None, refused)]
        return self._trigger_if_due(now_ms)

    def _request_stop(self, event: CheckpointRequested) -> AbortReason | None:
        if self._stop is None:
            self._stop = Stop.of(event)
            return None
        return None if self._stop.joins(event) else AbortReason.STOP_UNDER_WAY

    def _refuse_all(self, reason: AbortReason, cause: str = "") -> list[CheckpointCommand]:
        waiting = [request.request_id for request in self._decider.take_all()]
        return [AnswerRequest(each, None, reason, cause) for each in self._end_stop() + waiting]

    def _end_stop(self) -> list[RequestId]:
        """Nobody stops the job any more; who had asked for it."""
        stop, self._stop = self._stop, None
        return [] if stop is None else stop.request_ids

    # ------------------------------------------------------------ trigger

    @property
    def _all_input_ended(self) -> bool:
        return bool(self._subtasks) and len(self._input_ended) == len(self._subtasks)

    @property
    def _is_held(self) -> bool:
        return self._attempt is None or self._final_completed or self._is_failing

    def _trigger_due_ms(self) -> int:
        if self._is_held:
            return NEVER_MS
        if self._all_input_ended:
            return self._final_due_ms if not self._pending else NEVER_MS
        if self._stop is not None:
            return NEVER_MS if self._pending or self._stop.is_draining else -NEVER_MS
        return self._decider.due_at_ms(len(self._pending))

    def obstacle(self, now_ms: int) -> AbortReason | None:
        """Why no checkpoint is triggered at `now_ms`, `None` if one is due (pre-flight checks)."""
        if self._is_held:
            return AbortReason.TASKS_NOT_RUNNING
        if not self._all_input_ended and self._stop is None:
            return self._decider.obstacle(now_ms, len(self._pending))
        if self._pending:
            return AbortReason.TOO_MANY_CONCURRENT
        if not self._all_input_ended:
            # Some sources have ended early, so a checkpoint now would be of no moment of the real stream.
            return AbortReason.SCHEDULER_STOPPED if self._stop and self._stop.is_draining else None
        return AbortReason.NOT_DUE if self._final_due_ms > now_ms else None

    def _trigger_if_due(self, now_ms: int) -> list[CheckpointCommand]:
        if self.obstacle(now_ms) is not None:
            return []
        stop = self._stop
        if self._all_input_ended:
            return self._trigger_final(now_ms)
        if stop is not None and stop.kind is SnapshotKind.FINAL:
            stop.is_draining = True
            return [DrainSources(tuple(sorted(self._sources - self._input_ended)))]
        if stop is not None:
            return self._trigger(stop.kind, stop.savepoint, stop.timeout_ms, (), now_ms)
        request = self._decider.take(now_ms)
        if request is None:
            return self._trigger(SnapshotKind.CHECKPOINT, None, None, (), now_ms)
        answered = (request.request_id,)
        return self._trigger(request.kind, request.savepoint, request.timeout_ms, answered, now_ms)

    def _trigger_final(self, now_ms: int) -> list[CheckpointCommand]:
        """It answers everybody who waits, except for savepoints in other places than its own."""
        waiting = self._decider.take_all()
        targets = [request.savepoint for request in waiting if request.savepoint is not None]
        target = self._stop.savepoint if self._stop is not None else next(iter(targets), None)
        timeout_ms = self._stop.timeout_ms if self._stop is not None else None
        answered = [request for request in waiting if request.savepoint in (None, target)]
        refused = [
            AnswerRequest(request.request_id, None, AbortReason.TASKS_NOT_RUNNING, ALL_INPUT_ENDED)
            for request in waiting
            if request not in answered
        ]
        requests = tuple(request.request_id for request in answered)
        return [*self._trigger(SnapshotKind.FINAL, target, timeout_ms, requests, now_ms), *refused]

    def _trigger(
        self,
        kind: SnapshotKind,
        savepoint: SavepointTarget | None,
        timeout_ms: int | None,
        answered: tuple[RequestId, ...],
        now_ms: int,
    ) -> list[CheckpointCommand]:
        checkpoint_id = CheckpointId(self._next_id)
        self._next_id += 1
        # The first of an attempt follows on nothing that its tasks know of.
        oldest = None if self._is_first else min(self._pending, default=checkpoint_id)
        self._is_first = False
        barrier = CheckpointBarrier(checkpoint_id, now_ms, kind, savepoint=savepoint, oldest_pending=oldest)
        deadline_ms = now_ms + (self._policy.timeout_ms if timeout_ms is None else timeout_ms)
        self._pending[checkpoint_id] = PendingCheckpoint(barrier, deadline_ms, set(self._subtasks), answered)
        targets = tuple(sorted(self._sources | self._input_ended | self._draining))
        return [TriggerSubtasks(barrier, targets, is_new=True)]

    def _on_input_ended(self, event: SubtaskInputEnded, now_ms: int) -> list[CheckpointCommand]:
        is_open = event.subtask in self._subtasks and event.subtask not in self._input_ended
        if event.attempt != self._attempt or not is_open:
            return []
        is_told = event.subtask in self._draining
        (self._input_ended if event.is_drained else self._draining).add(event.subtask)
        commands: list[CheckpointCommand] = []
        for checkpoint_id in () if is_told else sorted(self._pending):
            pending = self._pending[checkpoint_id]
            if event.subtask in pending.missing:
                pending.life.handle(CheckpointStep.INPUT_ENDED)
                # Its channels ended, so no barrier will reach it any more.
                commands.append(TriggerSubtasks(pending.barrier, (event.subtask,), is_new=False))
        return commands + self._trigger_if_due(now_ms)

    # ------------------------------------------------------------ collect

    def _on_acknowledged(self, event: SubtaskAcknowledged) -> list[CheckpointCommand]:
        result = self._classify(event)
        self.counts[result] += 1
        if event.attempt != self._attempt or event.subtask not in self._subtasks:
            return [DiscardFiles(event.acknowledgement)]
        if result is AcknowledgeResult.DUPLICATE:
            return []
        is_pending = result is AcknowledgeResult.SUCCESS
        register = RegisterFiles(event.subtask, event.checkpoint_id, event.acknowledgement, is_pending)
        if not is_pending:
            return [register]
        pending = self._pending[event.checkpoint_id]
        if not pending.acknowledge(event.subtask, event.acknowledgement):
            return [register]
        return [register, WriteManifest(event.checkpoint_id, pending.barrier, pending.acknowledgements)]

    def _classify(self, event: SubtaskAcknowledged) -> AcknowledgeResult:
        if event.attempt != self._attempt:
            return AcknowledgeResult.UNKNOWN
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            ended = event.checkpoint_id in self._ended_ids
            return AcknowledgeResult.DISCARDED if ended else AcknowledgeResult.UNKNOWN
        if event.subtask in pending.acknowledgements:
            return AcknowledgeResult.DUPLICATE
        known = event.subtask in pending.missing
        return AcknowledgeResult.SUCCESS if known else AcknowledgeResult.UNKNOWN

    def _check_manifest(self, event: ManifestWritten | ManifestFailed) -> None:
        """Raise `InvalidEvent` unless the manifest was ordered; the checkpoint may be aborted since."""
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None:
            pending.check_is_writing(type(event).__name__)
        elif event.checkpoint_id >= self._next_id:
            raise InvalidEvent(f"checkpoint {event.checkpoint_id} was never triggered, but it has a manifest")

    def _on_manifest_written(self, event: ManifestWritten, now_ms: int) -> list[CheckpointCommand]:
        self._check_manifest(event)
        checkpoint_id = event.checkpoint_id
        if (pending := self._pending.pop(checkpoint_id, None)) is None:
            return []
        pending.life.handle(CheckpointStep.WRITTEN)
        self._remember(checkpoint_id)
        self._failures = 0
        self._last_completed = max(self._last_completed, checkpoint_id)
        self._decider.checkpoint_completed(now_ms)
        kind = pending.barrier.kind
        commands: list[CheckpointCommand] = []
        if kind is not SnapshotKind.SAVEPOINT:
            commands += self._subsume_before(checkpoint_id, now_ms)
            # A savepoint is nobody's fallback: what it holds is committed with the next checkpoint.
            commands.append(NotifyComplete(checkpoint_id, tuple(sorted(self._subtasks))))
        requests = [*pending.requests, *(self._end_stop() if self._is_of_stop(pending) else [])]
        savepoint = pending.barrier.savepoint
        commands += [AnswerRequest(each, checkpoint_id, savepoint=savepoint) for each in requests]
        if kind.ends_job:
            self._final_completed = True
            cause = ALL_INPUT_ENDED if kind is SnapshotKind.FINAL else STOPPED
            commands += self._refuse_all(AbortReason.TASKS_NOT_RUNNING, cause)
        # Before the next trigger: then nothing of this checkpoint is left to do but the commits of the tasks.
        return [*commands, DeleteSubsumed(checkpoint_id), *self._trigger_if_due(now_ms)]

    def _subsume_before(self, checkpoint_id: CheckpointId, now_ms: int) -> list[CheckpointCommand]:
        commands: list[CheckpointCommand] = []
        for older in sorted(known for known in self._pending if known < checkpoint_id):
            if self._pending[older].barrier.kind is not SnapshotKind.SAVEPOINT:
                commands += self._abort(older, AbortReason.SUBSUMED, "", now_ms)
        return commands

    # ------------------------------------------------------------ abort

    def _on_failed(self, event: SubtaskDeclined | ManifestFailed, now_ms: int) -> list[CheckpointCommand]:
        if isinstance(event, ManifestFailed):
            self._check_manifest(event)
            reason, cause = AbortReason.MANIFEST_FAILED, event.cause
        elif not self._may_decline(event):
            return []
        else:
            reason, cause = event.reason, f"{event.subtask}: {event.cause}"
        commands = self._abort(event.checkpoint_id, reason, cause, now_ms)
        return commands + self._trigger_if_due(now_ms)

    def _may_decline(self, event: SubtaskDeclined) -> bool:
        """False for a late message: an abort would undo what the manifest of the checkpoint may commit."""
        if not event.reason.is_decline:
            raise InvalidEvent(f"{event.subtask} cannot decline a checkpoint because {event.reason.value}")
        pending = self._pending.get(event.checkpoint_id)
        return event.attempt == self._attempt and pending is not None and event.subtask in pending.missing

    def _expire(self, now_ms: int) -> list[CheckpointCommand]:
        commands: list[CheckpointCommand] = []
        for checkpoint_id, pending in sorted(self._pending.items()):
            if pending.life.allows(CheckpointStep.EXPIRED) and pending.deadline_ms <= now_ms:
                timeout_ms = pending.deadline_ms - pending.barrier.timestamp_ms
                waiting = ", ".join(str(subtask) for subtask in sorted(pending.missing))
                cause = f"no acknowledgement from {waiting} within {timeout_ms} ms"
                commands += self._abort(checkpoint_id, AbortReason.EXPIRED, cause, now_ms)
        return commands

    def _abort(
        self, checkpoint_id: CheckpointId, reason: AbortReason, cause: str, now_ms: int
    ) -> list[CheckpointCommand]:
        pending = self._pending.pop(checkpoint_id, None)
        if pending is None:
            return []
        pending.life.handle(step_of(reason))
        self._remember(checkpoint_id)
        if pending.barrier.kind is SnapshotKind.FINAL:
            # Tried again until it completes, but not in a tight loop.
            self._final_due_ms = now_ms + (self._policy.interval_ms or FINAL_RETRY_MS)
        commands: list[CheckpointCommand] = [
            NotifyAborted(
                checkpoint_id, tuple(sorted(self._subtasks)), reason, cause, pending.barrier.savepoint
            )
        ]
        requests = list(pending.requests)
        if self._is_of_stop(pending):
            is_drained = self._stop is not None and self._stop.is_draining
            requests += self._end_stop()
            if is_drained and self._attempt is not None:
                commands.append(UndoDrain(f"the savepoint of a stop with drain failed: {reason.value}"))
                self._is_failing = True
        commands += [AnswerRequest(request, None, reason, cause) for request in requests]
        if self._counts(pending, reason):
            self._failures += 1
            if self._failures > self._policy.tolerable_failures:
                commands.append(FailJob(_too_many(checkpoint_id, reason, cause, self._failures)))
                self._is_failing, self._failures = True, 0
        return commands

    def _is_of_stop(self, pending: PendingCheckpoint) -> bool:
        stop, barrier = self._stop, pending.barrier
        return stop is not None and barrier.kind.ends_job and barrier.savepoint == stop.savepoint

    def _counts(self, pending: PendingCheckpoint, reason: AbortReason) -> bool:
        if pending.barrier.checkpoint_id < self._last_completed or self._is_failing:
            return False
        if pending.barrier.kind is SnapshotKind.SAVEPOINT and not reason.is_decline:
            # A restart would not help what went wrong in the coordinator, and a person looks after it.
            return False
        if pending.barrier.savepoint is not None:
            # What a person asked for and is told about must not restart the job.
            return False
        return reason.counts_as_failure

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
            assert pending.missing | set(pending.acknowledgements) == self._subtasks
        assert self._attempt is not None or not self._pending, "pending without running tasks"


def _too_many(checkpoint_id: CheckpointId, reason: AbortReason, cause: str, failures: int) -> str:
    detail = f": {cause}" if cause else ""
    return (
        f"checkpoint {checkpoint_id} failed because {reason.value}{detail} "
        f"({failures} in a row; raise execution.checkpointing.tolerable-failed-checkpoints "
        f"to let the job go on)"
    )
