"""Which engine for running aggregates: count and sum up to each record of its key, one batch at a time.

Each contender gets a batch and the state of 10,000 keys, and gives the running count and sum of each record
and the state after the batch. DuckDB takes part if it is installed.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from tidegate.operators.columnar.grouping import Grouping
from tidegate.operators.columnar.key_slots import IntegerSlots
from tidegate.operators.running_folds import SUM

from ..parts import row
from .common import ROUNDS, Rate, batches, median, prepare_process, timed

Array = npt.NDArray[np.int64]
KEYS = 10_000


class NumpyEngine:
    """What the operator does: slots by hashing, records grouped by a radix sort, one running sum."""

    def __init__(self) -> None:
        self.slots = IntegerSlots()
        self.counts = np.zeros(1 << 16, np.int64)
        self.sums = np.zeros(1 << 16, np.int64)

    def process(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        slots = self.slots.find(batch["k"])
        assert slots is not None
        grouping = Grouping(slots)
        counts = grouping.running_count(self.counts[grouping.codes], None)
        values = batch["v"].to_numpy()[grouping.order]
        sums = grouping.running(SUM, self.sums[grouping.codes], values)
        self.counts[grouping.codes] = counts[grouping.ends]
        self.sums[grouping.codes] = sums[grouping.ends]
        return grouping.in_order(counts), grouping.in_order(sums)


class PolarsEngine:
    """Window expressions over the key, joined with the state, which is a frame."""

    def __init__(self) -> None:
        self.state = pl.DataFrame(schema={"k": pl.Int64, "count": pl.Int64, "sum": pl.Int64})

    def process(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        running = frame.join(self.state, on="k", how="left", maintain_order="left").select(
            "k",
            (pl.int_range(1, pl.len() + 1).over("k") + pl.col("count").fill_null(0)).alias("count"),
            (pl.col("v").cum_sum().over("k") + pl.col("sum").fill_null(0)).alias("sum"),
        )
        last = running.group_by("k").last()
        self.state = pl.concat([self.state.join(last, on="k", how="anti"), last])
        return running["count"].to_numpy(), running["sum"].to_numpy()


class DuckdbEngine:
    """Window functions over the key, joined with the state, which is a table."""

    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("CREATE TABLE state (k BIGINT PRIMARY KEY, count BIGINT, sum BIGINT)")

    def process(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        table = pa.table({"k": batch["k"], "v": batch["v"], "place": np.arange(len(batch))})
        self.connection.register("batch", table)
        running = self.connection.execute(
            "SELECT k, coalesce(state.count, 0) + row_number() OVER w AS count,"
            " coalesce(state.sum, 0) + sum(v) OVER w AS sum, place FROM batch LEFT JOIN state USING (k)"
            " WINDOW w AS (PARTITION BY k ORDER BY place ROWS UNBOUNDED PRECEDING) ORDER BY place"
        ).to_arrow_table()
        self.connection.register("running", running)
        self.connection.execute(
            "INSERT OR REPLACE INTO state SELECT k, max(count), arg_max(sum, place) FROM running GROUP BY k"
        )
        return running["count"].to_numpy(), running["sum"].to_numpy().astype(np.int64)


class DictEngine:
    """A loop in Python over a dict."""

    def __init__(self) -> None:
        self.state: dict[int, tuple[int, int]] = {}

    def process(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        state, results = self.state, []
        for key, value in zip(batch["k"].to_pylist(), batch["v"].to_pylist()):
            count, total = state.get(key, (0, 0))
            state[key] = now = count + 1, total + value
            results.append(now)
        counts, sums = zip(*results)
        return np.array(counts), np.array(sums)


ENGINES: dict[str, Callable[[], NumpyEngine | PolarsEngine | DuckdbEngine | DictEngine]] = {
    "NumPy": NumpyEngine,
    "Polars": PolarsEngine,
    "DuckDB": DuckdbEngine,
    "a Python loop": DictEngine,
}


def main() -> None:
    prepare_process()
    seconds = 0.2 if "--quick" in sys.argv else 1.5
    for rows in (65_536, 4_096):
        inputs = batches(KEYS, rows, 8)
        expected = DictEngine()
        answers = [expected.process(batch) for batch in inputs]
        for name, make in ENGINES.items():
            if name == "DuckDB" and importlib.util.find_spec("duckdb") is None:
                continue
            engine = make()
            for batch, (counts, sums) in zip(inputs, answers, strict=True):
                found = engine.process(batch)
                assert np.array_equal(found[0], counts)
                assert np.array_equal(found[1], sums)
            rates: list[Rate] = []
            for _ in range(ROUNDS):
                start, done = time.perf_counter(), 0
                part: list[Rate] = []
                with timed(1, part):
                    while time.perf_counter() - start < seconds:
                        engine.process(inputs[done % len(inputs)])
                        done += 1
                rates.append(Rate(part[0].wall * done * rows, part[0].cpu * done * rows))
            row(
                f"running count and sum of 10k keys with {name}, batches of {rows:,}",
                median(rates).text,
                None,
            )


if __name__ == "__main__":
    main()
