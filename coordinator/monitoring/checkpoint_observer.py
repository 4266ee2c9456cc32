"""Derives statistics, traces and log lines of checkpoints from events and commands; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...protocol.checkpoints import checkpoint as core
from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.elements import SnapshotKind
from ...protocol.event_queue import Decision
from ...protocol.ids import CheckpointId, SubtaskId
from ...protocol.scheduling.execution_graph import ExecutionGraph
from ...protocol.task_events import SpansRecorded
from ...telemetry import logs
from ..spec import JobSpec
from .checkpoint_log import log_end
from .checkpoint_traces import CheckpointTraces
from .statistics import CheckpointOutcome, CheckpointStatistics, JobShape, JobStatistics, job_shape
from .stored_statistics import stored_statistics
from .traces import JobTraces

CheckpointDecision = Decision[core.CheckpointEvent, core.CheckpointCommand]


class CheckpointObserver:
    """Of the checkpoints of one coordinator.

    Args:
        spec: The job.
        statistics: Written here; they may hold what earlier coordinators stored.
        traces: The traces of the job.
    """

    def __init__(self, spec: JobSpec, statistics: JobStatistics, traces: JobTraces) -> None:
        self._statistics = statistics
        self._job_traces = traces
        self._traces = CheckpointTraces(traces, statistics)
        self._log_context = logs.LogContext(spec.job_id, spec.job_name)
        self._counted_before = statistics.acknowledgements
        self._graph = ExecutionGraph({}, {})
        self._shape: JobShape = {}
        self._attempt_number = 0
        self._writing: dict[CheckpointId, tuple[CheckpointStatistics, int]] = {}

    def attempt_begins(self, attempt_number: int, graph: ExecutionGraph) -> None:
        """All subtasks of an attempt run."""
        self._attempt_number, self._graph, self._shape = attempt_number, graph, job_shape(graph)

    def log_context(self, checkpoint_id: CheckpointId) -> logs.LogContext:
        """For lines that belong to the trace of a checkpoint."""
        return self._log_context.within(self._traces.context(checkpoint_id))

    def trace_context(self, checkpoint_id: CheckpointId) -> str | None:
        """The W3C traceparent of a checkpoint; `None` if it is not traced."""
        return self._traces.context(checkpoint_id)

    # ------------------------------------------------------------ decisions

    def decided(
        self, decision: CheckpointDecision, counts: Mapping[core.AcknowledgeResult, int], now_ns: int
    ) -> None:
        """An event was handled, and its commands are about to be performed.

        Args:
            decision: The event and its commands.
            counts: The acknowledgements of this coordinator by their results.
            now_ns: The time, in nanoseconds since the Unix epoch.
        """
        self._statistics.acknowledgements = {
            result: before + counts[result] for result, before in self._counted_before.items()
        }
        event = decision.cause.event
        if isinstance(event, core.TasksStopped):
            self._traces.attempt_ended()
        elif isinstance(event, core.ManifestWritten):
            self._completed(event.checkpoint_id, now_ns)
        for command in decision.commands:
            if isinstance(command, core.TriggerSubtasks) and command.is_new:
                self._triggered(command)
            elif isinstance(command, core.RegisterFiles) and command.is_pending:
                self._acknowledged(command, now_ns)
            elif isinstance(command, core.NotifyComplete):
                self._traces.notified(command.checkpoint_id, command.subtasks)
            elif isinstance(command, core.NotifyAborted):
                self._aborted(command, now_ns)

    def _triggered(self, command: core.TriggerSubtasks) -> None:
        barrier, subtask_count = command.barrier, len(self._graph.subtasks)
        self._statistics.started(
            CheckpointStatistics(
                barrier.checkpoint_id,
                CheckpointOutcome.IN_PROGRESS,
                barrier.timestamp_ms,
                0.0,
                kind=barrier.kind,
                subtask_count=subtask_count,
                shape=self._shape,
            )
        )
        self._traces.begin(barrier, self._attempt_number, subtask_count)

    def _acknowledged(self, command: core.RegisterFiles, now_ns: int) -> None:
        known = self._statistics.in_progress.get(command.checkpoint_id)
        if known is None:
            return
        metrics = self._located(
            command.subtask, command.acknowledgement.metrics, now_ns / 1e6 - known.triggered_ms
        )
        self._statistics.acknowledged(command.checkpoint_id, command.subtask, metrics)
        known = self._statistics.in_progress[command.checkpoint_id]
        self._traces.acknowledged(known, command.subtask, metrics, now_ns)

    def _located(
        self, subtask: SubtaskId, metrics: core.SubtaskMetrics, acknowledged_ms: float
    ) -> core.SubtaskMetrics:
        """What a subtask measured, by the coordinator's clock, and whose barrier it waited for."""
        if metrics.taken_ms is None:
            return replace(metrics, acknowledged_ms=acknowledged_ms)
        first_ms = min(metrics.start_delay_ms, metrics.taken_ms - metrics.queued_ms)
        reported_ms = (
            metrics.taken_ms + metrics.prepare_ms + metrics.sync_ms + metrics.async_ms + metrics.report_ms
        )
        skew_ms = self._job_traces.skews.observe(subtask, reported_ms - acknowledged_ms, first_ms)
        index = metrics.last_channel
        upstream = None if index < 0 else self._graph.subtasks[subtask].upstream_of(index)
        return replace(
            metrics,
            start_delay_ms=max(0.0, metrics.start_delay_ms - skew_ms),
            taken_ms=max(0.0, metrics.taken_ms - skew_ms),
            acknowledged_ms=acknowledged_ms,
            skew_ms=skew_ms,
            upstream=upstream,
        )

    # ------------------------------------------------------------ the end of a checkpoint

    def writing(
        self, manifest: CheckpointManifest, before: CheckpointManifest | None, now_ns: int
    ) -> dict[str, Any] | None:
        """A manifest is about to be written.

        Args:
            manifest: What is complete so far.
            before: The newest checkpoint until now.
            now_ns: The time, in nanoseconds since the Unix epoch.

        Returns:
            The history to store in the manifest; `None` in that of a savepoint.
        """
        known = self._statistics.in_progress.get(manifest.checkpoint_id)
        if known is None:
            return None
        old_files = {handle.path for handle in before.files()} if before is not None else set()
        new_files = {h.path: h.size_bytes for h in manifest.files() if h.path not in old_files}
        completed = replace(
            known,
            outcome=CheckpointOutcome.COMPLETED,
            duration_ms=manifest.completed_ms - manifest.triggered_ms,
            size_bytes=manifest.size_bytes,
            new_bytes=sum(new_files.values()),
        )
        self._writing[manifest.checkpoint_id] = completed, now_ns
        if manifest.kind is SnapshotKind.SAVEPOINT:
            return None
        return stored_statistics(self._statistics, completed)

    def _completed(self, checkpoint_id: CheckpointId, now_ns: int) -> None:
        written = self._writing.pop(checkpoint_id, None)
        if written is not None:
            checkpoint, began_ns = written
            self._traces.committed(checkpoint_id, began_ns)
            self._ended(checkpoint, now_ns)

    def _aborted(self, command: core.NotifyAborted, now_ns: int) -> None:
        self._writing.pop(command.checkpoint_id, None)
        known = self._statistics.in_progress.get(command.checkpoint_id)
        if known is None:
            return
        detail = f": {command.cause}" if command.cause else ""
        aborted = replace(
            known,
            outcome=CheckpointOutcome.ABORTED,
            reason=f"{command.reason.value}{detail}",
            abort_reason=command.reason,
        )
        self._ended(aborted, now_ns)

    def _ended(self, checkpoint: CheckpointStatistics, now_ns: int) -> None:
        statistics = replace(checkpoint, duration_ms=now_ns / 1e6 - checkpoint.triggered_ms)
        self._statistics.ended(statistics)
        with logs.entered(self.log_context(checkpoint.checkpoint_id)):
            log_end(statistics)
        self._traces.ended(statistics, now_ns)

    def deleting(self, checkpoint_id: CheckpointId, is_deleting: bool) -> None:
        """What a completed checkpoint subsumed is being deleted, or nothing is."""
        if is_deleting:
            self._traces.cleaning(checkpoint_id)
        self._traces.settled(checkpoint_id)

    def deleted(self, now_ns: int) -> None:
        """A deletion has ended."""
        self._traces.cleaned(now_ns)

    def spans_recorded(self, event: SpansRecorded, now_ns: int) -> None:
        """A task sent spans, which were forwarded."""
        self._traces.heard(event, now_ns)
