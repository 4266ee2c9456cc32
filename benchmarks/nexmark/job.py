"""One query on Tidegate; run as `python -m benchmarks.nexmark.job <orders>`.

What is left of a query's results is dropped by a last function that keeps them for the check: tuples in
lists, or Arrow batches as they are. The clock stops when that function is closed.
"""

from __future__ import annotations

import pickle
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tidegate.datastream import FilterFunction, RuntimeContext, Sink, SinkWriter, StreamExecutionEnvironment

from ..jobs.parts import configuration
from ..peers.measure import Orders, leave_mark
from .source import stream


class KeptRecords(Sink):
    """Takes tuples."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders

    def create_writer(self) -> SinkWriter:
        return _RecordKeeper(self.orders)


class _RecordKeeper(SinkWriter):
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._taken: list[list[Any]] = []

    def write_batch(self, values: list[Any]) -> None:
        self._taken.append(values)

    def close(self) -> None:
        leave_mark(self._orders.marks_dir, "end", last_ns=time.monotonic_ns())
        _save(self._orders, [row for values in self._taken for row in values])


class KeptBatches(FilterFunction):
    """Takes Arrow batches, and lets nothing through."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, runtime_context: RuntimeContext) -> None:
        self._taken: list[pa.RecordBatch] = []

    def filter_batch(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        self._taken.append(batch)
        return np.zeros(len(batch), dtype=bool)

    def filter(self, value: Any) -> bool:
        raise TypeError("the stream has Arrow batches")

    def close(self) -> None:
        leave_mark(self._orders.marks_dir, "end", last_ns=time.monotonic_ns())
        columns = [list(zip(*map(pa.Array.to_pylist, batch.columns), strict=True)) for batch in self._taken]
        _save(self._orders, [row for batch in columns for row in batch])


def _save(orders: Orders, rows: list[Any]) -> None:
    (Path(orders.state_dir) / "results.pickle").write_bytes(pickle.dumps(rows, 5))


def build(orders: Orders) -> StreamExecutionEnvironment:
    """The job, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders)).set_parallelism(1)
    results = query(orders)(stream(env, orders.events, orders.marks_dir))
    if results.columns is None:
        results.sink_to(KeptRecords(orders))
    else:
        results.filter_batches(KeptBatches(orders))
    return env


def query(orders: Orders) -> Any:
    """The function that makes the query's stream of the stream of events."""
    folder = "queries" if orders.events.endswith(".pickle") else "columns"
    return getattr(import_module(f".{folder}.{orders.workload}", __package__), orders.workload)


if __name__ == "__main__":
    build(Orders.from_argv()).execute("nexmark")
