"""The operator around `protocol.stages.epoch_shares`: gathers tables, runs epochs outside the task loop."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..common.typeinfo import Types
from ..protocol.elements import Batch, CheckpointBarrier, Watermark, WatermarkStatus
from ..protocol.source_events import CoordinatorEvent
from ..protocol.stages import epochs
from ..protocol.stages.epoch_leader import EpochLeader
from ..protocol.stages.epoch_messages import FromLeader, ShareEnded, ToLeader
from ..protocol.stages.epoch_shares import ShareMachine
from ..protocol.stages.epochs import EpochLimits, ShareCommand, ShareEvent
from ..protocol.stages.stage_reports import MOST_EPOCHS, RunTotals, StageReport, totals_of
from ..state.descriptors import ListStateDescriptor
from ..state.operator.epoch_tables import EpochTablesDescriptor
from .base import FrozenOperator, OperatorContext, StreamOperator
from .output import Output

RUNNING_SUBTASK = 0
"""The subtask that runs the epochs of all."""


class EpochStageOperator(StreamOperator):
    """Gathers records, runs them epoch by epoch somewhere else, and emits the results when they arrive.

    A barrier waits for no run: records without results, and results that have not been emitted, are operator
    state. All subtasks share each epoch: one of them runs it, and each emits a part of the results. A
    subclass says how records become tables, where epochs run, and how records and results travel.

    Args:
        limits: What bounds the epochs.
    """

    STATE_NAME = "_epochs"
    RESULTS_NAME = "_epoch_results"
    PROGRESS_NAME = "_epoch_progress"
    most_emitted = 4_096
    """A barrier waits at most until this number of results has been emitted."""

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._records_in = self._records_out = 0
        self._runs = RunTotals()

    # ------------------------------------------------------------ what a subclass says

    @abstractmethod
    def to_table(self, batch: Batch) -> pa.Table:
        """The records of a batch."""

    @abstractmethod
    def start_runner(self, started: Callable[[], None]) -> None:
        """Prepare to run epochs; `started` is to be called when they can run, on the task's loop."""

    @abstractmethod
    def offer_share(self, number: int, tables: list[pa.Table]) -> Any:
        """How the runner gets this subtask's records of an epoch (picklable), until `collect_results`.

        An epoch without records in any subtask does not run, and has no results to collect.
        """

    @abstractmethod
    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        """Begin to run an epoch, without waiting for it. Called in one subtask, which has a runner.

        Args:
            number: Of the epoch.
            offers: Those of all subtasks.
            finished: To be called with how each subtask gets its part of the results (picklable), on the
                task's loop.
        """

    @abstractmethod
    def collect_results(self, number: int, part: Any) -> pa.Table:
        """This subtask's part of an epoch's results."""

    @abstractmethod
    def emit_results(self, results: pa.Table) -> None:
        """Emit some results of an epoch."""

    def share_spilled(self, number: int, tables: list[pa.Table]) -> None:
        """The records of an epoch went to local disk; `tables` map them. They may have been offered."""

    # ------------------------------------------------------------ life cycle

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        # Another thread may ask for a report while the task opens.
        self._machine = ShareMachine(self._limits, context.parallelism)

    def declare_states(self) -> None:
        """Without a runner."""
        where = f"operator {self.context.name_with_subtask}"
        states = self.context.operator_state
        self._tables = states.get_epoch_tables(EpochTablesDescriptor(self.STATE_NAME, where))
        self._stored_results = states.get_epoch_tables(EpochTablesDescriptor(self.RESULTS_NAME, where))
        progress = ListStateDescriptor(self.PROGRESS_NAME, Types.TUPLE([Types.LONG(), Types.LONG()]))
        self._progress = states.get_union_list_state(progress)

    def open(self) -> None:
        self.declare_states()
        subtasks = self.context.parallelism
        # With one subtask, nothing has to leave the process.
        self._leader = EpochLeader(subtasks) if subtasks == 1 else None
        self._results: dict[int, list[pa.Table]] = {}
        self._unsent: deque[pa.Table] = deque()
        self._events: deque[ShareEvent] = deque()
        self._from_leader: deque[FromLeader] = deque()
        self._is_handling = False
        self._started_ms: dict[int, int] = {}
        self._has_ended = False
        self._handle(self._restored())
        if self._runs_epochs:
            self.start_runner(lambda: self._handle(epochs.RunnerStarted()))

    def _restored(self) -> epochs.StageRestored:
        progress = self._progress.get()
        if not progress:
            # Before this state existed, the only subtask numbered its epochs from 1 after each restore.
            self._tables.regroup(1)
        began = max((each for each, _ in progress), default=0)
        gathering = max((each for _, each in progress), default=1)
        self._restore_results(began)
        shares = []
        for number in self._tables.epochs():
            if number <= began:
                self._tables.drop(number)
                continue
            tables = self._tables.tables(number)
            size_bytes = sum(table.nbytes for table in tables)
            shares.append(epochs.RestoredShare(number, sum(map(len, tables)), size_bytes))
        return epochs.StageRestored(began, gathering, began in self._results, shares)

    def _restore_results(self, began: int) -> None:
        """All subtasks held the results of epochs that one of them had begun to emit."""
        for number in self._stored_results.epochs():
            if number <= began:
                self._results.setdefault(began, []).extend(self._stored_results.tables(number))
            self._stored_results.drop(number)

    # ------------------------------------------------------------ what others see

    @property
    def _runs_epochs(self) -> bool:
        return self.context.subtask_index == RUNNING_SUBTASK

    @property
    def web_ui(self) -> str:
        """Address of the web UI of what runs the epochs, empty where there is none."""
        return ""

    def stage_report(self) -> StageReport | None:
        all_epochs = self._machine.in_flight
        totals = {phase.name.lower(): totals_of(all_epochs, phase) for phase in epochs.EpochPhase}
        return StageReport(
            self.context.operator_uid,
            self.context.operator_name,
            **totals,
            epochs=tuple(all_epochs[:MOST_EPOCHS]),
            buffered_bytes=sum(each.size_bytes for each in all_epochs),
            buffer_limit_bytes=self._limits.buffer_bytes,
            records_in=self._records_in,
            records_out=self._records_out,
            runs=self._runs if self._runs_epochs else None,
            web_ui=self.web_ui,
        )

    # ------------------------------------------------------------ events

    def process_batch(self, batch: Batch, input_index: int) -> None:
        table = self.to_table(batch)
        if table.num_rows:
            self._tables.add(self._machine.gathering, table)
            self._records_in += table.num_rows
            self._handle(epochs.RecordsGathered(table.num_rows, table.nbytes))

    def _take_changes(self, changes: list[Watermark | WatermarkStatus]) -> None:
        for change in changes:
            self._handle(epochs.ControlReceived(change))

    def is_ready(self) -> bool:
        # Results leave only while the operator is ready.
        return bool(self._unsent) or not self._machine.is_full

    def is_drained(self) -> bool:
        if not self._has_ended:
            self._has_ended = True
            self._handle(epochs.InputEnded())
        return self._machine.is_drained

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._handle(epochs.BarrierReceived(barrier.checkpoint_id))
        frozen = super().snapshot_state(barrier)
        self._handle(epochs.BarrierPassed(barrier.checkpoint_id))
        return frozen

    def handle_coordinator_event(self, event: CoordinatorEvent | FromLeader) -> None:
        """A message of the leader. What it leads to must not be emitted after the barrier of a stop."""
        assert isinstance(event, FromLeader), "only the leader of the epochs sends something to a stage"
        self._from_leader.append(event)
        self.context.mailbox(lambda: self._handle(self._from_leader.popleft()))

    def _handle(self, event: ShareEvent) -> None:
        """Commands may lead to further events, which come after the other commands."""
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        while self._events:
            now_ms = self.context.processing_time.now_ms()
            for command in self._machine.handle(self._events.popleft(), now_ms):
                self._perform(command)
        self._is_handling = False

    # ------------------------------------------------------------ commands

    def _perform(self, command: ShareCommand) -> None:
        match command:
            case epochs.SendToLeader(message):
                self._send(message)
            case epochs.StartRun(number, offers):
                self._started_ms[number] = self.context.processing_time.now_ms()
                self.run_epoch(number, offers, lambda parts: self._returned(number, parts))
            case epochs.CollectResults(number, part):
                self._collect(number, part)
            case epochs.EmitEpoch(number):
                self._begin_emission(number)
            case epochs.ForwardControl(element):
                self._forward(element)
            case epochs.SpillRecords(number):
                self._tables.spill(number)
                self.share_spilled(number, self._tables.tables(number))
            case epochs.WakeAt(timestamp_ms):
                wake = epochs.TimePassed()
                self.context.processing_time.call_at(timestamp_ms, lambda: self._handle(wake))
            case epochs.StoreShares():
                self._store(command)

    def _send(self, message: ToLeader) -> None:
        if isinstance(message, ShareEnded):
            offer = self.offer_share(message.number, self._tables.tables(message.number))
            message = replace(message, offer=offer)
        if self._leader is None:
            self.context.send_to_coordinator(message)
        else:
            self._events += [answer for _, answer in self._leader.handle(0, message)]

    def _returned(self, number: int, parts: Sequence[Any]) -> None:
        started_ms = self._started_ms.pop(number, None)
        if started_ms is not None:
            # Not a run that was repeated.
            run_ms = self.context.processing_time.now_ms() - started_ms
            self._runs = self._runs.after(max(0, run_ms))
        self._handle(epochs.RunReturned(number, tuple(parts)))

    def _collect(self, number: int, part: Any) -> None:
        results = self.collect_results(number, part)
        starts = range(0, results.num_rows, self.most_emitted)
        self._results[number] = [results.slice(start, self.most_emitted) for start in starts]
        if self.context.parallelism > 1 and results.num_rows:
            self._stored_results.add(number, results)
        self._handle(epochs.ResultsArrived(number))

    def _begin_emission(self, number: int) -> None:
        self._tables.drop(number)
        self._stored_results.drop(number)
        self._unsent.extend(self._results.pop(number))
        self._emit_soon(number)

    def _emit_soon(self, number: int) -> None:
        """The task's loop runs what is due only while downstream takes records."""
        clock = self.context.processing_time
        clock.call_at(clock.now_ms(), lambda: self._emit_next(number))

    def _emit_next(self, number: int) -> None:
        if self._unsent:
            results = self._unsent.popleft()
            self.emit_results(results)
            self._records_out += results.num_rows
        if self._unsent:
            self._emit_soon(number)
        else:
            self._handle(epochs.ResultsEmitted(number))

    def _store(self, stored: epochs.StoreShares) -> None:
        assert self._tables.epochs() == list(stored.numbers), "the state is not what the epochs hold"
        # The only subtask may number its epochs from 1 again when no checkpoint contains one of them.
        is_needed = self.context.parallelism > 1 or stored.numbers or stored.emitting is not None
        self._progress.update([(stored.began, stored.gathering)] if is_needed else [])
        for number in self._stored_results.epochs():
            if number <= stored.began:
                self._stored_results.drop(number)
        for table in self._unsent:
            self._stored_results.add(stored.began, table)

    def _forward(self, element: Watermark | WatermarkStatus) -> None:
        if isinstance(element, Watermark):
            self.output.emit_watermark(element.timestamp_ms)
        else:
            self.output.emit_status(element.is_idle)
