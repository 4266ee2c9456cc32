"""W2 in columns: a running count and sum per key over Arrow batches."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
from tidegate.common import WatermarkStrategy
from tidegate.datastream import Count, Sink, SinkWriter, StreamExecutionEnvironment, Sum
from tidegate.protocol.elements import Batch

from ..peers.measure import Orders, Tally, leave_mark
from .event_time import COLUMNS, InterleavedNumbers
from .parts import configuration


def running(orders: Orders) -> StreamExecutionEnvironment:
    """W2 on Arrow batches, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    numbers = env.from_source(
        InterleavedNumbers(orders, as_columns=True), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    numbers.transformation.columns = COLUMNS
    totals = numbers.key_by("k").aggregate(count=Count(), total=Sum("v")).uid("totals")
    totals.sink_to(ColumnTallySink(orders)).uid("tally")
    return env


class ColumnTallySink(Sink):
    """Counts and sums whole columns."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def create_writer(self) -> SinkWriter:
        return _ColumnTallyWriter(self._orders)


class _ColumnTallyWriter(SinkWriter):
    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, context: Any) -> None:
        leave_mark(self._orders.marks_dir, f"ready-{context.subtask_index}")
        self._tally = Tally(self._orders, context.subtask_index)

    def write_elements(self, batch: Batch) -> None:
        columns = batch.values
        counts, totals = (pc.sum(columns[name]).as_py() for name in ("count", "total"))
        self._tally.add_sums(len(batch), counts, totals)

    def write_batch(self, values: list[Any]) -> None:
        self._tally.add_triples(values)

    def close(self) -> None:
        self._tally.close()
