"""A running count and sum over Arrow batches, by one operator with a checkpoint each second."""

from __future__ import annotations

import argparse
import statistics
import tempfile

import numpy as np
import pyarrow as pa
from tidegate.operators.columnar.aggregate_functions import Count, Sum
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columnar_aggregate import Aggregates, ColumnarAggregateOperator
from tidegate.protocol.elements import Batch
from tidegate.state.backend import StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend

from ..parts import row
from .alone import OneOperator, prepare_process

ROUNDS = 3
FEW, MANY = 10_000, 1_000_000
"""Keys. The operator's cache of columns has places for fewer than the larger number."""
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
GOALS = {FEW: 5.0, MANY: 3.0}
"""Million records per second."""


def batches(keys: int, rows: int) -> list[Batch]:
    """Uniformly random keys, spread over the integers, with small values."""
    random = np.random.default_rng(7)
    columns = ((random.integers(0, keys, rows) * 1_000_003, random.integers(0, 100, rows)) for _ in range(32))
    return [Batch(pa.record_batch({"k": key, "v": value}, schema=SCHEMA)) for key, value in columns]


def measured(inputs: list[Batch], seconds: float, backend: StateBackend) -> tuple[float, float]:
    """Million records per second (the median), and the longest synchronous part of a checkpoint in ms."""
    rates, longest_ms = [], 0.0
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
            aggregates = Aggregates(ColumnKey("k", SCHEMA), {"count": Count(), "total": Sum("v")}, SCHEMA)
            one = OneOperator(ColumnarAggregateOperator(aggregates), backend, directory)
            one.run(inputs, seconds / 4)
            rates.append(one.run(inputs, seconds) / 1e6)
            longest_ms = max([longest_ms, *one.sync_ms])
            one.close()
    return statistics.median(rates), longest_ms


def main() -> None:
    """Measure and print a row for each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators.columns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    seconds = 0.3 if parser.parse_args().quick else 3.0
    prepare_process()
    for keys, rows in ((FEW, 65_536), (FEW, 4_096), (MANY, 65_536)):
        inputs = batches(keys, rows)
        for name, backend in (("memory", HashMapStateBackend()), ("LMDB", LmdbStateBackend())):
            rate, sync_ms = measured(inputs, seconds, backend)
            row(
                f"count and sum, {keys:,} keys in {name}, batches of {rows:,}: >= {GOALS[keys]:g} M/s",
                f"{rate:.2f} M/s; synchronous part at most {sync_ms:.1f} ms",
                rate >= GOALS[keys],
            )


if __name__ == "__main__":
    main()
