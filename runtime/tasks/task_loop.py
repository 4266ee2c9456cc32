"""The loop of a task: it takes mail, then processes one element or polls its source once."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass

from ...common import failpoints
from ...operators.sources.sources import EndOfSource
from ...protocol import task_events as events
from ...protocol.channels.mail_order import MailOrder
from ...protocol.checkpoints.alignment import (
    BarrierReceived,
    CancelMarkerReceived,
    ChannelEnded,
    TakeSnapshot,
)
from ...protocol.checkpoints.checkpoint_events import SubtaskInputEnded
from ...protocol.elements import (
    MAX_WATERMARK_MS,
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Message,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from ...protocol.task_life import TaskLifeEvent, TaskPhase
from ...protocol.task_metrics import TaskMetrics
from ..assembly import TaskParts
from ..checkpoints.barrier_arrivals import BarrierArrival
from ..checkpoints.channel_state import recovered_elements
from ..checkpoints.snapshots import ChannelStateDone, SnapshotDone, Snapshotter
from ..checkpoints.task_alignment import TaskAlignment
from ..input_watermarks import InputWatermarks
from ..network.lost_messages import LostMessages
from ..network.poll_pacing import SourcePolling
from ..state_answers import answer_query
from .task_controls import TaskControls
from .task_environment import Mail, RunAction, TaskEnvironment
from .task_measures import Activity, TaskMeasures

_MILLISECOND = 1_000_000
IDLE_NS = 1_000 * _MILLISECOND
"""How long a task without work waits for mail at most."""
POLL_NS = 2 * _MILLISECOND
"""How soon a sink that was not ready, or operators with something under way at the end, are asked again."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one step led to.

    Attributes:
        wait_ns: 0 when there is more to do now, otherwise how long to wait for mail at most, in nanoseconds.
        is_over: Whether the task will do nothing more.
    """

    wait_ns: int
    is_over: bool = False


_AGAIN = StepOutcome(0)


class TaskLoop:
    """The loop of one subtask in one attempt.

    Args:
        environment: What the parts of the task share.
        parts: Gate, output and operators.
        finish: Ends the task.
        cancel: Stops the task at once.
    """

    def __init__(
        self,
        environment: TaskEnvironment,
        parts: TaskParts,
        finish: Callable[[], None],
        cancel: Callable[[], None],
    ) -> None:
        self._environment = environment
        self._deployment = deployment = environment.deployment
        self._ports = ports = environment.ports
        self._mailbox = environment.mailbox
        self._life = environment.life
        self._parts = parts
        self._chain, self._gate, self._output = parts.chain, parts.gate, parts.output
        self.finish = finish
        self._cancel = cancel
        settings = deployment.settings
        self._polling: SourcePolling | None = None
        if self._chain.source is not None:
            self._polling = SourcePolling(
                self._chain.source,
                self._chain,
                settings.batch_size,
                settings.buffer_timeout_ms,
                ports.now_ns,
            )
        self._snapshots = Snapshotter(
            deployment, ports, self._chain, environment.put, parts.local_snapshots, environment.spans
        )
        self._alignment = TaskAlignment(
            deployment,
            ports,
            environment.arrivals,
            self._gate,
            self._output,
            self._snapshots,
            self._take_snapshot,
        )
        self._controls = TaskControls(environment, self._chain, self._alignment, self._snapshots, self)
        self._watermarks = InputWatermarks(deployment.subtask.inputs)
        self._measures = TaskMeasures(self._gate, self._output, self._chain, self._watermarks)
        self._order: MailOrder[events.TaskMail] = MailOrder()
        self._lost = LostMessages(deployment.subtask, settings.gap_timeout_ms)
        self._waiting_actions: list[RunAction] = []
        self._open_channels = len(deployment.subtask.inputs)
        self._has_ended = False
        self._is_draining = False
        self._records_in = 0
        self.waiting_as = Activity.IDLE
        """What the task does until its next step."""

    # ------------------------------------------------------------ called by the task

    def restore(self) -> None:
        """Restore the state of the operators, and the records that a barrier overtook."""
        deployment = self._deployment
        if deployment.restored is not None:
            failpoints.reach("restore")
            self._chain.restore(deployment.restored, deployment.restored_is_owned)
        self._recover_records()

    def open(self) -> None:
        """Open the operators, and check that they use the state of another job."""
        self._chain.open()
        deployment = self._deployment
        if deployment.restored is not None and not deployment.restored_is_owned:
            self._chain.check_claimed(deployment.settings.allow_non_restored_state)

    def rest(self) -> None:
        """There is nothing to do for now."""
        self._chain.rest()

    def is_storing(self) -> bool:
        """Whether a thread stores state before the next records."""
        return self._chain.is_storing()

    def metrics(self, with_gauges: bool) -> TaskMetrics:
        """What the task has measured up to now; may be called from any thread."""
        times_ns = self._environment.times.times_ns()
        return self._measures.taken(self._records_in, times_ns, self._snapshots.state_bytes, with_gauges)

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        self._alignment.validate()

    def close(self) -> list[Exception]:
        """Close the operators; what they raised."""
        return self._chain.close()

    def step(self) -> StepOutcome:
        """Take all mail, then do one piece of work."""
        self.waiting_as = Activity.IDLE
        self._drain_mailbox()
        lost_ns = self._look_for_losses()
        if self._controls.is_waiting:
            self._controls.perform()
        if not self._life.is_running:
            return StepOutcome(POLL_NS if self._controls.is_waiting else min(IDLE_NS, lost_ns))
        align_ms = None
        if not self._chain.is_advancing:
            if self._gate.has_announcements:
                self._alignment.take_announcements()
            align_ms = self._alignment.align_when_due()
        wait_ns = self._advance()
        is_idle = wait_ns != 0 and self._mailbox.empty()
        due_ms = self._output.flush_due(self._ports.now_ns(), is_idle)
        if not is_idle:
            return _AGAIN
        due_ns = (max(1, each) * _MILLISECOND for each in (align_ms, due_ms) if each is not None)
        return StepOutcome(min(wait_ns, lost_ns, *due_ns))

    def take_mail(self, mail: Mail) -> None:
        """Take a message or a control mail."""
        if isinstance(mail, Message):
            failpoints.reach("receive")
            self._gate.accept(mail)
            self._alignment.buffered()
        elif isinstance(mail, events.Numbered):
            for ordered in self._order.accept(mail.number, mail.mail):
                self.take_mail(ordered)
        elif isinstance(mail, events.NumberedSent):
            self._order.counted(mail.count)
        elif isinstance(mail, events.CreditReturned):
            self._output.credit_returned(mail.channel, mail.size_bytes)
        elif isinstance(mail, events.SendFailed):
            self._lost.send_failed(mail, self._ports.now_ns())
        elif isinstance(mail, events.ConnectionFailed):
            raise self._lost.connection_error(mail)
        elif isinstance(mail, events.CancelTask):
            self._cancel()
        elif isinstance(mail, SnapshotDone):
            self._snapshots.finish(mail)
        elif isinstance(mail, ChannelStateDone):
            self._snapshots.finish_records(mail)
        elif isinstance(mail, RunAction):
            self._run_action(mail)
        elif isinstance(mail, events.ResultsTaken):
            self._parts.results.taken(mail.size_bytes)
        elif isinstance(mail, events.StartRunning):
            self._start_running()
        elif isinstance(mail, events.QueryState):
            self._ports.report(answer_query(self._deployment, self._chain, mail))
        else:
            self._controls.put(mail)

    # ------------------------------------------------------------ called by the controls

    def resumed(self) -> None:
        """The task runs, or runs again."""
        waiting, self._waiting_actions = self._waiting_actions, []
        for mail in waiting:
            self._environment.put(mail)

    def end_source(self) -> None:
        """End the task's source as if it had no more records."""
        source = self._chain.source
        if self._life.is_running and not self._has_ended and (source is None or source.stop()):
            self._end_of_input()

    # ------------------------------------------------------------ mail

    def _recover_records(self) -> None:
        gate, deployment = self._gate, self._deployment
        if deployment.recovered:
            recovered = recovered_elements(deployment.recovered, deployment.settings.storage)
            gate.recover((gate.index_of(channel), element) for channel, element in recovered)

    def _drain_mailbox(self) -> None:
        while not self._life.is_over:
            try:
                mail = self._mailbox.get_nowait()
            except queue.Empty:
                return
            self.take_mail(mail)

    def _look_for_losses(self) -> int:
        """Fail if the transport lost something; nanoseconds until the next look."""
        if self._life.is_over:
            return IDLE_NS
        lost = self._lost.look(self._gate, self._order, self._output, self._ports.now_ns())
        return lost * _MILLISECOND

    def _start_running(self) -> None:
        if self._life.state is not TaskPhase.INITIALIZED:
            return
        if self._deployment.is_stopped:
            self.finish()
            return
        self._life.handle(TaskLifeEvent.STARTED)
        self.resumed()
        self._controls.started()

    def _run_action(self, mail: RunAction) -> None:
        """Now, or as soon as the task runs: not before the start, nor after the barrier of a stop.

        What the action emits must not overtake a watermark on its way through the operators behind.
        """
        if self._life.is_running and not self._chain.is_advancing_behind(mail.operator_uid):
            mail.action()
        elif self._life.state is not TaskPhase.COMMITTING:
            self._waiting_actions.append(mail)

    # ------------------------------------------------------------ input

    def _advance(self) -> int:
        """Do what is due, then process one element or poll the source once.

        Returns:
            How long to wait in ns if there was nothing to do.
        """
        if not self._output.has_credit():
            if self._take_barrier():
                return 0
            self.waiting_as = Activity.BACKPRESSURED if self._has_input() else Activity.IDLE
            return POLL_NS if self._controls.is_waiting else IDLE_NS
        if not self._chain.is_ready():
            if self._take_barrier():
                return 0
            # This task holds the others up, and no receiver holds this one up.
            self.waiting_as = Activity.BUSY if self._has_input() else Activity.IDLE
            return POLL_NS
        progressed = self._advance_watermark() if self._chain.is_advancing else self._process_next()
        for frozen in self._chain.spills():
            self._snapshots.persist_spill(frozen)
        if progressed or not self._life.is_running or self._chain.is_advancing:
            return 0
        wait_ns = IDLE_NS
        if self._has_ended:
            wait_ns = POLL_NS
        elif self._polling is not None:
            wait_ns = self._polling.wait_ns()
        due_ms = self._parts.processing_time.due_in_ms()
        return wait_ns if due_ms is None else min(wait_ns, due_ms * _MILLISECOND)

    def _has_input(self) -> bool:
        if self._chain.source is not None:
            return not self._has_ended
        return self._chain.is_advancing or self._gate.has_input

    def _process_next(self) -> bool:
        progressed = self._parts.processing_time.run_due()
        if self._has_ended:
            return self._end_if_drained() or progressed
        return self._take_input() or progressed

    def _advance_watermark(self) -> bool:
        """Fire some of the timers that a watermark made due.

        Input, barriers, and whatever is due on the loop come behind that watermark.
        """
        self._chain.advance_further()
        if not self._chain.is_advancing:
            self.resumed()
        return True

    def _take_input(self) -> bool:
        return self._poll_gate() if self._polling is None else self._poll_source(self._polling)

    def _poll_source(self, polling: SourcePolling) -> bool:
        try:
            read = self._chain.records_read
            progressed = polling.poll()
            if self._chain.records_read > read:
                self._gave_result()
            return progressed
        except EndOfSource:
            self._end_of_input()
            return True

    def _gave_result(self) -> None:
        if not self._deployment.subtask.outgoing:
            self._measures.gave_result(self._ports.now_ns())

    def _poll_gate(self) -> bool:
        entry = self._gate.poll(self._deployment.settings.batch_size)
        if entry is None:
            return False
        self._process_element(*entry)
        return True

    def _take_barrier(self) -> bool:
        """Take a barrier that has no records before it to wait for, though the task takes none now.

        Where channels are never overtaken this is the only way for a barrier past a receiver that is stuck.
        """
        entry = None if self._chain.is_advancing else self._gate.poll_barrier()
        if entry is None:
            return False
        self._process_element(*entry)
        return True

    def _process_element(self, channel: int, element: StreamElement) -> None:
        if isinstance(element, Batch):
            failpoints.reach("process")
            self._records_in += len(element)
            self._chain.process_batch(element, self._gate.input_index(channel))
            self._gave_result()
        elif isinstance(element, Watermark | WatermarkStatus):
            self._advance_event_time(channel, element)
        elif isinstance(element, CheckpointBarrier):
            self._alignment.handle(BarrierReceived(channel, element))
        elif isinstance(element, CancelCheckpointMarker):
            self._alignment.handle(CancelMarkerReceived(channel, element.checkpoint_id))
        else:
            self._channel_ended(channel)

    def _advance_event_time(self, channel: int, element: Watermark | WatermarkStatus) -> None:
        input_index = self._gate.input_index(channel)
        for change in self._watermarks.on_element(channel, element):
            if isinstance(change, Watermark):
                self._chain.process_watermark(change.timestamp_ms, input_index)
            else:
                self._chain.process_status(change.is_idle, input_index)

    # ------------------------------------------------------------ end of input

    def _channel_ended(self, channel: int) -> None:
        self._advance_event_time(channel, Watermark(MAX_WATERMARK_MS))
        self._alignment.handle(ChannelEnded(channel))
        self._open_channels -= 1
        if self._open_channels == 0:
            self._end_of_input()

    def _end_of_input(self) -> None:
        self._has_ended = True
        if self._chain.source:
            self._chain.process_watermark(MAX_WATERMARK_MS, 0)
        self._end_if_drained()

    def _end_if_drained(self) -> bool:
        """After the end of input: end the output too, as soon as no operator has anything under way."""
        if not self._chain.finish():
            self._report_draining()
            return False
        self._output.end()
        if not self._deployment.settings.is_checkpointing:
            self.finish()
            return True
        self._life.handle(TaskLifeEvent.INPUT_ENDED)
        self._ports.report(SubtaskInputEnded(self._deployment.attempt, self._deployment.subtask_id))
        return True

    def _report_draining(self) -> None:
        """No barrier comes through ended channels: ask the coordinator for those that follow, once."""
        if (
            self._is_draining
            or self._chain.source is not None
            or not self._deployment.settings.is_checkpointing
        ):
            return
        self._is_draining = True
        report = SubtaskInputEnded(self._deployment.attempt, self._deployment.subtask_id, is_drained=False)
        self._ports.report(report)

    # ------------------------------------------------------------ checkpoints

    def _take_snapshot(self, command: TakeSnapshot, arrival: BarrierArrival) -> None:
        """Prepare, pass the barrier on, freeze; nothing else is processed in between."""
        barrier = command.barrier
        self._chain.prepare_snapshot(barrier)
        if self._life.is_running:
            self._output.mark(barrier)
        self._life.snapshot_taken(barrier.kind, barrier.checkpoint_id)
        self._snapshots.start(barrier, arrival, command.processed_bytes)
