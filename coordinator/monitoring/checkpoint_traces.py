"""One trace per checkpoint and savepoint, from the trigger until the last subtask has committed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ...protocol.checkpoints.checkpoint_events import SubtaskMetrics
from ...protocol.elements import CheckpointBarrier, SnapshotKind
from ...protocol.ids import CheckpointId, SubtaskId
from ...protocol.task_events import SpansRecorded
from ...telemetry import AttributeValue, Span
from ...telemetry.spans import (
    ACKNOWLEDGE,
    CHECKPOINT,
    CHECKPOINT_ABORT_REASON,
    CHECKPOINT_DURATION_MS,
    CHECKPOINT_ID,
    CHECKPOINT_SIZE_BYTES,
    CHECKPOINT_SUBTASKS,
    CHECKPOINT_TYPE,
    CLEAN_UP,
    COMMIT,
    JOB_ATTEMPT,
    OPERATOR_NAME,
    PATH_CAUSE,
    PATH_STEPS,
    SAVEPOINT,
    SUBTASK_INDEX,
)
from .critical_path import critical_path, step_words
from .statistics import CheckpointOutcome, CheckpointStatistics, JobStatistics
from .traces import JobTraces


@dataclass(slots=True)
class _Open:
    """A trace under way. `unheard`: subtasks that were notified and have not said that they are done."""

    root: Span
    completed_ns: int = 0
    unheard: set[SubtaskId] = field(default_factory=set)
    is_cleaning: bool = False


class CheckpointTraces:
    """Keeps the root of each checkpoint open until all that belongs to it has happened.

    That is, until the notified subtasks have committed and older checkpoints are deleted; but at most until
    the next checkpoint completes or the attempt ends, so that few are open.

    Args:
        statistics: Hears how long the last two took.
    """

    def __init__(self, traces: JobTraces, statistics: JobStatistics) -> None:
        self._traces = traces
        self._statistics = statistics
        self._open: dict[CheckpointId, _Open] = {}

    def begin(self, barrier: CheckpointBarrier, attempt_number: int, subtask_count: int) -> None:
        """A checkpoint is triggered."""
        is_savepoint = barrier.kind in (SnapshotKind.SAVEPOINT, SnapshotKind.STOP)
        root = self._traces.begin(
            SAVEPOINT if is_savepoint else CHECKPOINT,
            {
                JOB_ATTEMPT: attempt_number,
                CHECKPOINT_ID: barrier.checkpoint_id,
                CHECKPOINT_TYPE: barrier.kind.value,
                CHECKPOINT_SUBTASKS: subtask_count,
            },
        )
        self._open[barrier.checkpoint_id] = _Open(root)

    def context(self, checkpoint_id: CheckpointId) -> str | None:
        """The W3C traceparent of a checkpoint, for whoever works for it."""
        known = self._open.get(checkpoint_id)
        return None if known is None else known.root.context

    def acknowledged(
        self, checkpoint: CheckpointStatistics, subtask: SubtaskId, metrics: SubtaskMetrics, now_ns: int
    ) -> None:
        """A subtask's acknowledgement arrived.

        Args:
            metrics: As the coordinator's clock has them.
        """
        known = self._open.get(checkpoint.checkpoint_id)
        if known is None or metrics.taken_ms is None:
            return
        stored_ms = metrics.taken_ms + metrics.prepare_ms + metrics.sync_ms + metrics.async_ms
        task = checkpoint.shape.get(subtask.task_id)
        attributes: dict[str, AttributeValue] = {
            CHECKPOINT_ID: checkpoint.checkpoint_id,
            OPERATOR_NAME: subtask.task_id if task is None else task.name,
            SUBTASK_INDEX: subtask.index,
        }
        started_ns = round((checkpoint.triggered_ms + stored_ms) * 1e6)
        self._traces.record(known.root, ACKNOWLEDGE, started_ns, attributes, now_ns)

    def committed(self, checkpoint_id: CheckpointId, started_ns: int) -> None:
        """The manifest is written."""
        known = self._open.get(checkpoint_id)
        if known is not None:
            self._traces.record(known.root, COMMIT, started_ns, {CHECKPOINT_ID: checkpoint_id})

    def ended(self, checkpoint: CheckpointStatistics, now_ns: int) -> None:
        """A checkpoint completed, or was aborted: then its trace ends too."""
        if checkpoint.outcome is CheckpointOutcome.COMPLETED:
            for older in [each for each, one in self._open.items() if one.completed_ns]:
                self._end(older)
        known = self._open.get(checkpoint.checkpoint_id)
        if known is None:
            return
        root = known.root
        root.set_attribute(CHECKPOINT_SIZE_BYTES, checkpoint.new_bytes)
        root.set_attribute(CHECKPOINT_DURATION_MS, checkpoint.duration_ms)
        if checkpoint.outcome is CheckpointOutcome.ABORTED:
            root.set_attribute(CHECKPOINT_ABORT_REASON, checkpoint.reason)
            self._explain(known, checkpoint)
            self._traces.end(self._open.pop(checkpoint.checkpoint_id).root, checkpoint.reason)
        else:
            known.completed_ns = now_ns

    def notified(self, checkpoint_id: CheckpointId, subtasks: Collection[SubtaskId]) -> None:
        """These subtasks were told that a checkpoint is complete."""
        known = self._open.get(checkpoint_id)
        if known is not None and known.root.context is not None:
            known.unheard |= set(subtasks)

    def cleaning(self, checkpoint_id: CheckpointId) -> None:
        """What a completed checkpoint subsumed is being deleted."""
        known = self._open.get(checkpoint_id)
        if known is not None:
            known.is_cleaning = True

    def settled(self, checkpoint_id: CheckpointId) -> None:
        """Everything that a completed checkpoint leads to is under way; perhaps nothing is."""
        self._end_if_done(checkpoint_id)

    def heard(self, event: SpansRecorded, now_ns: int) -> None:
        """Spans of a task arrived: perhaps those of its notification."""
        known = None if event.notified is None else self._open.get(event.notified)
        if known is None or event.notified is None or event.subtask not in known.unheard:
            return
        known.unheard.discard(event.subtask)
        if not known.unheard:
            self._statistics.followed(event.notified, notified_ms=(now_ns - known.completed_ns) / 1e6)
        self._end_if_done(event.notified)

    def cleaned(self, now_ns: int) -> None:
        """A deletion has ended."""
        for checkpoint_id, known in list(self._open.items()):
            if known.is_cleaning:
                known.is_cleaning = False
                self._traces.record(
                    known.root, CLEAN_UP, known.completed_ns, {CHECKPOINT_ID: checkpoint_id}, now_ns
                )
                self._statistics.followed(checkpoint_id, clean_up_ms=(now_ns - known.completed_ns) / 1e6)
                self._end_if_done(checkpoint_id)

    def attempt_ended(self) -> None:
        """Nothing more is heard of what was under way."""
        for checkpoint_id in [each for each, known in self._open.items() if known.completed_ns]:
            self._end(checkpoint_id)

    def _end_if_done(self, checkpoint_id: CheckpointId) -> None:
        known = self._open.get(checkpoint_id)
        if known is not None and known.completed_ns and not known.unheard and not known.is_cleaning:
            self._end(checkpoint_id)

    def _end(self, checkpoint_id: CheckpointId) -> None:
        known = self._open.pop(checkpoint_id)
        checkpoint = self._statistics.completed(checkpoint_id)
        if checkpoint is not None:
            self._explain(known, checkpoint)
        self._traces.end(known.root)

    def _explain(self, known: _Open, checkpoint: CheckpointStatistics) -> None:
        if known.root.context is None:
            # The job is not traced: nothing would be written.
            return
        path = critical_path(checkpoint)
        if path.steps:
            known.root.set_attribute(PATH_CAUSE, path.cause)
            known.root.set_attribute(PATH_STEPS, tuple(map(step_words, path.steps)))
