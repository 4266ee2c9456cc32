"""The checkpoint life cycle as the coordinator sees it.

    trigger -> PENDING -> all acknowledged -> WRITING -> manifest written -> COMPLETED
                  |                              |
                  +--- declined, timed out, -----+--> ABORTED
                       subsumed, job stopped

Source: Flink's `CheckpointCoordinator`. Time and checkpoint ids come in; commands go out. The machine
never deletes or writes anything itself.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .elements import CheckpointBarrier, SnapshotKind
from .handles import OperatorSnapshot
from .ids import Attempt, CheckpointId, SubtaskId
from .trigger import NEVER_MS, TriggerDecider, TriggerPolicy

REMEMBERED_IDS = 1_000
"""How many ended checkpoints are remembered, so that a late acknowledgement is told from an unknown one."""

FINAL_RETRY_MS = 1_000
"""Pause before a failed final checkpoint is tried again where no interval is set."""


class AcknowledgeResult(enum.Enum):
    """What an acknowledgement meant."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    """No such checkpoint, or not a subtask of it, or a message of another attempt."""
    DISCARDED = "discarded"
    """The checkpoint had already ended; its late state is not used."""


class AbortReason(enum.Enum):
    """Why a checkpoint did not complete."""

    DECLINED = "a task declined it"
    EXPIRED = "it did not complete within its timeout"
    SUBSUMED = "a newer checkpoint completed first"
    TASKS_STOPPED = "the tasks stopped (failure, restart or cancellation)"
    MANIFEST_FAILED = "its manifest could not be written"

    @property
    def counts_as_failure(self) -> bool:
        """Whether it counts against the tolerable failures."""
        return self in (AbortReason.DECLINED, AbortReason.EXPIRED, AbortReason.MANIFEST_FAILED)


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """How one subtask's snapshot went; times are wall-clock milliseconds or durations in ms."""

    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One subtask's part of a checkpoint: the snapshots of its operators by uid."""

    snapshots: Mapping[str, OperatorSnapshot]
    metrics: SubtaskMetrics = SubtaskMetrics()


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class TasksRunning:
    """All subtasks of `attempt` run; periodic checkpoints start after `initial_delay_ms`."""

    attempt: Attempt
    subtasks: frozenset[SubtaskId]
    sources: frozenset[SubtaskId]
    initial_delay_ms: int


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """The attempt is over, for whatever cause."""


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody asked for a checkpoint now."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Look at the clock: a trigger or a timeout may be due."""


@dataclass(frozen=True, slots=True)
class SubtaskAcknowledged:
    """A subtask persisted its part of a checkpoint."""

    attempt: Attempt
    subtask: SubtaskId
    checkpoint_id: CheckpointId
    acknowledgement: Acknowledgement


@dataclass(frozen=True, slots=True)
class SubtaskDeclined:
    """A subtask could not take its part of a checkpoint."""

    attempt: Attempt
    subtask: SubtaskId
    checkpoint_id: CheckpointId
    cause: str


@dataclass(frozen=True, slots=True)
class SubtaskInputEnded:
    """All input of the subtask ended and it has passed everything on; it only waits to commit."""

    attempt: Attempt
    subtask: SubtaskId


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """The manifest of a checkpoint is in storage: it exists."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class ManifestFailed:
    """The manifest of a checkpoint could not be written."""

    checkpoint_id: CheckpointId
    cause: str


CheckpointEvent = (
    TasksRunning
    | TasksStopped
    | CheckpointRequested
    | TimePassed
    | SubtaskAcknowledged
    | SubtaskDeclined
    | SubtaskInputEnded
    | ManifestWritten
    | ManifestFailed
)

# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class TriggerSubtasks:
    """Send the barrier to these subtasks; `is_new` when it opens the checkpoint."""

    barrier: CheckpointBarrier
    subtasks: tuple[SubtaskId, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Every subtask has acknowledged: make the checkpoint exist."""

    checkpoint_id: CheckpointId
    barrier: CheckpointBarrier
    acknowledgements: Mapping[SubtaskId, Acknowledgement]


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell these subtasks that a checkpoint is complete."""

    checkpoint_id: CheckpointId
    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell these subtasks that a checkpoint will not complete."""

    checkpoint_id: CheckpointId
    subtasks: tuple[SubtaskId, ...]
    reason: AbortReason
    cause: str


@dataclass(frozen=True, slots=True)
class FailJob:
    """Too many checkpoints failed."""

    cause: str


CheckpointCommand = TriggerSubtasks | WriteManifest | NotifyComplete | NotifyAborted | FailJob


@dataclass(slots=True)
class PendingCheckpoint:
    """A triggered checkpoint that has neither completed nor been aborted."""

    barrier: CheckpointBarrier
    deadline_ms: int
    missing: set[SubtaskId]
    acknowledgements: dict[SubtaskId, Acknowledgement] = field(default_factory=dict)
    is_writing: bool = False


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
        self._final_completed = False
        self._final_due_ms = -NEVER_MS
        self._failures = 0
        self.counts = dict.fromkeys(AcknowledgeResult, 0)

    @property
    def next_checkpoint_id(self) -> int:
        """The id that the next checkpoint will get."""
        return self._next_id

    @property
    def pending(self) -> Mapping[CheckpointId, PendingCheckpoint]:
        """Checkpoints that are under way, by id."""
        return self._pending

    def next_due_ms(self) -> int:
        """When `TimePassed` should be handled next; `NEVER_MS` if nothing waits for time."""
        if self._attempt is None:
            return NEVER_MS
        timeouts = (p.deadline_ms for p in self._pending.values() if not p.is_writing)
        return min(self._trigger_due_ms(), *timeouts, NEVER_MS)

    def handle(self, event: CheckpointEvent, now_ms: int) -> list[CheckpointCommand]:
        """Take one event at `now_ms` and return what must be done, in order."""
        if isinstance(event, SubtaskAcknowledged):
            return self._on_acknowledged(event)
        if isinstance(event, TimePassed):
            return self._expire(now_ms) + self._trigger_if_due(now_ms)
        if isinstance(event, CheckpointRequested):
            self._decider.request()
            return self._trigger_if_due(now_ms)
        if isinstance(event, SubtaskInputEnded):
            return self._on_input_ended(event, now_ms)
        if isinstance(event, ManifestWritten):
            return self._on_manifest_written(event.checkpoint_id, now_ms)
        if isinstance(event, (SubtaskDeclined, ManifestFailed)):
            return self._on_failed(event, now_ms)
        if isinstance(event, TasksRunning):
            return self._on_running(event, now_ms)
        return self._on_stopped(now_ms)

    # ------------------------------------------------------------ attempts

    def _on_running(self, event: TasksRunning, now_ms: int) -> list[CheckpointCommand]:
        assert self._attempt is None, "an attempt starts while another one runs"
        self._attempt = event.attempt
        self._subtasks, self._sources = event.subtasks, event.sources
        self._input_ended = set()
        self._final_completed = False
        self._final_due_ms = -NEVER_MS
        self._failures = 0
        self._decider.start(now_ms, event.initial_delay_ms)
        return self._trigger_if_due(now_ms)

    def _on_stopped(self, now_ms: int) -> list[CheckpointCommand]:
        self._attempt = None
        self._decider.stop()
        commands: list[CheckpointCommand] = []
        for checkpoint_id in sorted(self._pending):
            commands += self._abort(checkpoint_id, AbortReason.TASKS_STOPPED, "", now_ms)
        return commands

    # ------------------------------------------------------------ trigger

    @property
    def _all_input_ended(self) -> bool:
        return bool(self._subtasks) and len(self._input_ended) == len(self._subtasks)

    def _trigger_due_ms(self) -> int:
        if self._final_completed or self._failures > self._policy.tolerable_failures:
            return NEVER_MS
        if self._all_input_ended:
            return self._final_due_ms if not self._pending else NEVER_MS
        return self._decider.due_at_ms(len(self._pending))

    def _trigger_if_due(self, now_ms: int) -> list[CheckpointCommand]:
        if self._attempt is None or self._trigger_due_ms() > now_ms:
            return []
        kind = SnapshotKind.CHECKPOINT
        if self._all_input_ended:
            kind = SnapshotKind.FINAL
        else:
            self._decider.take(now_ms, len(self._pending))
        checkpoint_id = CheckpointId(self._next_id)
        self._next_id += 1
        barrier = CheckpointBarrier(checkpoint_id, now_ms, kind)
        self._pending[checkpoint_id] = PendingCheckpoint(
            barrier, now_ms + self._policy.timeout_ms, set(self._subtasks)
        )
        targets = tuple(sorted(self._sources | self._input_ended))
        return [TriggerSubtasks(barrier, targets, is_new=True)]

    def _on_input_ended(self, event: SubtaskInputEnded, now_ms: int) -> list[CheckpointCommand]:
        if event.attempt != self._attempt or event.subtask in self._input_ended:
            return []
        self._input_ended.add(event.subtask)
        commands: list[CheckpointCommand] = []
        for checkpoint_id in sorted(self._pending):
            pending = self._pending[checkpoint_id]
            if event.subtask in pending.missing:
                # Its channels ended, so no barrier will reach it any more.
                commands.append(TriggerSubtasks(pending.barrier, (event.subtask,), is_new=False))
        return commands + self._trigger_if_due(now_ms)

    # ------------------------------------------------------------ collect

    def _on_acknowledged(self, event: SubtaskAcknowledged) -> list[CheckpointCommand]:
        result = self._classify(event)
        self.counts[result] += 1
        if result is not AcknowledgeResult.SUCCESS:
            return []
        pending = self._pending[event.checkpoint_id]
        pending.missing.discard(event.subtask)
        pending.acknowledgements[event.subtask] = event.acknowledgement
        if pending.missing:
            return []
        pending.is_writing = True
        return [WriteManifest(event.checkpoint_id, pending.barrier, pending.acknowledgements)]

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

    def _on_manifest_written(self, checkpoint_id: CheckpointId, now_ms: int) -> list[CheckpointCommand]:
        pending = self._pending.pop(checkpoint_id, None)
        if pending is None:
            return []
        self._remember(checkpoint_id)
        self._failures = 0
        self._decider.checkpoint_ended(now_ms)
        if pending.barrier.kind is SnapshotKind.FINAL:
            self._final_completed = True
        commands: list[CheckpointCommand] = []
        for older in sorted(known for known in self._pending if known < checkpoint_id):
            commands += self._abort(older, AbortReason.SUBSUMED, "", now_ms)
        commands.append(NotifyComplete(checkpoint_id, tuple(sorted(self._subtasks))))
        return commands + self._trigger_if_due(now_ms)

    # ------------------------------------------------------------ abort

    def _on_failed(self, event: SubtaskDeclined | ManifestFailed, now_ms: int) -> list[CheckpointCommand]:
        if isinstance(event, ManifestFailed):
            reason, cause = AbortReason.MANIFEST_FAILED, event.cause
        elif event.attempt != self._attempt:
            return []
        else:
            reason, cause = AbortReason.DECLINED, f"{event.subtask}: {event.cause}"
        commands = self._abort(event.checkpoint_id, reason, cause, now_ms)
        return commands + self._trigger_if_due(now_ms)

    def _expire(self, now_ms: int) -> list[CheckpointCommand]:
        commands: list[CheckpointCommand] = []
        for checkpoint_id, pending in sorted(self._pending.items()):
            if not pending.is_writing and pending.deadline_ms <= now_ms:
                waiting = ", ".join(str(subtask) for subtask in sorted(pending.missing))
                cause = f"no acknowledgement from {waiting} within {self._policy.timeout_ms} ms"
                commands += self._abort(checkpoint_id, AbortReason.EXPIRED, cause, now_ms)
        return commands

    def _abort(
        self, checkpoint_id: CheckpointId, reason: AbortReason, cause: str, now_ms: int
    ) -> list[CheckpointCommand]:
        pending = self._pending.pop(checkpoint_id, None)
        if pending is None:
            return []
        self._remember(checkpoint_id)
        self._decider.checkpoint_ended(now_ms)
        if pending.barrier.kind is SnapshotKind.FINAL:
            # Tried again until it completes, but not in a tight loop.
            self._final_due_ms = now_ms + (self._policy.interval_ms or FINAL_RETRY_MS)
        commands: list[CheckpointCommand] = [
            NotifyAborted(checkpoint_id, tuple(sorted(self._subtasks)), reason, cause)
        ]
        if reason.counts_as_failure:
            self._failures += 1
            if self._failures > self._policy.tolerable_failures:
                commands.append(FailJob(_too_many(checkpoint_id, reason, cause, self._failures)))
        return commands

    def _remember(self, checkpoint_id: CheckpointId) -> None:
        self._ended_ids[checkpoint_id] = None
        while len(self._ended_ids) > REMEMBERED_IDS:
            del self._ended_ids[next(iter(self._ended_ids))]

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        assert len(self._pending) <= max(1, self._policy.max_concurrent), "too many pending"
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


def operator_snapshots(
    acknowledgements: Mapping[SubtaskId, Acknowledgement], uids: Iterable[str]
) -> dict[str, list[OperatorSnapshot]]:
    """Snapshots per operator uid, in subtask order."""
    result: dict[str, list[OperatorSnapshot]] = {}
    for uid in uids:
        having = [s for s in sorted(acknowledgements) if uid in acknowledgements[s].snapshots]
        result[uid] = [acknowledgements[subtask].snapshots[uid] for subtask in having]
    return result
