"""What happened to checkpoints and restarts, for `JobClient`, the demo and the benchmarks."""

from __future__ import annotations

import enum
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ...protocol.checkpoints.abort_reasons import AbortReason
from ...protocol.checkpoints.checkpoint_events import (
    AcknowledgeResult,
    AnswerRequest,
    RequestId,
    SubtaskMetrics,
)
from ...protocol.elements import SnapshotKind
from ...protocol.ids import Attempt, CheckpointId, SubtaskId
from ...protocol.scheduling.execution_graph import ExecutionGraph

HISTORY_LENGTH = 1_000


class CheckpointOutcome(enum.Enum):
    """How a checkpoint ended, if it did."""

    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class TaskShape:
    """What one needs of a task to name its subtasks: `name` of its operators, as in the job graph."""

    name: str
    parallelism: int


JobShape = Mapping[str, TaskShape]
"""The tasks of a job by their ids; all checkpoints of one coordinator share one."""


def job_shape(graph: ExecutionGraph) -> JobShape:
    """The shape of a job as it runs."""
    tasks = {subtask.task.task_id: subtask.task for subtask in graph.subtasks.values()}
    return {task_id: TaskShape(task.name, task.parallelism) for task_id, task in tasks.items()}


@dataclass(frozen=True)
class CheckpointStatistics:
    """One checkpoint; durations in milliseconds.

    `duration_ms` ends with the last acknowledgement so far while the checkpoint is in progress.
    `size_bytes` is all state the checkpoint refers to; `new_bytes` what it added to storage.
    """

    checkpoint_id: CheckpointId
    outcome: CheckpointOutcome
    triggered_ms: int
    duration_ms: float
    size_bytes: int = 0
    new_bytes: int = 0
    reason: str = ""
    abort_reason: AbortReason | None = None
    subtasks: dict[SubtaskId, SubtaskMetrics] = field(default_factory=dict)
    """Those that have acknowledged."""
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    subtask_count: int = 0
    notified_ms: float = 0.0
    """From its completion until every subtask had dealt with it (committed); 0 while that is not known."""
    clean_up_ms: float = 0.0
    """From its completion until the checkpoints that it subsumed were deleted; 0 while that is not known."""
    shape: JobShape = field(default_factory=dict)
    """The job at that time; empty where it is not known."""

    def subtask_name(self, subtask: SubtaskId) -> str:
        """`operator (1/2)`, or the id where the job's shape is not known."""
        task = self.shape.get(subtask.task_id)
        return str(subtask) if task is None else f"{task.name} ({subtask.index + 1}/{task.parallelism})"

    @property
    def start_delay_ms(self) -> float:
        """The longest time that a barrier took to the first channel of any subtask."""
        return self._most(lambda metrics: metrics.start_delay_ms)

    @property
    def alignment_ms(self) -> float:
        """The longest alignment of any subtask."""
        return self._most(lambda metrics: metrics.alignment_ms)

    @property
    def sync_ms(self) -> float:
        """The longest synchronous part of any subtask."""
        return self._most(lambda metrics: metrics.sync_ms)

    @property
    def async_ms(self) -> float:
        """The longest asynchronous part of any subtask."""
        return self._most(lambda metrics: metrics.async_ms)

    @property
    def processed_bytes(self) -> int:
        """What all subtasks processed between their first barrier and their last."""
        return sum(metrics.processed_bytes for metrics in self.subtasks.values())

    @property
    def persisted_bytes(self) -> int:
        """What of the records under way was stored with the checkpoint."""
        return sum(metrics.persisted_bytes for metrics in self.subtasks.values())

    def _most(self, duration: Callable[[SubtaskMetrics], float]) -> float:
        return max(map(duration, self.subtasks.values()), default=0.0)


@dataclass(frozen=True)
class Summary:
    """How one figure is spread over several checkpoints; percentiles by nearest rank."""

    count: int
    minimum: float
    average: float
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float

    @staticmethod
    def of(values: list[float]) -> Summary | None:
        """The summary of some values, `None` of no values."""
        if not values:
            return None
        ranked = sorted(values)
        low, high = ranked[0], ranked[-1]
        p50, p90, p95, p99 = (ranked[math.ceil(len(ranked) * part) - 1] for part in (0.5, 0.9, 0.95, 0.99))
        return Summary(len(ranked), low, sum(ranked) / len(ranked), p50, p90, p95, p99, high)


SUMMARISED = (
    "duration_ms",
    "start_delay_ms",
    "alignment_ms",
    "sync_ms",
    "async_ms",
    "size_bytes",
    "new_bytes",
    "processed_bytes",
    "persisted_bytes",
)
"""The figures of a checkpoint that `JobStatistics.summaries` covers."""


@dataclass(frozen=True)
class RestoredCheckpoint:
    """A checkpoint that the job was started from."""

    checkpoint_id: CheckpointId
    kind: SnapshotKind
    restored_ms: int
    is_own: bool
    """Whether this job wrote it, and not another one."""


@dataclass(frozen=True)
class RecoveryStatistics:
    """One recovery; times in milliseconds since the Unix epoch.

    Attributes:
        attempt: The one in which every subtask ran again.
        failed_ms: When the coordinator noticed the first failure.
        running_ms: When every subtask ran again.
        cause: Of the first failure.
        restored_checkpoint: The checkpoint or savepoint that the job went back to; `None` for its beginning.
        failures: How many failures it took until then: others may occur while the job restarts.
        last_result_ms: When a task at the end of the graph gave the last result before the failure, as far as
            the coordinator was told; `None` where it was told of none.
        first_result_ms: When one gave the first result afterwards; `None` until then.
    """

    attempt: Attempt
    failed_ms: int
    running_ms: int
    cause: str
    restored_checkpoint: CheckpointId | None
    failures: int = 1
    last_result_ms: int | None = None
    first_result_ms: int | None = None

    @property
    def duration_ms(self) -> int:
        """From the first failure until every subtask ran again."""
        return self.running_ms - self.failed_ms

    @property
    def outage_ms(self) -> int | None:
        """From the last result before the failure to the first after it; `None` while one is unknown."""
        if self.last_result_ms is None or self.first_result_ms is None:
            return None
        return self.first_result_ms - self.last_result_ms


@dataclass(frozen=True)
class RescaleStatistics:
    """One change of parallelism; times in milliseconds since the Unix epoch.

    `cause` says who asked: `requested`, `reactive` or `autoscaler`. The two mappings are the numbers of
    subtasks by operator uid. `stopped_ms` and `running_ms` are 0 where it did not come so far.
    """

    number: int
    cause: str
    from_parallelism: Mapping[str, int]
    to_parallelism: Mapping[str, int]
    requested_ms: int
    stopped_ms: int = 0
    running_ms: int = 0
    checkpoint_id: CheckpointId | None = None
    """The one that it went through."""
    failure: str = ""
    """Why the job has the parallelism that it had before."""

    @property
    def pause_ms(self) -> int:
        """From the completion of the checkpoint until every subtask ran, 0 if it did not come so far."""
        return max(0, self.running_ms - self.stopped_ms)


@dataclass
class JobStatistics:
    """History of one job; the oldest entries go beyond `HISTORY_LENGTH`, the counts stay."""

    warnings: deque[str] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    checkpoints: deque[CheckpointStatistics] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    """Those that ended, in the order of their end."""
    in_progress: dict[CheckpointId, CheckpointStatistics] = field(default_factory=dict)
    counts: Counter[CheckpointOutcome] = field(default_factory=Counter)
    """How many ended in which way, over the whole history."""
    acknowledgements: dict[AcknowledgeResult, int] = field(
        default_factory=lambda: dict.fromkeys(AcknowledgeResult, 0)
    )
    """How many acknowledgements were of use, late, double or unknown."""
    restored_count: int = 0
    latest_completed: CheckpointStatistics | None = None
    latest_aborted: CheckpointStatistics | None = None
    latest_savepoint: CheckpointStatistics | None = None
    latest_restored: RestoredCheckpoint | None = None
    recoveries: deque[RecoveryStatistics] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    restarts: int = 0
    """How often the job was restarted, not counting rescales."""
    last_result_ms: int | None = None
    """When a task at the end of the graph gave its last result, as far as the coordinator knows."""
    rescales: deque[RescaleStatistics] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    """Those that ended, well or not, in the order of their end."""
    requests: dict[RequestId, AnswerRequest | None] = field(default_factory=dict)
    """Manual requests and their answers, `None` while they wait."""

    def summaries(self) -> dict[str, Summary]:
        """Each of `SUMMARISED` over the completed checkpoints in the history; empty if there is none."""
        completed = [one for one in self.checkpoints if one.outcome is CheckpointOutcome.COMPLETED]
        found = {name: Summary.of([getattr(one, name) for one in completed]) for name in SUMMARISED}
        return {name: summary for name, summary in found.items() if summary is not None}

    def frozen(self) -> JobStatistics:
        """A view for other threads: checkpoints in progress keep the acknowledgements that they have now."""
        # `copy` is one step of the interpreter, so no acknowledgement arrives in the middle of it.
        now = {known: replace(one, subtasks=one.subtasks.copy()) for known, one in self.in_progress.items()}
        return replace(self, in_progress=now)

    # Dictionaries are replaced and not changed: in the local shell another thread may read them. Except the
    # acknowledgements of a checkpoint: to copy them for each further one takes time in their square.

    def started(self, checkpoint: CheckpointStatistics) -> None:
        """A checkpoint was triggered."""
        self.in_progress = {**self.in_progress, checkpoint.checkpoint_id: checkpoint}

    def acknowledged(self, checkpoint_id: CheckpointId, subtask: SubtaskId, metrics: SubtaskMetrics) -> None:
        """A subtask did its part of a checkpoint in progress."""
        known = self.in_progress[checkpoint_id]
        known.subtasks[subtask] = metrics
        self.started(
            replace(
                known,
                size_bytes=known.size_bytes + metrics.size_bytes,
                duration_ms=max(known.duration_ms, metrics.acknowledged_ms or 0.0),
            )
        )

    def ended(self, checkpoint: CheckpointStatistics) -> None:
        """A checkpoint completed or was aborted."""
        ended_id = checkpoint.checkpoint_id
        self.in_progress = {known: one for known, one in self.in_progress.items() if known != ended_id}
        self.checkpoints.append(checkpoint)
        self.counts[checkpoint.outcome] += 1
        if checkpoint.outcome is CheckpointOutcome.ABORTED:
            self.latest_aborted = checkpoint
        elif checkpoint.kind is SnapshotKind.SAVEPOINT:
            self.latest_savepoint = checkpoint
        else:
            self.latest_completed = checkpoint

    def followed(
        self, checkpoint_id: CheckpointId, notified_ms: float | None = None, clean_up_ms: float | None = None
    ) -> None:
        """Something that a completed checkpoint led to has ended, so long after its completion."""
        for index in range(len(self.checkpoints) - 1, -1, -1):
            before = self.checkpoints[index]
            if before.checkpoint_id == checkpoint_id:
                self.checkpoints[index] = after = replace(
                    before,
                    notified_ms=before.notified_ms if notified_ms is None else notified_ms,
                    clean_up_ms=before.clean_up_ms if clean_up_ms is None else clean_up_ms,
                )
                if self.latest_completed is before:
                    self.latest_completed = after
                if self.latest_savepoint is before:
                    self.latest_savepoint = after
                return

    def completed(self, checkpoint_id: CheckpointId) -> CheckpointStatistics | None:
        """A completed checkpoint of the history."""
        for checkpoint in reversed(self.checkpoints):
            if checkpoint.checkpoint_id == checkpoint_id:
                return checkpoint
        return None

    def restored(self, checkpoint: RestoredCheckpoint) -> None:
        """The job was started from a checkpoint."""
        self.restored_count += 1
        self.latest_restored = checkpoint

    def requested(self, request_id: RequestId) -> None:
        """Somebody asked for a checkpoint."""
        kept = dict(list(self.requests.items())[1 - 2 * HISTORY_LENGTH :])
        self.requests = {**kept, request_id: None}

    def answered(self, answer: AnswerRequest) -> None:
        """A request has its answer."""
        if answer.request_id in self.requests:
            self.requests = {**self.requests, answer.request_id: answer}
