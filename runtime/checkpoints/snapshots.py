"""Takes a task's snapshots: freeze on the loop, persist off it, acknowledge or decline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace

from ...common import failpoints
from ...common.errors import StateError, TidegateError
from ...operators.chain import OperatorChain
from ...protocol.checkpoints.abort_reasons import AbortReason
from ...protocol.checkpoints.checkpoint_events import (
    Acknowledgement,
    StoredSavepoint,
    SubtaskAcknowledged,
    SubtaskDeclined,
    SubtaskMetrics,
)
from ...protocol.checkpoints.handles import ChannelStateHandle, FileHandle, OperatorSnapshot
from ...protocol.elements import CheckpointBarrier
from ...protocol.ids import CheckpointId
from ...protocol.key_groups import key_group_range_of_subtask
from ...state.backend import BackendClosedError, FrozenKeyedState
from ...state.storage.local_snapshots import LocalSnapshots
from ...state.storage.upload_time import count_uploads_from_now, uploading_ns
from ...state.ttl.expiration import Expiration
from ...telemetry import logs
from ..gate import RecordedMessage
from ..local_dirs import as_file_name
from ..ports import TaskDeployment, TaskPorts
from ..tasks.task_spans import SnapshotTimes, TaskSpans
from .barrier_arrivals import BarrierArrival
from .channel_state import ChannelStateWriter

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """The asynchronous part ended; mailed back to the task's loop."""

    barrier: CheckpointBarrier
    times: SnapshotTimes
    snapshots: dict[str, OperatorSnapshot] | None
    error: str | None = None
    processed_bytes: int = 0
    """What was processed between the first barrier and the last."""
    savepoint: StoredSavepoint | None = None


@dataclass(slots=True)
class _Recording:
    """What is known of a checkpoint whose barrier overtook records."""

    state: SnapshotDone | None = None
    ended_ns: int = 0
    processed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ChannelStateDone:
    """The records that a barrier overtook are stored; mailed back to the task's loop."""

    checkpoint_id: CheckpointId
    handle: ChannelStateHandle | None
    ended_ns: int
    error: str | None = None


class Snapshotter:
    """Runs the snapshots of one subtask.

    Where a barrier overtook records, two parts are awaited before the acknowledgement: the state, and the
    records, which are complete only when the barrier has arrived in every channel.

    Args:
        mail: Puts a mail into the task's own mailbox, from any thread.
        copies: Where copies of what is stored stay on this machine, or `None` for no copies.
        spans: Takes when the parts of a snapshot were.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        ports: TaskPorts,
        chain: OperatorChain,
        mail: Callable[[SnapshotDone | ChannelStateDone], None],
        copies: LocalSnapshots | None,
        spans: TaskSpans,
    ) -> None:
        self._deployment = deployment
        self._spans = spans
        self._ports = ports
        self._chain = chain
        self._mail = mail
        self._copies = copies
        self._channel_state = ChannelStateWriter(deployment)
        self._recording: dict[CheckpointId, _Recording] = {}
        self._spill_failure: type[Exception] | None = None
        self.state_bytes = _restored_bytes(deployment)
        """Size of all state in the last snapshot, or in the restored one; `None` before the first."""

    def start(self, barrier: CheckpointBarrier, arrival: BarrierArrival, processed_bytes: int = 0) -> None:
        """Freeze now and persist in the background. A failure to freeze declines the checkpoint.

        Args:
            barrier: The checkpoint.
            arrival: How it came.
            processed_bytes: What was processed since its first barrier.
        """
        sync_started = self._ports.now_ns()
        try:
            failpoints.reach("snapshot_sync")
            frozen = self._chain.snapshot_state(barrier)
        except Exception as error:
            times = SnapshotTimes(arrival, sync_started, self._ports.now_ns())
            self._recording.pop(barrier.checkpoint_id, None)
            self._decline(barrier, times, f"{type(error).__name__}: {error}", AbortReason.SYNC_FAILED)
            return
        stages = self._chain.stage_reports()
        times = SnapshotTimes(arrival, sync_started, self._ports.now_ns(), stages=stages)

        def persist() -> None:
            snapshots, problem, savepoint = None, None, None
            stored_from = self._ports.now_ns()
            count_uploads_from_now(self._ports.now_ns)
            self._enter(barrier)
            try:
                failpoints.reach("snapshot_async")
                snapshots = {uid: operator.persist() for uid, operator in frozen.items()}
                self._check_sizes(snapshots)
                expirations = {uid: operator.expiration for uid, operator in frozen.items()}
                savepoint = self._savepoint(barrier, snapshots, expirations)
            except Exception as error:
                snapshots, problem = None, f"{type(error).__name__}: {error}"
            finally:
                # Dropped here, so that a large buffer is not freed on the task's loop.
                frozen.clear()
            ended = replace(
                times,
                async_ended=self._ports.now_ns(),
                stored_from=stored_from,
                uploading=uploading_ns(),
            )
            self._mail(SnapshotDone(barrier, ended, snapshots, problem, processed_bytes, savepoint))

        if barrier.savepoint is None and all(operator.is_trivial for operator in frozen.values()):
            # Waking a thread, and being woken by it, would be all there is to wait for.
            persist()
        else:
            self._ports.run_in_background(persist)

    def _savepoint(
        self,
        barrier: CheckpointBarrier,
        snapshots: Mapping[str, OperatorSnapshot],
        expirations: Mapping[str, Expiration],
    ) -> StoredSavepoint | None:
        target, deployment = barrier.savepoint, self._deployment
        if target is None:
            return None
        assert deployment.settings.storage is not None
        # Here and not above: most tasks never write one.
        from ...state.snapshots.savepoint_writer import SavepointWriter

        writer, index = SavepointWriter(target, deployment.settings.storage), deployment.subtask_id.index
        stored = {}
        for node in deployment.subtask.task.nodes:
            key_groups = key_group_range_of_subtask(index, node.max_parallelism, node.parallelism)
            directory, expiration = as_file_name(node.uid), expirations[node.uid]
            stored[node.uid] = writer.write(snapshots[node.uid], directory, index, key_groups, expiration)
        return StoredSavepoint(target.directory, stored)

    def _enter(self, barrier: CheckpointBarrier | None = None) -> None:
        """This thread works for the subtask now, and for a checkpoint."""
        trace = None if barrier is None else barrier.trace_context
        logs.enter(self._deployment.log_context.within(trace))
        subtask = self._deployment.subtask
        failpoints.enter([node.uid for node in subtask.task.nodes], subtask.subtask_id.index)

    def _check_sizes(self, snapshots: Mapping[str, OperatorSnapshot]) -> None:
        for node in self._deployment.subtask.task.nodes:
            snapshot = snapshots[node.uid]
            files = [(segment.state_name, segment.file) for segment in snapshot.keyed.segments]
            files += [(handle.state_name, part.file) for handle in snapshot.lists for part in handle.parts]
            for state_name, file in files:
                self._check_size(node.name, f"state {state_name!r}", file)

    def _check_size(self, operator_name: str, what: str, file: FileHandle) -> None:
        limit = self._deployment.settings.max_inline_state_bytes
        if limit is not None and file.size_bytes > limit:
            raise StateError(
                f"operator {operator_name!r}, subtask {self._deployment.subtask_id.index}: {what} takes "
                f"{file.size_bytes} bytes in the snapshot, more than the max_state_size of {limit} bytes "
                f"that may pass through the coordinator; use the FileSystemStateBackend "
                f"(state.backend.type: filesystem) or the LmdbStateBackend, or raise max_state_size"
            )

    def persist_spill(self, frozen: FrozenKeyedState) -> None:
        """Persist a write buffer that grew too large between checkpoints.

        A failure is not lost: the buffer stays frozen, and the next snapshot or spill persists it. One that
        comes again is logged once.
        """

        def persist() -> None:
            self._enter()
            try:
                frozen.persist()
                self._spill_failure = None
            except (BackendClosedError, CancelledError):
                # The task has ended, for a reason that it reports.
                return
            except Exception as error:
                self._log_spill_failure(error)

        self._ports.run_in_background(persist)

    def _log_spill_failure(self, error: Exception) -> None:
        """Log what kept a spill from being stored, unless that was logged before."""
        kind = type(error)
        if kind is self._spill_failure:
            return
        self._spill_failure = kind
        logger.warning(
            "Changed state could not be moved to local disk, so it stays in memory. The next spill or "
            "checkpoint tries again, and the task fails when its memory is full. %s: %s",
            kind.__name__,
            error,
            # The place in the code says something only about what is not expected.
            exc_info=None if isinstance(error, TidegateError) else error,
        )

    def finish(self, done: SnapshotDone) -> None:
        """The state is stored: acknowledge or decline, unless records are still to come. Runs on the loop."""
        recording = self._recording.get(done.barrier.checkpoint_id)
        if recording is not None:
            recording.state = done
        elif done.snapshots is None:
            cause = done.error or "unknown error"
            self._decline(done.barrier, done.times, cause, AbortReason.ASYNC_FAILED)
        else:
            self._acknowledge(done, done.snapshots)

    def _acknowledge(
        self, done: SnapshotDone, snapshots: dict[str, OperatorSnapshot], persisted_bytes: int = 0
    ) -> None:
        if self._copies is not None:
            files = (file for snapshot in snapshots.values() for file in snapshot.files())
            self._copies.acknowledged(done.barrier.checkpoint_id, files)
        size_bytes = sum(snapshot.size_bytes for snapshot in snapshots.values())
        self.state_bytes = size_bytes or None
        self._spans.snapshot(done.barrier, done.times, size_bytes, done.processed_bytes, None)
        metrics = _metrics(done, size_bytes, persisted_bytes, self._ports.now_ns())
        failpoints.reach("acknowledge")
        self._ports.report(
            SubtaskAcknowledged(
                self._deployment.attempt,
                self._deployment.subtask_id,
                done.barrier.checkpoint_id,
                Acknowledgement(snapshots, metrics, done.savepoint),
            )
        )

    def confirmed(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete: of older ones no copies are needed."""
        copies = self._copies
        if copies is not None:
            self._ports.run_in_background(lambda: copies.confirmed(checkpoint_id))

    # ------------------------------------------------------------ records that a barrier overtook

    def expect_records(self, checkpoint_id: CheckpointId) -> None:
        """Acknowledge this checkpoint only when its records are stored too; before `start`."""
        self._recording[checkpoint_id] = _Recording()

    def store_records(
        self,
        checkpoint_id: CheckpointId,
        recorded: Mapping[int, Sequence[RecordedMessage]],
        processed_bytes: int,
    ) -> None:
        """All records are here: store them in the background."""
        recording = self._recording.get(checkpoint_id)
        if recording is None:
            # The state could not be frozen: declined.
            return
        recording.ended_ns, recording.processed_bytes = self._ports.now_ns(), processed_bytes

        def persist() -> None:
            handle, problem = None, None
            self._enter()
            try:
                handle = self._channel_state.write(checkpoint_id, recorded)
                if handle is not None:
                    head = self._deployment.subtask.task.head
                    self._check_size(head.name, "what is under way to it", handle.file)
            except Exception as error:
                handle, problem = None, f"{type(error).__name__}: {error}"
            self._mail(ChannelStateDone(checkpoint_id, handle, self._ports.now_ns(), problem))

        self._ports.run_in_background(persist)

    def forget_records(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint is given up. What it stored is still reported, so that somebody deletes it."""
        recording = self._recording.pop(checkpoint_id, None)
        if recording is not None and recording.state is not None:
            self.finish(recording.state)

    def finish_records(self, done: ChannelStateDone) -> None:
        """The records are stored, and before them the state: acknowledge or decline. Runs on the loop."""
        recording = self._recording.pop(done.checkpoint_id, None)
        if recording is None or recording.state is None:
            return
        state = recording.state
        times = replace(state.times, async_ended=done.ended_ns, alignment_ended=recording.ended_ns)
        state = replace(state, times=times, processed_bytes=recording.processed_bytes)
        if state.snapshots is None:
            self.finish(state)
        elif done.error is not None:
            self._decline(state.barrier, times, done.error, AbortReason.CHANNEL_STATE_FAILED)
            # Too late to count; but the coordinator has to know of the files.
            self.finish(state)
        else:
            head = self._deployment.subtask.task.head.uid
            snapshots = {**state.snapshots, head: replace(state.snapshots[head], channels=done.handle)}
            persisted_bytes = 0 if done.handle is None else done.handle.file.size_bytes
            self._acknowledge(state, snapshots, persisted_bytes)

    # ------------------------------------------------------------ answers

    def _decline(
        self, barrier: CheckpointBarrier, times: SnapshotTimes, cause: str, reason: AbortReason
    ) -> None:
        name = self._deployment.subtask.task.name
        self._spans.snapshot(barrier, times, 0, 0, cause)
        self._ports.report(
            SubtaskDeclined(
                self._deployment.attempt,
                self._deployment.subtask_id,
                barrier.checkpoint_id,
                f"task {name!r}: {cause}",
                reason,
            )
        )


def _restored_bytes(deployment: TaskDeployment) -> int | None:
    if deployment.restored is None:
        return None
    return sum(snapshot.size_bytes for snapshot in deployment.restored.values()) or None


def _metrics(done: SnapshotDone, size_bytes: int, persisted_bytes: int, now_ns: int) -> SubtaskMetrics:
    times, arrival = done.times, done.times.arrival
    triggered_ms = done.barrier.timestamp_ms
    return SubtaskMetrics(
        # Whose clock is ahead of whose is for the coordinator to find out.
        start_delay_ms=arrival.first_ns / 1e6 - triggered_ms,
        alignment_ms=(times.last_barrier - arrival.first_ns) / 1e6,
        sync_ms=(times.sync_ended - times.sync_started) / 1e6,
        async_ms=(times.async_ended - times.sync_ended) / 1e6,
        size_bytes=size_bytes,
        processed_bytes=done.processed_bytes,
        persisted_bytes=persisted_bytes,
        taken_ms=arrival.taken_ns / 1e6 - triggered_ms,
        prepare_ms=(times.sync_started - arrival.taken_ns) / 1e6,
        waiting_ms=(times.stored_from - times.sync_ended) / 1e6,
        upload_ms=times.uploading / 1e6,
        report_ms=max(0, now_ns - times.async_ended) / 1e6,
        last_channel=arrival.channel,
        queued_ms=arrival.queued_ns / 1e6,
        busy_ms=arrival.busy_ns / 1e6,
        backpressured_ms=arrival.backpressured_ns / 1e6,
        worked_ms=arrival.worked_ns / 1e6,
    )
