"""The operator around `protocol.epochs`: gathers Arrow tables and runs epochs outside the task's loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ..protocol import epochs
from ..protocol.elements import Batch, CheckpointBarrier, Watermark, WatermarkStatus
from ..protocol.epochs import EpochCommand, EpochEvent, EpochLimits, EpochMachine
from ..state.epoch_tables import EpochTablesDescriptor, EpochTablesState
from .base import FrozenOperator, StreamOperator


class EpochStageOperator(StreamOperator):
    """Gathers records, runs them epoch by epoch somewhere else, and emits the results when they arrive.

    A barrier waits for no run: records whose results have not been emitted are operator state. A subclass
    says how records become tables, where epochs run, and how results leave.

    Args:
        limits: What bounds the epochs.
    """

    STATE_NAME = "_epochs"

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
    def run_epoch(self, number: int, tables: list[pa.Table], finished: Callable[[Any], None]) -> None:
        """Begin to run an epoch, without waiting for it.

        Args:
            number: Of the epoch.
            tables: Its records.
            finished: To be called with the results, on the task's loop.
        """

    @abstractmethod
    def emit_results(self, results: Any) -> None:
        """Emit all results of an epoch."""

    # ------------------------------------------------------------ life cycle

    def declare_states(self) -> None:
        """Without a runner."""
        where = f"operator {self.context.name_with_subtask}"
        descriptor = EpochTablesDescriptor(self.STATE_NAME, where)
        self._tables: EpochTablesState = self.context.operator_state.get_epoch_tables(descriptor)

    def open(self) -> None:
        self.declare_states()
        self._machine = EpochMachine(self._limits)
        self._results: dict[int, Any] = {}
        self._has_ended = False
        for number in self._tables.epochs():
            tables = self._tables.tables(number)
            records, size_bytes = sum(map(len, tables)), sum(table.nbytes for table in tables)
            self._handle(epochs.EpochRestored(number, records, size_bytes, size_bytes))
        self.start_runner(lambda: self._handle(epochs.RunnerStarted()))

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
        return not self._machine.is_full

    def is_drained(self) -> bool:
        if not self._has_ended:
            self._has_ended = True
            self._handle(epochs.InputEnded())
        return self._machine.is_empty

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._handle(epochs.BarrierReceived(barrier.checkpoint_id))
        return super().snapshot_state(barrier)

    def _finished(self, number: int, results: Any) -> None:
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
                self._tables.drop(number)
                self.emit_results(self._results.pop(number))
            case epochs.ForwardControl(element):
                self._forward(element)
            case epochs.SpillRecords(number):
                self._tables.spill(number)
            case epochs.WakeAt(timestamp_ms):
                wake = epochs.TimePassed()
                self.context.processing_time.call_at(timestamp_ms, lambda: self._handle(wake))
            case epochs.StoreEpochs(numbers):
                assert self._tables.epochs() == list(numbers), "the state is not what the epochs hold"

    def _forward(self, element: Watermark | WatermarkStatus) -> None:
        if isinstance(element, Watermark):
            self.output.emit_watermark(element.timestamp_ms)
        else:
            self.output.emit_status(element.is_idle)
