"""Takes a task's snapshots: freeze on the loop, persist off it, acknowledge or decline."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..common import failpoints
from ..common.errors import StateError
from ..operators.chain import OperatorChain
from ..protocol.abort_reasons import AbortReason
from ..protocol.checkpoint_events import (
    Acknowledgement,
    SubtaskAcknowledged,
    SubtaskDeclined,
    SubtaskMetrics,
)
from ..protocol.elements import CheckpointBarrier
from ..protocol.handles import OperatorSnapshot
from ..protocol.task_events import SpansRecorded
from ..state.backend import FrozenKeyedState
from ..telemetry import AttributeValue, FinishedSpan, create_tracer
from ..telemetry.spans import (
    ALIGNMENT,
    ASYNC_PART,
    CHECKPOINT_ID,
    JOB_ATTEMPT,
    JOB_ID,
    OPERATOR_NAME,
    OPERATOR_UID,
    STATE_SIZE_BYTES,
    SUBTASK_INDEX,
    SYNC_PART,
)
from .ports import TaskDeployment, TaskPorts

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotTimes:
    """When the parts of one snapshot began and ended, in wall-clock nanoseconds."""

    alignment_started: int
    sync_started: int
    sync_ended: int
    async_ended: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """The asynchronous part ended; mailed back to the task's loop."""

    barrier: CheckpointBarrier
    times: SnapshotTimes
    snapshots: dict[str, OperatorSnapshot] | None
    error: str | None = None


class Snapshotter:
    """Runs the snapshots of one subtask.

    Args:
        mail: Puts a mail into the task's own mailbox, from any thread.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        ports: TaskPorts,
        chain: OperatorChain,
        mail: Callable[[SnapshotDone], None],
    ) -> None:
        self._deployment = deployment
        self._ports = ports
        self._chain = chain
        self._mail = mail

    def start(self, barrier: CheckpointBarrier, alignment_started_ms: int) -> None:
        """Freeze now and persist in the background. A failure to freeze declines the checkpoint."""
        sync_started = self._ports.now_ns()
        aligned_from = min(alignment_started_ms * 1_000_000, sync_started)
        try:
            failpoints.reach("snapshot_sync")
            frozen = self._chain.snapshot_state(barrier)
        except Exception as error:
            times = SnapshotTimes(aligned_from, sync_started, self._ports.now_ns())
            self._decline(barrier, times, f"{type(error).__name__}: {error}", AbortReason.SYNC_FAILED)
            return
        times = SnapshotTimes(aligned_from, sync_started, self._ports.now_ns())

        def persist() -> None:
            snapshots, problem = None, None
            self._enter()
            try:
                failpoints.reach("snapshot_async")
                snapshots = {uid: operator.persist() for uid, operator in frozen.items()}
                self._check_sizes(snapshots)
            except Exception as error:
                snapshots, problem = None, f"{type(error).__name__}: {error}"
            finally:
                # Dropped here, so that a large buffer is not freed on the task's loop.
                frozen.clear()
            ended = replace(times, async_ended=self._ports.now_ns())
            self._mail(SnapshotDone(barrier, ended, snapshots, problem))

        self._ports.run_in_background(persist)

    def _enter(self) -> None:
        """This thread works for the subtask now."""
        subtask = self._deployment.subtask
        failpoints.enter([node.uid for node in subtask.task.nodes], subtask.subtask_id.index)

    def _check_sizes(self, snapshots: Mapping[str, OperatorSnapshot]) -> None:
        limit = self._deployment.settings.max_inline_state_bytes
        if limit is None:
            return
        for node in self._deployment.subtask.task.nodes:
            snapshot = snapshots[node.uid]
            files = [(segment.state_name, segment.file) for segment in snapshot.keyed.segments]
            files += [(handle.state_name, part.file) for handle in snapshot.lists for part in handle.parts]
            for state_name, file in files:
                if file.size_bytes > limit:
                    raise StateError(
                        f"operator {node.name!r}, subtask {self._deployment.subtask_id.index}: state "
                        f"{state_name!r} takes {file.size_bytes} bytes in the snapshot, more than the "
                        f"max_state_size of {limit} bytes that may pass through the coordinator; use the "
                        f"FileSystemStateBackend (state.backend.type: filesystem) or the "
                        f"LmdbStateBackend, or raise max_state_size"
                    )

    def persist_spill(self, frozen: FrozenKeyedState) -> None:
        """Persist a write buffer that grew too large between checkpoints.

        A failure is not lost: the buffer stays frozen, and the next snapshot persists it or declines.
        """

        def persist() -> None:
            self._enter()
            try:
                frozen.persist()
            except Exception:
                logger.exception("A spill of keyed state failed; the next snapshot tries again")

        self._ports.run_in_background(persist)

    def finish(self, done: SnapshotDone) -> None:
        """Acknowledge or decline; runs on the loop."""
        if done.snapshots is None:
            cause = done.error or "unknown error"
            self._decline(done.barrier, done.times, cause, AbortReason.ASYNC_FAILED)
            return
        size_bytes = sum(snapshot.size_bytes for snapshot in done.snapshots.values())
        self._report_spans(done.barrier, done.times, size_bytes, None)
        failpoints.reach("acknowledge")
        self._ports.report(
            SubtaskAcknowledged(
                self._deployment.attempt,
                self._deployment.subtask_id,
                done.barrier.checkpoint_id,
                Acknowledgement(done.snapshots, _metrics(done, size_bytes)),
            )
        )

    def _decline(
        self, barrier: CheckpointBarrier, times: SnapshotTimes, cause: str, reason: AbortReason
    ) -> None:
        name = self._deployment.subtask.task.name
        self._report_spans(barrier, times, 0, cause)
        self._ports.report(
            SubtaskDeclined(
                self._deployment.attempt,
                self._deployment.subtask_id,
                barrier.checkpoint_id,
                f"task {name!r}: {cause}",
                reason,
            )
        )

    def _report_spans(
        self, barrier: CheckpointBarrier, times: SnapshotTimes, size_bytes: int, error: str | None
    ) -> None:
        """Send the spans ahead of the answer, so that they are there when the checkpoint ends."""
        parent = barrier.trace_context
        if parent is None:
            return
        spans: list[FinishedSpan] = []
        tracer = create_tracer("tidegate-task", {"process.pid": os.getpid()}, spans.append)
        attributes = self._attributes(barrier)
        aligned, frozen = times.sync_started, times.sync_ended
        if self._deployment.subtask.inputs:
            tracer.record_span(ALIGNMENT, parent, times.alignment_started, aligned, attributes)
        tracer.record_span(SYNC_PART, parent, aligned, frozen, attributes)
        if times.async_ended:
            attributes[STATE_SIZE_BYTES] = size_bytes
            tracer.record_span(ASYNC_PART, parent, frozen, times.async_ended, attributes, error)
        deployment = self._deployment
        self._ports.report(SpansRecorded(deployment.attempt, deployment.subtask_id, tuple(spans)))

    def _attributes(self, barrier: CheckpointBarrier) -> dict[str, AttributeValue]:
        subtask = self._deployment.subtask
        return {
            JOB_ID: self._deployment.job_id,
            JOB_ATTEMPT: self._deployment.attempt_number,
            CHECKPOINT_ID: barrier.checkpoint_id,
            OPERATOR_NAME: subtask.task.name,
            OPERATOR_UID: subtask.task.head.uid,
            SUBTASK_INDEX: subtask.subtask_id.index,
        }


def _metrics(done: SnapshotDone, size_bytes: int) -> SubtaskMetrics:
    times = done.times
    return SubtaskMetrics(
        start_delay_ms=max(0.0, times.alignment_started / 1e6 - done.barrier.timestamp_ms),
        alignment_ms=(times.sync_started - times.alignment_started) / 1e6,
        sync_ms=(times.sync_ended - times.sync_started) / 1e6,
        async_ms=(times.async_ended - times.sync_ended) / 1e6,
        size_bytes=size_bytes,
    )
