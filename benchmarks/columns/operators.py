"""One operator alone: running count and sum, counts per window; with state and a checkpoint each second."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tidegate.common.typeinfo import Types
from tidegate.operators.base import StreamOperator
from tidegate.operators.columnar.aggregate_functions import Count
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columnar_aggregate import Aggregates, ColumnarAggregateOperator
from tidegate.operators.columnar.columnar_windows import ColumnarWindowOperator
from tidegate.operators.columnar.columns import as_timestamps
from tidegate.operators.functions import KeyedProcessFunction
from tidegate.operators.keyed.keyed import KeyedProcessOperator
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.protocol.elements import Batch
from tidegate.state.backend import StateBackend
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend

from ..parts import row
from .common import (
    ROUNDS,
    SCHEMA,
    OneOperator,
    Rate,
    batches,
    count_and_sum,
    median,
    prepare_process,
    timed,
)

WINDOW_MS = 10_000
RECORDS_PER_MS = 10


class CountAndSum(KeyedProcessFunction):
    """The same as a row function."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("pair", pair))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count, total = self.state.value() or (0, 0)
        self.state.update((count + 1, total + value[1]))
        yield value[0], count + 1, total + value[1]


def measured(
    make: Callable[[], StreamOperator],
    inputs: list[Batch],
    seconds: float,
    backend: StateBackend | None = None,
) -> tuple[Rate, float]:
    """The median rate, and the longest synchronous part of a checkpoint in milliseconds."""
    rates: list[Rate] = []
    longest_ms = 0.0
    for _ in range(ROUNDS):
        directory = tempfile.mkdtemp(prefix="tidegate-bench-")
        one = OneOperator(make(), backend or HashMapStateBackend(), directory)
        try:
            one.run(inputs, seconds / 4)
            part: list[Rate] = []
            with timed(1, part):
                records = one.run(inputs, seconds)
            rates.append(Rate(part[0].wall * records, part[0].cpu * records))
            longest_ms = max([longest_ms, *one.sync_ms])
        finally:
            one.close()
            shutil.rmtree(directory, ignore_errors=True)
    return median(rates), longest_ms


def main() -> None:
    prepare_process()
    seconds = 0.3 if "--quick" in sys.argv else 3.0
    for rows in (65_536, 16_384, 4_096):
        inputs = [Batch(batch) for batch in batches(10_000, rows)]
        rate, sync_ms = measured(lambda: ColumnarAggregateOperator(count_and_sum()), inputs, seconds)
        row(
            f"running count and sum, 10k keys, batches of {rows:,}: ≥ 5 M/s",
            f"{rate.text}; synchronous part at most {sync_ms:.1f} ms",
            rate.wall >= 5 if rows == 65_536 else None,
        )
    inputs = [Batch(batch) for batch in batches(10_000, 65_536)]
    rate, _ = measured(
        lambda: ColumnarAggregateOperator(count_and_sum()), inputs, seconds, LmdbStateBackend()
    )
    row("the same in LMDB, batches of 65,536", rate.text, None)
    many = [Batch(batch) for batch in batches(1_000_000, 65_536)]
    rate, sync_ms = measured(lambda: ColumnarAggregateOperator(count_and_sum()), many, seconds)
    row("the same with 1M keys", f"{rate.text}; synchronous part at most {sync_ms:.1f} ms", None)
    rows_of = [Batch(list(zip(*batch.to_pydict().values()))) for batch in batches(10_000, 4_096)]
    rate, _ = measured(lambda: KeyedProcessOperator(CountAndSum(), _first), rows_of, seconds)
    row("a KeyedProcessFunction on tuples, 10k keys, batches of 4,096", rate.text, None)
    windows(seconds)


def windows(seconds: float) -> None:
    """Counts of 1,000 keys per ten seconds of event time."""
    rows, count = 65_536, 200 if seconds > 1 else 20
    inputs = []
    for number, batch in enumerate(batches(1_000, rows, 8) * (count // 8)):
        times = (np.arange(rows) + number * rows) // RECORDS_PER_MS
        inputs.append(Batch(batch, as_timestamps(times)))
    wanted = Aggregates(ColumnKey("k", SCHEMA), {"count": Count()}, SCHEMA)
    rates: list[Rate] = []
    for _ in range(ROUNDS):
        directory = tempfile.mkdtemp(prefix="tidegate-bench-")
        operator = ColumnarWindowOperator(wanted, (WINDOW_MS, WINDOW_MS, 0))
        one = OneOperator(operator, HashMapStateBackend(), directory)
        try:
            with timed(rows * len(inputs), rates):
                for batch in inputs:
                    one.step(batch)
                    assert batch.timestamps is not None
                    operator.process_watermark(batch.timestamps[-1])
        finally:
            one.close()
            shutil.rmtree(directory, ignore_errors=True)
        assert operator.late_records.count == 0
    rate = median(rates)
    row("tumbling 10 s count per key, 1,000 keys: ≥ 1.25 M/s", rate.text, rate.wall >= 1.25)


def _first(record: Any) -> Any:
    return record[0]


if __name__ == "__main__":
    main()
