"""Everything that a coordinator records about its job for people, in one place.

The coordinator reports events and decisions here; from these come the statistics, the states of subtasks,
the recoveries, the traces and the log. No decision of the coordinator reads any of it: without this object,
checkpoints, restarts and rescales work as well. What it hands back is only passed on: trace contexts, and the
history to store in a manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...common.job_status import JobStatus
from ...protocol import task_events as events
from ...protocol.checkpoints.checkpoint_events import AcknowledgeResult, AnswerRequest, RequestId
from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.ids import Attempt, CheckpointId, SubtaskId
from ...protocol.scheduling.execution_graph import ExecutionGraph, Subtask
from ...protocol.task_metrics import TaskMetrics
from ...telemetry import Tracer
from ...telemetry.spans import RECOVERY, RESCALE
from ..spec import JobSpec
from .checkpoint_observer import CheckpointDecision, CheckpointObserver
from .job_history import Failure, JobHistory
from .job_metrics import JobMetrics
from .recoveries import Recoveries
from .restart_traces import RestartTraces
from .statistics import JobStatistics, RescaleStatistics, RestoredCheckpoint
from .stored_statistics import read_statistics
from .traces import JobTraces

logger = logging.getLogger(__name__)


class JobObserver:
    """What is known of one job.

    Args:
        spec: The job.
        tracer: Where its traces go.
        metrics: What its subtasks measured; they hold the host of each.
        now_ns: The coordinator's clock.
    """

    def __init__(self, spec: JobSpec, tracer: Tracer, metrics: JobMetrics, now_ns: Callable[[], int]) -> None:
        self._spec = spec
        self._now_ns = now_ns
        self.statistics = JobStatistics()
        self.history = JobHistory(metrics)
        self._traces = JobTraces(spec, tracer, now_ns)
        self._restarts = RestartTraces(self._traces)
        self._recoveries = Recoveries(lambda: self.statistics)
        self._checkpoints = CheckpointObserver(spec, self.statistics, self._traces)
        self._subtasks: Mapping[SubtaskId, Subtask] = {}
        self.on_decision: Callable[[CheckpointDecision], None] | None = None
        """Called with every decision about checkpoints, for a log of them."""

    @property
    def _now_ms(self) -> int:
        return self._now_ns() // 1_000_000

    # ------------------------------------------------------------ the job

    def warned(self, text: str) -> None:
        """Something went wrong that does not stop the job."""
        self.statistics.warnings.append(text)

    def started(self) -> None:
        """The coordinator starts."""
        self.history.started(self._now_ms)

    def resumed(self, newest: CheckpointManifest | None, is_first: bool) -> None:
        """The coordinator has read what is stored.

        Args:
            newest: The newest checkpoint, which holds the history that earlier coordinators recorded.
            is_first: Whether no coordinator ran the job before.
        """
        if newest is not None and newest.statistics is not None:
            self.statistics = read_statistics(newest.statistics)
            self._checkpoints = CheckpointObserver(self._spec, self.statistics, self._traces)
        if not is_first:
            self._recoveries.resumed(self._now_ms)

    def attempt_begins(
        self, graph: ExecutionGraph, number: int, restarts: int, restored: CheckpointManifest | None
    ) -> str | None:
        """The subtasks of an attempt are about to be deployed.

        Args:
            graph: The subtasks.
            number: How many attempts this coordinator began before.
            restarts: How often this coordinator restarted the job, without rescales.
            restored: The checkpoint that they start from.

        Returns:
            The W3C traceparent for the subtasks, if this is a restart that is traced.
        """
        self._subtasks = graph.subtasks
        self._recoveries.deployed(restarts)
        self.history.deployed(graph.subtasks, number, self._now_ms)
        self._traces.attempt_begins()
        checkpoint_id = None if restored is None else restored.checkpoint_id
        origin = "the start" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
        text = "The job %s is deployed, restarts: %d, from %s"
        logger.info(text, self._spec.job_name, self.statistics.restarts, origin)
        return self._restarts.deploying(number, len(graph.subtasks), checkpoint_id, self._now_ns())

    def restored(self, manifest: CheckpointManifest, is_own: bool) -> None:
        """An attempt starts from a checkpoint, which the job wrote itself or another one."""
        self.statistics.restored(
            RestoredCheckpoint(manifest.checkpoint_id, manifest.kind, self._now_ms, is_own)
        )

    def running(self, attempt: Attempt, restored: CheckpointManifest | None, is_rescaled: bool) -> None:
        """All subtasks of an attempt run; it began for a rescale or not."""
        logger.info("The job %s runs, with %d subtasks", self._spec.job_name, len(self._subtasks))
        self._restarts.running()
        restored_id = None if restored is None else restored.checkpoint_id
        self._recoveries.running(attempt, restored_id, is_rescaled, self._now_ms)

    def failed(self, failure: Failure) -> None:
        """The job failed, or is restarted for another reason than a rescale."""
        self._recoveries.failed(failure.cause, failure.occurred_ms)
        self.history.failed(failure.cause, failure.details, failure.occurred_ms)

    def restarting(self, cause: str, is_rescale: bool, failed_ms: int | None = None) -> None:
        """The subtasks are about to be stopped, to be started again.

        Args:
            cause: Why, in words.
            is_rescale: Whether for a rescale.
            failed_ms: When the failure occurred that is the cause, from which the delay counts; else `None`.
        """
        began_ns = self._now_ns() if failed_ms is None else failed_ms * 1_000_000
        self._restarts.begin(cause, began_ns, RESCALE if is_rescale else RECOVERY)

    def ending(self, status: JobStatus) -> None:
        """The subtasks are about to be stopped for good."""
        self._restarts.failed(f"the job is {status.name}")

    def stopping(self, subtasks: Collection[SubtaskId]) -> None:
        """These subtasks are asked to stop."""
        self.history.stopping(subtasks, self._now_ms)

    def stopped(self) -> None:
        """No subtask of the attempt runs any more."""
        self._restarts.stopped(self._now_ns())

    def ended(self, status: JobStatus) -> None:
        """The job has ended."""
        logger.info("The job %s is %s", self._spec.job_name, status.name)
        self.history.ended(self._now_ms)

    def rescaled(self, rescale: RescaleStatistics) -> None:
        """A rescale succeeded or failed."""
        self.statistics.rescales.append(rescale)

    # ------------------------------------------------------------ subtasks

    def reported(self, event: events.TaskEvent, is_current: bool) -> None:
        """A task reported something; perhaps one of an earlier attempt."""
        if is_current:
            self.history.saw(event, self._now_ms)
        if isinstance(event, events.SpansRecorded):
            self._traces.forward(event)
            if is_current:
                self._checkpoints.spans_recorded(event, self._now_ns())
        elif isinstance(event, events.TaskFinished) and is_current:
            self.measured({event.subtask: event.metrics})

    def measured(self, metrics: Mapping[SubtaskId, TaskMetrics]) -> None:
        """Subtasks of the current attempt reported their metrics."""
        self._recoveries.measured(metrics, self._subtasks)

    # ------------------------------------------------------------ checkpoints

    def checkpointing(self, attempt_number: int, graph: ExecutionGraph) -> None:
        """All subtasks of an attempt run, and checkpoints may be triggered."""
        self._checkpoints.attempt_begins(attempt_number, graph)

    def requested(self, request: RequestId) -> None:
        """A client requested a checkpoint, a savepoint or a stop."""
        self.statistics.requested(request)

    def answered(self, answer: AnswerRequest) -> None:
        """A request has its answer."""
        self.statistics.answered(answer)

    def decided(self, decision: CheckpointDecision, counts: Mapping[AcknowledgeResult, int]) -> None:
        """See `CheckpointObserver.decided`."""
        self._checkpoints.decided(decision, counts, self._now_ns())
        if self.on_decision is not None:
            self.on_decision(decision)

    def writing(
        self, manifest: CheckpointManifest, before: CheckpointManifest | None
    ) -> dict[str, Any] | None:
        """See `CheckpointObserver.writing`."""
        return self._checkpoints.writing(manifest, before, self._now_ns())

    def deleting(self, checkpoint_id: CheckpointId, is_deleting: bool) -> None:
        """What a completed checkpoint subsumed is being deleted, or nothing is."""
        self._checkpoints.deleting(checkpoint_id, is_deleting)

    def deleted(self) -> None:
        """A deletion has ended."""
        self._checkpoints.deleted(self._now_ns())

    def trace_context(self, checkpoint_id: CheckpointId) -> str | None:
        """The W3C traceparent of a checkpoint; `None` if it is not traced."""
        return self._checkpoints.trace_context(checkpoint_id)
