"""The operator around `protocol.epochs`: gathers Arrow tables and runs epochs outside the task's loop."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable

import pyarrow as pa

from ..protocol import epochs
from ..protocol.elements import Batch, CheckpointBarrier, Watermark, WatermarkStatus
from ..protocol.epochs import EpochCommand, EpochEvent, EpochLimits, EpochMachine
from ..state.epoch_tables import EpochTablesDescriptor
from .base import FrozenOperator, StreamOperator


class EpochStageOperator(StreamOperator):
    """Gathers records, runs them epoch by epoch somewhere else, and emits the results when they arrive.

    A barrier waits for no run: records without results, and results that have not been emitted, are operator
    state. A subclass says how records become tables, where epochs run, and how results leave.

    Args:
        limits: What bounds the epochs.
    """

    STATE_NAME = "_epochs"
    RESULTS_NAME = "_epoch_results"
    most_emitted = 4_096
    """A barrier waits at most until this number of results has been emitted."""

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits

    # ------------------------------------------------------------ what a subclass says

    @abstractmethod
    def to_table(self, batch: Batch) -> pa.Table:
        """The records of a batch."""

    @abstractmethod
    def start_runner(self, started: Callable[[], None]) -> None:
        """Prepare to run epochs; `started` is to be called when they can run, on the task's loop."""

    @abstractmethod
    def run_epoch(self, number: int, tables: list[pa.Table], finished: Callable[[pa.Table], None]) -> None:
        """Begin to run an epoch, without waiting for it.

        Args:
            number: Of the epoch.
            tables: Its records.
            finished: To be called with the results, on the task's loop.
        """

    @abstractmethod
    def emit_results(self, results: pa.Table) -> None:
        """Emit some results of an epoch."""

    # ------------------------------------------------------------ life cycle

    def declare_states(self) -> None:
        """Without a runner."""
        where = f"operator {self.context.name_with_subtask}"
        states = self.context.operator_state
        self._tables = states.get_epoch_tables(EpochTablesDescriptor(self.STATE_NAME, where))
        self._stored_results = states.get_epoch_tables(EpochTablesDescriptor(self.RESULTS_NAME, where))

    def open(self) -> None:
        self.declare_states()
        self._machine = EpochMachine(self._limits)
        self._results: dict[int, pa.Table] = {}
        self._unsent: deque[pa.Table] = deque()
        self._has_ended = False
        self._restore_results()
        for number in self._tables.epochs():
            tables = self._tables.tables(number)
            records, size_bytes = sum(map(len, tables)), sum(table.nbytes for table in tables)
            self._handle(epochs.EpochRestored(number, records, size_bytes, size_bytes))
        self.start_runner(lambda: self._handle(epochs.RunnerStarted()))

    def _restore_results(self) -> None:
        for number in self._stored_results.epochs():
            self._unsent += self._stored_results.tables(number)
        if self._unsent:
            self._handle(epochs.ResultsRestored())

    # ------------------------------------------------------------ events

    def process_batch(self, batch: Batch, input_index: int) -> None:
        table = self.to_table(batch)
        if table.num_rows:
            self._tables.add(self._machine.gathering, table)
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
        return self._machine.is_empty

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._handle(epochs.BarrierReceived(barrier.checkpoint_id))
        return super().snapshot_state(barrier)

    def _finished(self, number: int, results: pa.Table) -> None:
        if self._machine.phases.get(number) is not epochs.EpochPhase.RUNNING:
            # A run that was repeated: the first results count.
            return
        self._results[number] = results
        self._handle(epochs.EpochFinished(number))

    def _handle(self, event: EpochEvent) -> None:
        for command in self._machine.handle(event, self.context.processing_time.now_ms()):
            self._perform(command)

    # ------------------------------------------------------------ commands

    def _perform(self, command: EpochCommand) -> None:
        match command:
            case epochs.StartEpoch(number):
                tables = self._tables.tables(number)
                self.run_epoch(number, tables, lambda results: self._finished(number, results))
            case epochs.EmitEpoch(number):
                self._begin_emission(number)
            case epochs.ForwardControl(element):
                self._forward(element)
            case epochs.SpillRecords(number):
                self._tables.spill(number)
            case epochs.WakeAt(timestamp_ms):
                wake = epochs.TimePassed()
                self.context.processing_time.call_at(timestamp_ms, lambda: self._handle(wake))
            case epochs.StoreEpochs(numbers):
                assert self._tables.epochs() == list(numbers), "the state is not what the epochs hold"
                self._store_results()

    def _begin_emission(self, number: int) -> None:
        if number != epochs.RESTORED_RESULTS:
            self._tables.drop(number)
            results = self._results.pop(number)
            starts = range(0, results.num_rows, self.most_emitted)
            self._unsent.extend(results.slice(start, self.most_emitted) for start in starts)
        self._emit_soon(number)

    def _emit_soon(self, number: int) -> None:
        """The task's loop runs what is due only while downstream takes records."""
        clock = self.context.processing_time
        clock.call_at(clock.now_ms(), lambda: self._emit_next(number))

    def _emit_next(self, number: int) -> None:
        if self._unsent:
            self.emit_results(self._unsent.popleft())
        if self._unsent:
            self._emit_soon(number)
        else:
            self._handle(epochs.ResultsEmitted(number))

    def _store_results(self) -> None:
        for number in self._stored_results.epochs():
            self._stored_results.drop(number)
        for table in self._unsent:
            self._stored_results.add(epochs.RESTORED_RESULTS, table)

    def _forward(self, element: Watermark | WatermarkStatus) -> None:
        if isinstance(element, Watermark):
            self.output.emit_watermark(element.timestamp_ms)
        else:
            self.output.emit_status(element.is_idle)
