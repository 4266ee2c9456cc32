"""Everything that is measured of a job, as families of metrics with Flink's names.

`docs/metrics.md` has the same tables; a test compares the two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from ...common.job_status import JobStatus
from ...protocol.elements import MAX_WATERMARK_MS
from ...protocol.scheduling.execution_graph import Subtask
from ...protocol.stages.stage_reports import StageReport
from ...protocol.task_metrics import TaskMetrics, TaskRates
from ...telemetry.metric_families import Labels, MetricFamilies, MetricFamily
from ..job_coordinator import JobCoordinator
from .job_metrics import SubtaskSample
from .stage_metrics import STAGE_METRICS, reports_by_stage, stage_values
from .statistics import CheckpointOutcome, CheckpointStatistics, JobStatistics

logger = logging.getLogger("tidegate")

JOB_SCOPE = ("jobmanager", "job")
TASK_SCOPE = ("taskmanager", "job", "task")
OPERATOR_SCOPE = (*TASK_SCOPE, "operator")

_TaskValue = Callable[[TaskMetrics, TaskRates], "float | None"]
_CheckpointValue = Callable[[CheckpointStatistics], float]
_HistoryValue = Callable[[JobStatistics], "float | None"]

TASK_METRICS: dict[str, tuple[str, _TaskValue]] = {
    "numRecordsIn": ("Records taken from the input; of a source, records read.", lambda m, r: m.records_in),
    "numRecordsInPerSecond": ("The same per second.", lambda m, r: r.records_in),
    "numRecordsOut": ("Records sent to other tasks, over all edges.", lambda m, r: m.records_out),
    "numRecordsOutPerSecond": ("The same per second.", lambda m, r: r.records_out),
    "numBytesIn": ("Bytes consumed from the input.", lambda m, r: m.bytes_in),
    "numBytesInPerSecond": ("The same per second.", lambda m, r: r.bytes_in),
    "numBytesOut": ("Bytes sent to other tasks.", lambda m, r: m.bytes_out),
    "numBytesOutPerSecond": ("The same per second.", lambda m, r: r.bytes_out),
    "busyTimeMsPerSecond": ("Milliseconds of a second in which it worked.", lambda m, r: r.busy_ms),
    "backPressuredTimeMsPerSecond": (
        "Milliseconds of a second in which it had input and no credit to send.",
        lambda m, r: r.backpressured_ms,
    ),
    "idleTimeMsPerSecond": (
        "Milliseconds of a second in which it had nothing to do.",
        lambda m, r: r.idle_ms,
    ),
    "accumulateBusyTimeMs": ("Time in which it worked, in this attempt.", lambda m, r: m.busy_ms),
    "accumulateBackPressuredTimeMs": (
        "Time in which it had input and no credit, in this attempt.",
        lambda m, r: m.backpressured_ms,
    ),
    "accumulateIdleTimeMs": ("Time in which it had nothing to do, in this attempt.", lambda m, r: m.idle_ms),
    "inputQueueSize": ("Bytes that wait in the input gate.", lambda m, r: m.input_bytes),
    "outputQueueSize": ("Bytes sent that the receivers have not consumed.", lambda m, r: m.output_bytes),
    "stateSize": ("Bytes of its state in the last snapshot.", lambda m, r: m.state_bytes),
    "numRegisteredTimers": ("Registered timers.", lambda m, r: m.timers),
    "numLateRecordsDropped": ("Records that came too late and were dropped.", lambda m, r: m.late_records),
}
"""What there is of every subtask, by Flink's name: what it says, and where it comes from."""

CURRENT_INPUT_WATERMARK = "currentInputWatermark"
WATERMARK_LAG = "watermarkLag"
WATERMARK_METRICS = {
    CURRENT_INPUT_WATERMARK: "The watermark of the input, in milliseconds since the Unix epoch.",
    WATERMARK_LAG: "How far that is behind the clock of the coordinator, in milliseconds.",
}

_CHECKPOINT_METRICS: dict[str, tuple[str, _CheckpointValue]] = {
    "lastCompletedCheckpointId": ("Id of the last completed checkpoint.", lambda c: c.checkpoint_id),
    "lastCheckpointDuration": (
        "How long the last completed checkpoint took, in ms.",
        lambda c: c.duration_ms,
    ),
    "lastCheckpointSize": ("Bytes that it added to storage.", lambda c: c.new_bytes),
    "lastCheckpointFullSize": ("Bytes of all state that it refers to.", lambda c: c.size_bytes),
    "lastCheckpointProcessedData": (
        "Bytes that were processed between its first barriers and its last.",
        lambda c: c.processed_bytes,
    ),
    "lastCheckpointPersistedData": (
        "Bytes of records under way that were stored with it.",
        lambda c: c.persisted_bytes,
    ),
}

_HISTORY_METRICS: dict[str, tuple[str, _HistoryValue]] = {
    "numberOfCompletedCheckpoints": (
        "Checkpoints and savepoints that completed.",
        lambda s: s.counts[CheckpointOutcome.COMPLETED],
    ),
    "numberOfFailedCheckpoints": (
        "Checkpoints and savepoints that were aborted.",
        lambda s: s.counts[CheckpointOutcome.ABORTED],
    ),
    "numberOfInProgressCheckpoints": ("Those under way.", lambda s: len(s.in_progress)),
    "totalNumberOfCheckpoints": (
        "All that were triggered.",
        lambda s: sum(s.counts.values()) + len(s.in_progress),
    ),
    "lastCheckpointRestoreTimestamp": (
        "When the job was last restored, in milliseconds since the Unix epoch.",
        lambda s: None if s.latest_restored is None else s.latest_restored.restored_ms,
    ),
}

_STATUS_METRICS = {
    "numRestarts": "How often the job was restarted.",
    "uptime": "Milliseconds since all subtasks began to run; 0 while they do not.",
    "runningState": "1 while the job is RUNNING, else 0.",
}

JOB_METRICS = {
    **_STATUS_METRICS,
    **{name: text for name, (text, _) in [*_CHECKPOINT_METRICS.items(), *_HISTORY_METRICS.items()]},
}
"""What there is of the job as a whole, by Flink's name: what it says."""


class JobMetricFamilies:
    """Puts the metrics of one job together when somebody asks; from any thread.

    Args:
        job: The coordinator of the job.
    """

    def __init__(self, job: JobCoordinator) -> None:
        self._job = job
        self._told: set[str] = set()

    def take(self) -> list[MetricFamily]:
        """All families as of now. What is not known yet has no sample."""
        families, job = MetricFamilies(), self._job
        labels = {"job_id": str(job.spec.job_id), "job_name": job.job_name}
        now_ms = job.now_ms
        self._add_status(families, labels, now_ms)
        _add_checkpoints(families, labels, job.statistics)
        taken = [(subtask, job.metrics.of(subtask_id)) for subtask_id, subtask in job.subtasks.items()]
        stages = reports_by_stage(stage for _, sample in taken for stage in sample.metrics.stages)
        of_subtask = {**labels, "task_attempt_num": str(job.statistics.restarts)}
        for subtask, sample in taken:
            if sample.taken_ms:
                _add_subtask(families, of_subtask, subtask, sample, now_ms, stages)
        self._tell_of(families.doubled)
        return families.all()

    def _add_status(self, families: MetricFamilies, labels: Labels, now_ms: int) -> None:
        job = self._job
        is_running = job.status is JobStatus.RUNNING
        since_ms = job.running_since_ms
        values = {
            "numRestarts": job.statistics.restarts,
            "uptime": max(0, now_ms - since_ms) if is_running and since_ms is not None else 0,
            "runningState": int(is_running),
        }
        for name, text in _STATUS_METRICS.items():
            families.add((*JOB_SCOPE, name), text, labels, values[name])

    def _tell_of(self, doubled: list[str]) -> None:
        for name in doubled:
            if name not in self._told:
                self._told.add(name)
                logger.warning(
                    "Two metrics of one function are both called %s for Prometheus, which only allows "
                    "letters, digits and underscores; the second is left out. Give one another name",
                    name,
                )


def _add_checkpoints(families: MetricFamilies, labels: Labels, statistics: JobStatistics) -> None:
    last = statistics.latest_completed
    if last is not None:
        for name, (text, value_of) in _CHECKPOINT_METRICS.items():
            families.add((*JOB_SCOPE, name), text, labels, value_of(last))
    for name, (text, of_history) in _HISTORY_METRICS.items():
        value = of_history(statistics)
        if value is not None:
            families.add((*JOB_SCOPE, name), text, labels, value)


def _add_subtask(
    families: MetricFamilies,
    of_job: Labels,
    subtask: Subtask,
    sample: SubtaskSample,
    now_ms: int,
    stages: Mapping[str, Sequence[StageReport]],
) -> None:
    subtask_id, metrics = subtask.subtask_id, sample.metrics
    labels = {
        **of_job,
        "host": sample.host,
        "task_id": subtask_id.task_id,
        "task_name": subtask.task.name,
        "subtask_index": str(subtask_id.index),
    }
    for name, (text, value_of) in TASK_METRICS.items():
        value = value_of(metrics, sample.rates)
        if value is not None:
            families.add((*TASK_SCOPE, name), text, labels, value)
    # Neither before the first watermark nor after the end of the input is there a time to show.
    watermark_ms = metrics.watermark_ms
    if watermark_ms is not None and watermark_ms != MAX_WATERMARK_MS:
        for name, at_ms in ((CURRENT_INPUT_WATERMARK, watermark_ms), (WATERMARK_LAG, now_ms - watermark_ms)):
            families.add((*TASK_SCOPE, name), WATERMARK_METRICS[name], labels, at_ms)
    for stage in metrics.stages:
        _add_stage(families, labels, stage, stages[stage.operator_uid])
    for key, value_of_user in metrics.user.items():
        scope = metrics.scopes[key]
        place = {**labels, "operator_id": scope.operator_uid, "operator_name": scope.operator_name}
        families.add_of_user((*OPERATOR_SCOPE, *scope.path), place, scope.labels, value_of_user)


def _add_stage(
    families: MetricFamilies, of_subtask: Labels, stage: StageReport, of_stage: Sequence[StageReport]
) -> None:
    labels = {**of_subtask, "operator_id": stage.operator_uid, "operator_name": stage.operator_name}
    for name, value in stage_values(stage, of_stage).items():
        families.add((*OPERATOR_SCOPE, name), STAGE_METRICS[name][0], labels, value)
