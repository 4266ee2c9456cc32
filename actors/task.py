"""The task: one loop over input, output, mail and snapshots. No threads, no clock of its own, no Ray.

A shell calls `step` again and again; each call does a bounded amount of work and never blocks. So a
thread, the local executor or the simulator can drive it.
"""

from __future__ import annotations

import logging
import os
import queue
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..common import failpoints
from ..operators.chain import OperatorChain
from ..operators.sources import EndOfSource
from ..protocol import task_events as events
from ..protocol.alignment import (
    BarrierReceived,
    CancelMarkerReceived,
    ChannelEnded,
    CheckpointGivenUp,
    CheckpointTriggered,
)
from ..protocol.checkpoint_events import SubtaskInputEnded
from ..protocol.elements import (
    MAX_WATERMARK_MS,
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Message,
    SnapshotKind,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from ..protocol.ids import CheckpointId
from ..protocol.mail_order import MailOrder
from ..protocol.task_metrics import TaskMetrics
from ..telemetry import logs
from .assembly import TaskParts, assemble, local_dirs
from .barrier_arrivals import BarrierArrival, BarrierArrivals
from .channel_state import recovered_elements
from .input_watermarks import InputWatermarks
from .local_dirs import remove_if_empty
from .lost_messages import LostMessages
from .poll_pacing import SourcePolling
from .ports import TaskDeployment, TaskPorts
from .snapshots import ChannelStateDone, SnapshotDone, Snapshotter
from .state_answers import answer_query
from .storage_probe import check_storage_is_shared
from .task_alignment import TaskAlignment
from .task_failures import failure_of
from .task_measures import Activity, TaskMeasures, TaskTimes
from .task_phase import StepOutcome, TaskPhase
from .task_spans import InitializeTimes, TaskSpans

logger = logging.getLogger(__name__)

__all__ = ["StepOutcome", "StreamTask", "TaskPhase"]

_AGAIN = StepOutcome(0)
_OVER = StepOutcome(0, is_over=True)
_MILLISECOND = 1_000_000
_IDLE_NS = 1_000 * _MILLISECOND
_POLL_NS = 2 * _MILLISECOND
"""How soon a sink that was not ready, or operators with something under way at the end, are asked again."""

_CheckpointMail = (
    events.TriggerCheckpoint
    | events.EndSource
    | events.CheckpointCompleted
    | events.CheckpointAborted
    | events.ToOperator
)


@dataclass(frozen=True, slots=True)
class _RunAction:
    """Something that an operator wants done on the loop."""

    operator_uid: str
    action: Callable[[], None]


_Mail = Message | events.TaskMail | SnapshotDone | ChannelStateDone | _RunAction


class StreamTask:
    """One subtask in one attempt."""

    def __init__(self, deployment: TaskDeployment, ports: TaskPorts) -> None:
        self._deployment = deployment
        self._ports = ports
        self._mailbox: queue.SimpleQueue[_Mail] = queue.SimpleQueue()
        self._phase = TaskPhase.CREATED
        self._spans = TaskSpans(deployment, ports)
        self._times = TaskTimes(ports.now_ns)
        self._arrivals = BarrierArrivals(ports, self._times)
        self._alignment = TaskAlignment(deployment, ports, self._arrivals, self._take_snapshot)
        self._watermarks = InputWatermarks(deployment.subtask.inputs)
        self._open_channels = len(deployment.subtask.inputs)
        self._has_ended = False
        self._is_draining = False
        self._final_id: CheckpointId | None = None
        self._newest_final_id = CheckpointId(0)
        self._given_up_id = CheckpointId(0)
        self._uids = [node.uid for node in deployment.subtask.task.nodes]
        self._early: list[events.TriggerCheckpoint | events.EndSource] = []
        self._controls: deque[_CheckpointMail] = deque()
        self._order: MailOrder[events.TaskMail] = MailOrder()
        self._lost = LostMessages(deployment.subtask, deployment.settings.gap_timeout_ms)
        self._waiting_actions: list[_RunAction] = []
        self._log_context = deployment.log_context
        self._waiting_as = Activity.IDLE
        self._records_in = 0
        self._measures: TaskMeasures | None = None
        self._parts: TaskParts
        self._chain: OperatorChain
        self._polling: SourcePolling
        self._snapshots: Snapshotter

    # ------------------------------------------------------------ called by the shell

    @property
    def phase(self) -> TaskPhase:
        """What the task is doing."""
        return self._phase

    def put(self, mail: _Mail) -> None:
        """Hand over a message or a control mail; may be called from any thread."""
        self._arrivals.note(mail)
        self._mailbox.put(mail)

    def wait(self, timeout_ns: int) -> None:
        """Block the calling thread until there is mail (threaded shells only)."""
        try:
            mail = self._mailbox.get(timeout=timeout_ns / 1e9)
        except queue.Empty:
            return
        self._times.enter(Activity.BUSY)
        self._guarded(lambda: self._take_mail(mail))

    def initialize(self) -> None:
        """Build the operators, restore their state and open them; reports the outcome."""
        self._guarded(self._initialize)

    def step(self) -> StepOutcome:
        """Take all mail, then do one piece of work."""
        self._times.enter(Activity.BUSY)
        self._waiting_as = Activity.IDLE
        outcome: StepOutcome | None = self._guarded(self._step)
        self._times.enter(self._waiting_as)
        if self._phase.is_terminal or outcome is None:
            return _OVER
        if outcome.wait_ns and self._phase is not TaskPhase.CREATED:
            self._chain.rest()
        return outcome

    def metrics(self, with_gauges: bool = True) -> TaskMetrics:
        """What the task has measured up to now; may be called from any thread.

        Args:
            with_gauges: Whether to call the functions' gauges, which may take long.
        """
        measures = self._measures
        if measures is None:
            return TaskMetrics()
        return measures.taken(
            self._records_in, self._times.times_ns(), self._snapshots.state_bytes, with_gauges
        )

    def cancel(self) -> None:
        """Stop now, on the loop's thread; reports `TaskStopped`."""
        if not self._phase.is_terminal:
            self._cancel()

    def abandon(self) -> None:
        """Release everything without a report: the shell itself ends."""
        if not self._phase.is_terminal:
            self._phase = TaskPhase.CANCELED
            self._close()

    def wait_for_state(self) -> bool:
        """Wait a moment for a thread that stores state before the next records; whether there was one.

        For shells whose time stands still.
        """
        is_waiting = self._phase is TaskPhase.RUNNING and self._chain.is_storing()
        if is_waiting:
            self.wait(_POLL_NS)
        return is_waiting

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the task's state machines does not hold."""
        self._alignment.validate()

    # ------------------------------------------------------------ life cycle

    def _initialize(self) -> None:
        now_ns = self._ports.now_ns
        started_ns = now_ns()
        check_storage_is_shared(self._deployment)
        self._parts = assemble(self._deployment, self._ports, self._take_action, self._spans.work)
        self._chain = self._parts.chain
        settings = self._deployment.settings
        self._polling = SourcePolling(
            self._chain, settings.batch_size, settings.buffer_timeout_ms, self._ports.now_ns
        )
        copies = self._parts.local_snapshots
        self._snapshots = Snapshotter(
            self._deployment, self._ports, self._chain, self.put, copies, self._spans
        )
        self._alignment.begin(self._parts.gate, self._parts.output, self._snapshots)
        self._measures = TaskMeasures(self._parts.gate, self._parts.output, self._chain, self._watermarks)
        restored, assembled_ns = self._deployment.restored, now_ns()
        if restored is not None:
            failpoints.reach("restore")
            self._chain.restore(restored, self._deployment.restored_is_owned)
        self._recover_records()
        restored_ns = now_ns()
        self._chain.open()
        if restored is not None and not self._deployment.restored_is_owned:
            self._chain.check_claimed(self._deployment.settings.allow_non_restored_state)
        self._spans.initialized(InitializeTimes(started_ns, assembled_ns, restored_ns, now_ns()))
        self._phase = TaskPhase.INITIALIZED
        logger.info("%s is initialised in process %d", self._deployment.subtask.name, os.getpid())
        self._ports.report(events.TaskInitialized(self._deployment.attempt, self._deployment.subtask_id))

    def _recover_records(self) -> None:
        gate, deployment = self._parts.gate, self._deployment
        if deployment.recovered:
            recovered = recovered_elements(deployment.recovered, deployment.settings.storage)
            gate.recover((gate.index_of(channel), element) for channel, element in recovered)

    def _guarded(self, work: Any) -> Any:
        failpoints.enter(self._uids, self._deployment.subtask_id.index)
        logs.enter(self._log_context)
        try:
            return work()
        except (Exception, SystemExit) as error:
            # A user function that calls sys.exit() would end the loop's thread without a word.
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        """End with an error, on the loop's thread; reports `TaskFailed`."""
        is_starting, self._phase = self._phase is TaskPhase.CREATED, TaskPhase.FAILED
        self._close()
        # The coordinator logs it for people.
        logger.info("%s failed", self._deployment.subtask.name, exc_info=error)
        self._ports.report(failure_of(self._deployment, error, is_starting))

    def _close(self) -> list[Exception]:
        chain = getattr(self, "_chain", None)
        errors: list[Exception] = chain.close() if chain is not None else []
        for path in local_dirs(self._deployment):
            remove_if_empty(path)
        return errors

    def _finish(self) -> None:
        # With the operators their functions' metrics go. A gauge that hangs must not hold up the end.
        metrics = self.metrics(with_gauges=False)
        errors = self._close()
        if errors:
            raise errors[0]
        self._phase = TaskPhase.FINISHED
        deployment = self._deployment
        logger.info("%s has finished", deployment.subtask.name)
        self._ports.report(events.TaskFinished(deployment.attempt, deployment.subtask_id, metrics))

    # ------------------------------------------------------------ the loop

    def _step(self) -> StepOutcome:
        if self._phase is TaskPhase.CREATED:
            # Mail waits for the gate; a late message of an older attempt may be among it.
            return StepOutcome(_IDLE_NS)
        self._drain_mailbox()
        lost_ns = self._look_for_losses()
        if self._controls:
            self._take_controls()
        if self._phase is not TaskPhase.RUNNING:
            return StepOutcome(_POLL_NS if self._controls else min(_IDLE_NS, lost_ns))
        align_ms = None
        if not self._chain.is_advancing:
            if self._parts.gate.has_announcements:
                self._alignment.take_announcements()
            align_ms = self._alignment.align_when_due()
        wait_ns = self._advance()
        is_idle = wait_ns != 0 and self._mailbox.empty()
        due_ms = self._parts.output.flush_due(self._ports.now_ns(), is_idle)
        if not is_idle:
            return _AGAIN
        due_ns = (max(1, each) * _MILLISECOND for each in (align_ms, due_ms) if each is not None)
        return StepOutcome(min(wait_ns, lost_ns, *due_ns))

    def _look_for_losses(self) -> int:
        """Fail if the transport lost something; nanoseconds until the next look."""
        if self._phase.is_terminal:
            return _IDLE_NS
        lost = self._lost.look(self._parts.gate, self._order, self._parts.output, self._ports.now_ns())
        return lost * _MILLISECOND

    def _advance(self) -> int:
        """Do what is due, then process one element or poll the source once.

        Returns:
            How long to wait in ns if there was nothing to do.
        """
        if not self._parts.output.has_credit():
            self._waiting_as = Activity.BACKPRESSURED if self._has_input() else Activity.IDLE
            return _POLL_NS if self._controls else _IDLE_NS
        if not self._chain.is_ready():
            # Nobody downstream makes it wait: it is this task that holds the others up.
            self._waiting_as = Activity.BUSY if self._has_input() else Activity.IDLE
            return _POLL_NS
        progressed = self._advance_watermark() if self._chain.is_advancing else self._process_next()
        for frozen in self._chain.spills():
            self._snapshots.persist_spill(frozen)
        if progressed or self._phase is not TaskPhase.RUNNING or self._chain.is_advancing:
            return 0
        wait_ns = _IDLE_NS
        if self._has_ended:
            wait_ns = _POLL_NS
        elif self._chain.source is not None:
            wait_ns = self._polling.wait_ns()
        due_ms = self._parts.processing_time.due_in_ms()
        return wait_ns if due_ms is None else min(wait_ns, due_ms * _MILLISECOND)

    def _has_input(self) -> bool:
        if self._chain.source is not None:
            return not self._has_ended
        return self._chain.is_advancing or self._parts.gate.has_input

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
            self._put_waiting_actions()
        return True

    def _take_input(self) -> bool:
        return self._poll_gate() if self._chain.source is None else self._poll_source()

    def _poll_source(self) -> bool:
        try:
            read = self._chain.records_read
            progressed = self._polling.poll()
            if self._chain.records_read > read:
                self._gave_result()
            return progressed
        except EndOfSource:
            self._end_of_input()
            return True

    def _gave_result(self) -> None:
        if not self._deployment.subtask.outgoing and self._measures is not None:
            self._measures.gave_result(self._ports.now_ns())

    def _poll_gate(self) -> bool:
        entry = self._parts.gate.poll(self._deployment.settings.batch_size)
        if entry is None:
            return False
        self._process_element(*entry)
        return True

    def _process_element(self, channel: int, element: StreamElement) -> None:
        if isinstance(element, Batch):
            failpoints.reach("process")
            self._records_in += len(element)
            self._chain.process_batch(element, self._parts.gate.input_index(channel))
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
        input_index = self._parts.gate.input_index(channel)
        for change in self._watermarks.on_element(channel, element):
            if isinstance(change, Watermark):
                self._chain.process_watermark(change.timestamp_ms, input_index)
            else:
                self._chain.process_status(change.is_idle, input_index)

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
        self._parts.output.end()
        if not self._deployment.settings.is_checkpointing:
            self._finish()
            return True
        self._phase = TaskPhase.COMMITTING
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

    # ------------------------------------------------------------ mail

    def _drain_mailbox(self) -> None:
        while not self._phase.is_terminal:
            try:
                mail = self._mailbox.get_nowait()
            except queue.Empty:
                return
            self._take_mail(mail)

    def _take_mail(self, mail: _Mail) -> None:
        if isinstance(mail, Message):
            failpoints.reach("receive")
            self._parts.gate.accept(mail)
            self._alignment.buffered()
        elif isinstance(mail, events.Numbered):
            for ordered in self._order.accept(mail.number, mail.mail):
                self._take_mail(ordered)
        elif isinstance(mail, events.NumberedSent):
            self._order.counted(mail.count)
        elif isinstance(mail, events.CreditReturned):
            self._parts.output.credit_returned(mail.channel, mail.size_bytes)
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
        elif isinstance(mail, _RunAction):
            self._run_action(mail)
        elif isinstance(mail, events.ResultsTaken):
            self._parts.results.taken(mail.size_bytes)
        elif isinstance(mail, events.StartRunning):
            self._start_running()
        elif isinstance(mail, events.QueryState):
            self._ports.report(answer_query(self._deployment, self._chain, mail))
        elif (
            isinstance(mail, events.TriggerCheckpoint | events.EndSource)
            and self._phase is TaskPhase.INITIALIZED
        ):
            # It overtook `StartRunning`: Ray promises no order between two calls.
            self._early.append(mail)
        elif self._phase in (TaskPhase.RUNNING, TaskPhase.COMMITTING, TaskPhase.STOPPING):
            self._controls.append(mail)
            self._take_controls()

    def _take_controls(self) -> None:
        """In order, and only while the source stands still: a thread of its own may have to stop first.

        No barrier comes between the timers that a watermark made due.
        """
        source = self._chain.source
        while (
            self._controls
            and not self._phase.is_terminal
            and not self._chain.is_advancing
            and (source is None or source.try_pause())
        ):
            try:
                self._take_checkpoint_mail(self._controls.popleft())
            finally:
                # While the task stops it takes nothing from the source, which must not begin what it
                # could then not end.
                if source is not None and self._phase is not TaskPhase.STOPPING:
                    source.resume()

    def _take_action(self, operator_uid: str, action: Callable[[], None]) -> None:
        """Put an action into the mailbox, from any thread."""
        self.put(_RunAction(operator_uid, action))
        self._ports.wake()

    def _run_action(self, mail: _RunAction) -> None:
        """Now, or as soon as the task runs: not before the start, nor after the barrier of a stop.

        What the action emits must not overtake a watermark on its way through the operators behind.
        """
        if self._phase is TaskPhase.RUNNING and not self._chain.is_advancing_behind(mail.operator_uid):
            mail.action()
        elif self._phase is not TaskPhase.COMMITTING:
            self._waiting_actions.append(mail)

    def _run(self) -> None:
        self._phase = TaskPhase.RUNNING
        self._put_waiting_actions()

    def _put_waiting_actions(self) -> None:
        waiting, self._waiting_actions = self._waiting_actions, []
        for mail in waiting:
            self.put(mail)

    def _start_running(self) -> None:
        if self._phase is not TaskPhase.INITIALIZED:
            return
        if self._deployment.is_stopped:
            self._finish()
            return
        self._run()
        early, self._early = self._early, []
        self._controls.extend(early)
        self._take_controls()

    def _take_checkpoint_mail(self, mail: _CheckpointMail) -> None:
        if isinstance(mail, events.TriggerCheckpoint):
            if mail.barrier.kind is not SnapshotKind.FINAL:
                self._give_up_stop_before(mail.barrier.checkpoint_id)
            self._alignment.handle(CheckpointTriggered(mail.barrier))
        elif isinstance(mail, events.EndSource):
            if self._final_id is not None:
                self._give_up_stop_before(CheckpointId(self._final_id + 1))
            source = self._chain.source
            if self._phase is TaskPhase.RUNNING and not self._has_ended and (source is None or source.stop()):
                self._end_of_input()
        elif isinstance(mail, events.ToOperator):
            self._chain.handle_coordinator_event(mail.operator_uid, mail.event)
        elif isinstance(mail, events.CheckpointCompleted):
            failpoints.reach("notify")
            started_ns = self._ports.now_ns()
            with logs.entered(self._log_context.within(mail.trace_context)):
                self._snapshots.confirmed(mail.checkpoint_id)
                self._chain.notify_checkpoint_complete(mail.checkpoint_id)
            self._spans.notified(mail.checkpoint_id, mail.trace_context, started_ns)
            if self._final_id is not None and mail.checkpoint_id >= self._final_id:
                self._finish()
        else:
            self._given_up_id = max(self._given_up_id, mail.checkpoint_id)
            if mail.checkpoint_id == self._final_id:
                # Its abort may arrive after the barrier of the next one.
                is_followed = self._newest_final_id > mail.checkpoint_id
                self._final_id = self._newest_final_id if is_followed else None
                if self._phase is TaskPhase.STOPPING:
                    self._run()
            self._alignment.handle(CheckpointGivenUp(mail.checkpoint_id))
            self._chain.notify_checkpoint_aborted(mail.checkpoint_id)

    def _give_up_stop_before(self, checkpoint_id: CheckpointId) -> None:
        """The job goes on after a stop. What it does next may be heard of before the stop's failure is."""
        if self._final_id is None or self._final_id >= checkpoint_id:
            return
        self._final_id = None
        if self._phase is TaskPhase.STOPPING:
            self._run()

    def _cancel(self) -> None:
        self._phase = TaskPhase.CANCELED
        self._close()
        logger.info("%s is cancelled", self._deployment.subtask.name)
        self._ports.report(events.TaskStopped(self._deployment.attempt, self._deployment.subtask_id))

    # ------------------------------------------------------------ checkpoints

    def _take_snapshot(self, barrier: CheckpointBarrier, arrival: BarrierArrival) -> None:
        """Prepare, pass the barrier on, freeze; nothing else is processed in between."""
        self._chain.prepare_snapshot(barrier)
        is_running = self._phase is TaskPhase.RUNNING
        if is_running:
            self._parts.output.mark(barrier)
        if barrier.kind is SnapshotKind.STOP and barrier.checkpoint_id > self._given_up_id:
            # Else it was given up before its barrier came, and nobody would tell this task to go on.
            self._final_id = barrier.checkpoint_id
            self._phase = TaskPhase.STOPPING if is_running else self._phase
        elif barrier.kind is SnapshotKind.FINAL and not is_running:
            # An earlier one must not end the task: others still run, and their checkpoints need it.
            self._final_id = self._final_id or barrier.checkpoint_id
            self._newest_final_id = barrier.checkpoint_id
        self._snapshots.start(barrier, arrival, self._alignment.processed_bytes)
