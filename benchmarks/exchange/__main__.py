"""What it costs to move Arrow data into Spark and out again, each way and each direction by itself.

    python -m benchmarks.exchange [--rows 1000,100000,10000000] [--rounds 5] [--executors 1] [--ways N,…]

One RayDP session. In: a DataFrame is made of a table and read completely, by Spark's `noop` sink. Out: Spark
makes rows (`range` with four columns, 41 bytes a row) and this process gets them as a table. "spark alone"
sends the same rows to `noop`. Times are the best of the rounds, since other processes disturb;
CPU time is that of this process, Ray, the driver's and executors' Java and their Python workers together,
"driver" that of Spark's driver alone.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from tidegate.spark_bridge.failures import cause_of

from .ways import WAYS

SCHEMA = pa.schema(
    [("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)


def table(count: int) -> pa.Table:
    """The rows that go in, in batches like those of a stage."""
    ids = np.arange(count)
    names = pa.array([f"name-{number:07}" for number in range(1_000)])
    columns = [
        pa.array(ids),
        pa.array(ids * 0.5),
        names.take(pa.array(ids % 1_000)),
        pa.array(ids, pa.timestamp("us", "UTC")),
    ]
    whole = pa.table(columns, schema=SCHEMA)
    return pa.Table.from_batches(whole.to_batches(max_chunksize=8_192), SCHEMA)


def rows_of_spark(session: Any, count: int) -> Any:
    """The rows that come out."""
    return session.range(count).selectExpr(
        "id",
        "id * 0.5D as amount",
        "format_string('name-%07d', id % 1000) as name",
        "timestamp_micros(id) as at",
    )


def consume(frame: Any) -> None:
    """Compute all rows of a DataFrame, and drop them where they are."""
    frame.write.format("noop").mode("overwrite").save()


def cpu_s(processes: list[psutil.Process]) -> float:
    """What processes, and those of their children that have ended, have used."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


class Costs:
    """Measures in one session."""

    def __init__(self, session: Any, rounds: int) -> None:
        self.session = session
        self.rounds = rounds
        self.driver = psutil.Process(session.sparkContext._gateway.proc.pid)

    def _everything(self) -> list[psutil.Process]:
        this = psutil.Process()
        return [this, *this.children(recursive=True)]

    def best(self, action: Callable[[], object], clean: Callable[[], None]) -> tuple[float, float, float]:
        """Seconds by the clock, CPU seconds of all processes, and those of the driver: the best of each."""
        found = []
        for _ in range(self.rounds):
            processes = self._everything()
            before, driver = cpu_s(processes), cpu_s([self.driver])
            began_s = time.perf_counter()
            action()
            took_s = time.perf_counter() - began_s
            found.append((took_s, cpu_s(self._everything()) - before, cpu_s([self.driver]) - driver))
            clean()
            gc.collect()
        took, cpu, driven = zip(*found, strict=True)
        return min(took), min(cpu), min(driven)

    def peak_mib(self) -> float:
        """The most memory that the driver's Java has used since its start."""
        with open(f"/proc/{self.driver.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1_024


@contextmanager
def raydp_session(executors: int) -> Any:
    """A Spark session on a Ray of its own."""
    import ray
    import raydp
    from tidegate.spark_bridge.java import require_java
    from tidegate.spark_bridge.settings import SparkSettings, spark_configs

    require_java().use()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    ray.init(num_cpus=4, include_dashboard=False, logging_level=logging.WARNING, object_store_memory=3 << 30)
    with tempfile.TemporaryDirectory() as logs:
        settings = SparkSettings(num_executors=executors, log_dir=logs, configs=CONFIGS)
        # This mode joins the driver's Java to Ray. Ray objects need it, and sessions of jobs do not use it.
        session = raydp.init_spark(
            "exchange", executors, 1, "2g", fault_tolerant_mode=True, configs=spark_configs(settings)
        )
        try:
            yield session
        finally:
            raydp.stop_spark()
            ray.shutdown()


CONFIGS = {"spark.driver.maxResultSize": "4g", "spark.driver.memory": "3g"}
"""Without them the private calls fail with 10 million rows."""


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def report(costs: Costs, counts: list[int], names: list[str]) -> None:
    """Print the table."""
    row("rows", "way", "in: s", "CPU s", "driver", "out: s", "CPU s", "driver", "driver's peak, MiB")
    row(*["---"] * 9)
    for count in counts:
        batch, frame = table(count), rows_of_spark(costs.session, count)
        consume(frame)
        alone = costs.best(lambda: consume(frame), lambda: None)  # noqa: B023
        row(f"{count:,}", "spark alone", "", "", "", *(f"{each:.2f}" for each in alone), "")
        for name in names:
            way = WAYS[name](costs.session)
            try:
                into = costs.best(lambda: consume(way.into(batch)), way.forget)  # noqa: B023
                out = costs.best(lambda: check(way.out(frame, SCHEMA), count), way.forget)  # noqa: B023
            except Exception as error:
                row(f"{count:,}", name, f"failed: {cause_of(error)[:300]}")
                continue
            cells = [f"{each:.2f}" for each in (*into, *out)]
            row(f"{count:,}", name, *cells, f"{costs.peak_mib():.0f}")


def check(found: pa.Table, count: int) -> None:
    assert found.num_rows == count, found.num_rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", default="1000,100000,10000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--executors", type=int, default=1)
    parser.add_argument("--ways", default=",".join(map(str, range(len(WAYS)))), help="numbers, from 0")
    options = parser.parse_args()
    names = [list(WAYS)[int(number)] for number in options.ways.split(",")]
    with raydp_session(options.executors) as session:
        counts = [int(count) for count in options.rows.split(",")]
        report(Costs(session, options.rounds), counts, names)


if __name__ == "__main__":
    main()
