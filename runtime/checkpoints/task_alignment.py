"""What a task does about barriers: it asks the protocol, and moves channels, records and markers as told."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.checkpoints.abort_reasons import AbortReason
from ...protocol.checkpoints.alignment import (
    AbortCheckpoint,
    AlignmentAbortReason,
    AlignmentCommand,
    AlignmentEvent,
    AlignmentTimePassed,
    BarrierAnnounced,
    BarrierKnown,
    BlockChannel,
    BytesBuffered,
    CancelMarkerAnnounced,
    EndAnnounced,
    FinishRecording,
    RecordChannels,
    ResumeChannels,
    TakeSnapshot,
)
from ...protocol.checkpoints.barrier_handler import FROM_COORDINATOR
from ...protocol.checkpoints.checkpoint_events import SubtaskDeclined
from ...protocol.checkpoints.mode_switch import SwitchingHandler
from ...protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from ...telemetry import logs
from ..gate import InputGate
from ..output import TaskOutput
from ..ports import TaskDeployment, TaskPorts
from .barrier_arrivals import BarrierArrival, BarrierArrivals
from .channel_state import never_overtaken
from .snapshots import Snapshotter

_DECLINES = {
    AlignmentAbortReason.SUBSUMED: AbortReason.BARRIER_SUBSUMED,
    AlignmentAbortReason.CANCELLED_UPSTREAM: AbortReason.CANCELLED_UPSTREAM,
    AlignmentAbortReason.TOO_MUCH_BUFFERED: AbortReason.ALIGNMENT_LIMIT,
}


class TaskAlignment:
    """The barriers of one subtask in one attempt.

    Args:
        deployment: The subtask and its settings.
        ports: Clock, and reports to the coordinator.
        arrivals: When the barriers arrived.
        gate: The input of the task.
        output: Its output.
        snapshots: Stores its snapshots.
        take_snapshot: Takes the snapshot of a barrier.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        ports: TaskPorts,
        arrivals: BarrierArrivals,
        gate: InputGate,
        output: TaskOutput,
        snapshots: Snapshotter,
        take_snapshot: Callable[[TakeSnapshot, BarrierArrival], None],
    ) -> None:
        inputs, settings = deployment.subtask.inputs, deployment.settings
        self._handler = SwitchingHandler(
            settings.mode, len(inputs), never_overtaken(inputs), settings.max_buffered_bytes
        )
        self._deployment = deployment
        self._ports = ports
        self._arrivals = arrivals
        self._take_snapshot = take_snapshot
        self._gate = gate
        self._output = output
        self._snapshots = snapshots

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the state machines does not hold."""
        self._handler.validate()

    def handle(self, event: AlignmentEvent) -> None:
        """Let the protocol decide, and do what it says."""
        now_ms = self._ports.now_ns() // 1_000_000
        decided_before = self._handler.last_decided
        for command in self._handler.handle(event, now_ms, self._gate.consumed_bytes):
            self._perform(command)
        if self._handler.last_decided != decided_before:
            self._gate.checkpoint_decided(self._handler.last_decided)

    def buffered(self) -> None:
        """Something arrived; where the bytes behind barriers are bounded, they are counted."""
        if self._handler.counts_buffered:
            self.handle(BytesBuffered(self._gate.buffered_bytes))

    def take_announcements(self) -> None:
        """What channels announced may overtake what waits in them, or is on its way to them."""
        known, announced = self._gate.known, self._gate.announced
        while known:
            self.handle(BarrierKnown(*known.popleft()))
        while announced:
            channel, element = announced.popleft()
            if isinstance(element, CheckpointBarrier):
                self.handle(BarrierAnnounced(channel, element))
            elif isinstance(element, CancelCheckpointMarker):
                self.handle(CancelMarkerAnnounced(channel, element.checkpoint_id))
            else:
                self.handle(EndAnnounced(channel))

    def align_when_due(self) -> int | None:
        """Let a barrier overtake whose time has come; milliseconds until that, `None` if none waits."""
        due_ms = self._handler.due_ms
        if due_ms is None:
            return None
        now_ms = self._ports.now_ns() // 1_000_000
        if due_ms > now_ms:
            return due_ms - now_ms
        self.handle(AlignmentTimePassed())
        return None

    def _perform(self, command: AlignmentCommand) -> None:
        if isinstance(command, BlockChannel):
            self._gate.block(command.channel)
        elif isinstance(command, ResumeChannels):
            self._gate.resume(command.channels)
        elif isinstance(command, AbortCheckpoint):
            self._abort_checkpoint(command)
        elif isinstance(command, RecordChannels):
            self._gate.start_recording(command.checkpoint_id, command.channels)
            self._snapshots.expect_records(command.checkpoint_id)
        elif isinstance(command, FinishRecording):
            recorded = self._gate.stop_recording()
            self._snapshots.store_records(command.checkpoint_id, recorded, command.processed_bytes)
        else:
            index, barrier = command.channel, command.barrier
            channel = None if index == FROM_COORDINATOR else self._gate.channel_id(index)
            arrival = self._arrivals.taken(barrier.checkpoint_id, command.started_ms, index, channel)
            with logs.entered(self._deployment.log_context.within(barrier.trace_context)):
                self._take_snapshot(command, arrival)

    def _abort_checkpoint(self, command: AbortCheckpoint) -> None:
        self._gate.stop_recording()
        self._output.mark(CancelCheckpointMarker(command.checkpoint_id))
        # Where the coordinator gave it up it knows; only those downstream that align may not.
        if command.reason is not AlignmentAbortReason.GIVEN_UP:
            self._ports.report(
                SubtaskDeclined(
                    self._deployment.attempt,
                    self._deployment.subtask_id,
                    command.checkpoint_id,
                    command.reason.value,
                    _DECLINES[command.reason],
                )
            )
        # After the report: this acknowledges what was stored, which must not count any more.
        self._snapshots.forget_records(command.checkpoint_id)
