"""The spans of one subtask: measured here, sent to the coordinator, which exports them."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ...operators.base import Work
from ...protocol.elements import CheckpointBarrier
from ...protocol.ids import CheckpointId
from ...protocol.stages.stage_reports import StageReport
from ...protocol.task_events import SpansRecorded
from ...telemetry import AttributeValue, FinishedSpan, Tracer, create_tracer
from ...telemetry.spans import (
    ALIGNMENT,
    ALIGNMENT_BUSY_MS,
    ALIGNMENT_CHANNEL,
    ALIGNMENT_PROCESSED_BYTES,
    ALIGNMENT_QUEUED_MS,
    ASYNC_PART,
    CHECKPOINT_ID,
    EPOCHS_BUFFERED_BYTES,
    EPOCHS_IN_FLIGHT,
    INITIALIZE,
    JOB_ATTEMPT,
    JOB_ID,
    NOTIFY,
    OPEN,
    OPERATOR_NAME,
    OPERATOR_UID,
    PREPARE,
    RESTORE,
    RESTORED_BYTES,
    START_DELAY,
    STATE_SIZE_BYTES,
    SUBTASK_INDEX,
    SYNC_PART,
    UPLOAD,
)
from ..checkpoints.barrier_arrivals import BarrierArrival
from ..ports import TaskDeployment, TaskPorts

MAX_WORKS = 100
"""How many pieces of work are kept for the next checkpoint; of more, the oldest are not in its trace."""

_SHORTEST_NS = 50_000
"""Operators that let a barrier pass at once did not prepare anything."""


@dataclass(frozen=True, slots=True)
class SnapshotTimes:
    """When the parts of one snapshot began and ended, in wall-clock nanoseconds, and its epochs."""

    arrival: BarrierArrival
    sync_started: int
    sync_ended: int
    async_ended: int = 0
    alignment_ended: int = 0
    """When the last barrier came, where the first one overtook; 0 where the snapshot began with that."""
    stored_from: int = 0
    """When the thread that stores snapshots began with this one."""
    uploading: int = 0
    """How much of the time after that went to writing to checkpoint storage."""
    stages: tuple[StageReport, ...] = ()
    """The epochs of its stages when the snapshot was taken."""

    @property
    def last_barrier(self) -> int:
        """When the barrier had come on every channel."""
        return self.alignment_ended or self.arrival.taken_ns


@dataclass(frozen=True, slots=True)
class InitializeTimes:
    """When the parts of a task's start began and ended, in wall-clock nanoseconds."""

    started: int
    assembled: int
    restored: int
    opened: int


class TaskSpans:
    """Records what a subtask did for a checkpoint or a restart; nothing where nobody traces that."""

    def __init__(self, deployment: TaskDeployment, ports: TaskPorts) -> None:
        self._deployment = deployment
        self._ports = ports
        self._works: deque[Work] = deque(maxlen=MAX_WORKS)

    def work(self, work: Work) -> None:
        """An operator did something worth a span in the trace of the next checkpoint."""
        self._works.append(work)

    def snapshot(
        self,
        barrier: CheckpointBarrier,
        times: SnapshotTimes,
        size_bytes: int,
        processed_bytes: int,
        error: str | None,
    ) -> None:
        """The parts of a snapshot. Sent ahead of the answer: the checkpoint may end with that."""
        works, parent = list(self._works), barrier.trace_context
        self._works.clear()
        if parent is None:
            return
        spans, tracer = self._recorder()
        arrival = times.arrival
        attributes = {**self._attributes(), CHECKPOINT_ID: barrier.checkpoint_id}
        triggered = min(barrier.timestamp_ms * 1_000_000, arrival.first_ns)
        tracer.record_span(START_DELAY, parent, triggered, arrival.first_ns, attributes)
        if self._deployment.subtask.incoming:
            waited = {
                ALIGNMENT_CHANNEL: arrival.channel,
                ALIGNMENT_QUEUED_MS: arrival.queued_ns / 1e6,
                ALIGNMENT_BUSY_MS: arrival.busy_ns / 1e6,
                ALIGNMENT_PROCESSED_BYTES: processed_bytes,
            }
            last = times.last_barrier
            tracer.record_span(ALIGNMENT, parent, arrival.first_ns, last, {**attributes, **waited})
        prepared = None
        if works or times.sync_started - arrival.taken_ns >= _SHORTEST_NS:
            began = min([arrival.taken_ns, *(work.started_ns for work in works)])
            prepared = tracer.record_span(PREPARE, parent, began, times.sync_started, attributes)
        self._record_works(tracer, prepared, works, attributes)
        with_epochs = {**attributes, **_epochs(times.stages)}
        tracer.record_span(SYNC_PART, parent, times.sync_started, times.sync_ended, with_epochs)
        if times.async_ended:
            attributes[STATE_SIZE_BYTES] = size_bytes
            stored = tracer.record_span(
                ASYNC_PART, parent, times.sync_ended, times.async_ended, attributes, error
            )
            if times.uploading:
                # Several files perhaps, and encoding between them: its length is right, its place is not.
                began = times.async_ended - times.uploading
                tracer.record_span(UPLOAD, stored, began, times.async_ended, attributes)
        self._report(spans)

    def _record_works(
        self,
        tracer: Tracer,
        parent: str | None,
        works: list[Work],
        attributes: dict[str, AttributeValue],
    ) -> None:
        for work in works:
            own = tracer.record_span(
                work.name, parent, work.started_ns, work.ended_ns, {**attributes, **work.attributes}
            )
            self._record_works(tracer, own, list(work.parts), attributes)

    def notified(self, checkpoint_id: CheckpointId, parent: str | None, started_ns: int) -> None:
        """The operators have dealt with the completion of a checkpoint."""
        if parent is None:
            return
        spans, tracer = self._recorder()
        attributes = {**self._attributes(), CHECKPOINT_ID: checkpoint_id}
        tracer.record_span(NOTIFY, parent, started_ns, self._ports.now_ns(), attributes)
        self._report(spans, checkpoint_id)

    def initialized(self, times: InitializeTimes) -> None:
        """The task is ready to run again."""
        parent = self._deployment.trace_context
        if parent is None:
            return
        spans, tracer = self._recorder()
        attributes = self._attributes()
        whole = tracer.record_span(INITIALIZE, parent, times.started, times.opened, attributes)
        restored = self._deployment.restored or {}
        size_bytes = sum(snapshot.size_bytes for snapshot in restored.values())
        with_size = {**attributes, RESTORED_BYTES: size_bytes}
        tracer.record_span(RESTORE, whole, times.assembled, times.restored, with_size)
        tracer.record_span(OPEN, whole, times.restored, times.opened, attributes)
        self._report(spans)

    def _recorder(self) -> tuple[list[FinishedSpan], Tracer]:
        spans: list[FinishedSpan] = []
        process: dict[str, AttributeValue] = {"host.name": socket.gethostname(), "process.pid": os.getpid()}
        return spans, create_tracer("tidegate-task", process, spans.append)

    def _report(self, spans: list[FinishedSpan], notified: CheckpointId | None = None) -> None:
        deployment = self._deployment
        self._ports.report(SpansRecorded(deployment.attempt, deployment.subtask_id, tuple(spans), notified))

    def _attributes(self) -> dict[str, AttributeValue]:
        subtask = self._deployment.subtask
        return {
            JOB_ID: self._deployment.job_id,
            JOB_ATTEMPT: self._deployment.attempt_number,
            OPERATOR_NAME: subtask.task.name,
            OPERATOR_UID: subtask.task.head.uid,
            SUBTASK_INDEX: subtask.subtask_id.index,
        }


def _epochs(stages: Sequence[StageReport]) -> dict[str, AttributeValue]:
    """Attributes of a snapshot with stages in it."""
    if not stages:
        return {}
    in_flight = tuple(
        f"{stage.operator_name} epoch {each.number} {each.phase.name.lower()}: {each.records} records, "
        f"{each.size_bytes} bytes"
        for stage in stages
        for each in stage.epochs
    )
    buffered_bytes = sum(stage.buffered_bytes for stage in stages)
    return {EPOCHS_IN_FLIGHT: in_flight, EPOCHS_BUFFERED_BYTES: buffered_bytes}
