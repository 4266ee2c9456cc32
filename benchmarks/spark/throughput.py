"""Rows through a stage, compared with Spark alone: a batch job, and Structured Streaming with `foreachBatch`.

    python -m benchmarks.spark.throughput [--quick] [--rows 10000000] [--rounds 3]

All of them read the same Parquet files (ten, one for each epoch or micro-batch), filter the rows, join them
with a table of 1,000 rows, and write Parquet files, on one local session of two cores, in turns. Each answer
is checked. The job with a stage is measured from `execute()` to its end, with its source and its exactly-once
sink. It also runs with a checkpoint each second, and with two subtasks of each operator.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tidegate.common import WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink, FileSource

from ..parts import row
from .common import configuration, seconds, spark_session

ROWS = pa.schema([("id", pa.int64()), ("item", pa.int64()), ("amount", pa.float64())])
RESULT = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string())])
ITEMS = 1_000
FILES = 10
BATCH_GOAL, BATCH_GOAL_OF_TWO, STREAMING_GOAL = 0.5, 0.8, 1.2
CHECKPOINTS_GOAL, SYNC_GOAL_MS = 0.95, 20.0


@dataclass
class Work:
    """The input of a run, and where its output goes.

    Attributes:
        directory: For everything.
        rows: How many there are.
        sync_ms: Of all checkpoints, the longest synchronous part of any task.
    """

    directory: Path
    rows: int
    sync_ms: list[float] = field(default_factory=list)

    @property
    def input(self) -> Path:
        return self.directory / "input"

    def output(self) -> str:
        """A directory that is not there."""
        shutil.rmtree(self.directory / "output", ignore_errors=True)
        return str(self.directory / "output")

    def write(self) -> None:
        """Write the input."""
        self.input.mkdir()
        numbers = np.random.default_rng(7)
        size = self.rows // FILES
        for file in range(FILES):
            columns = {
                "id": np.arange(file * size, (file + 1) * size),
                "item": numbers.integers(0, ITEMS, size),
                "amount": numbers.uniform(-100, 100, size),
            }
            pq.write_table(pa.table(columns, ROWS), self.input / f"rows-{file}.parquet")

    def check(self) -> None:
        """Compare the output with what PyArrow filters.

        Raises:
            AssertionError: It has other rows.
        """
        amounts = pq.read_table(self.input, columns=["amount"])["amount"].to_numpy()
        found = pq.read_table(self.directory / "output")
        ids = found["id"].to_numpy()
        assert len(ids) == len(np.unique(ids)) == int((amounts > 0).sum()), "rows are missing or repeated"
        assert np.isclose(found["amount"].to_numpy().sum(), amounts[amounts > 0].sum()), "other amounts"


def joined(frame: Any) -> Any:
    """The work: a filter, and a join with a small table."""
    items = frame.sparkSession.range(ITEMS).selectExpr("id as item", "concat('item-', id) as name")
    return frame.where("amount > 0").join(items.hint("broadcast"), "item").select("id", "amount", "name")


def batch(spark: Any, work: Work) -> None:
    """One Spark job over all files."""
    joined(spark.read.parquet(str(work.input))).write.parquet(work.output())


def structured_streaming(spark: Any, work: Work) -> None:
    """A micro-batch for each file, as a PySpark program would run it."""
    output = work.output()
    shutil.rmtree(work.directory / "streaming", ignore_errors=True)
    source = spark.readStream.schema("id long, item long, amount double").option("maxFilesPerTrigger", 1)

    def write(frame: Any, number: int) -> None:
        joined(frame).write.mode("overwrite").parquet(f"{output}/batch={number}")

    query = source.parquet(str(work.input)).writeStream.foreachBatch(write).trigger(availableNow=True)
    query.option("checkpointLocation", str(work.directory / "streaming")).start().awaitTermination()


def stage(work: Work, interval_ms: int | None = None, parallelism: int = 1) -> None:
    """The same through a stage, with an epoch for as many rows as a file has."""
    settings = configuration()
    settings.set_string("execution.checkpointing.dir", str(work.directory / "checkpoints"))
    settings.set_string("tidegate.local-dir", str(work.directory / "local"))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(parallelism)
    if interval_ms is not None:
        env.enable_checkpointing(interval_ms)
    source = FileSource([str(path) for path in sorted(work.input.iterdir())], ROWS.names, as_columns=True)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    results = rows.spark_stage(joined, RESULT, ROWS, max_epoch_records=work.rows // FILES).uid("stage")
    results.set_parallelism(parallelism).sink_to(FileSink(work.output(), RESULT)).uid("files")
    done = env.execute()
    if interval_ms is not None:
        work.sync_ms += [checkpoint.sync_ms for checkpoint in done.report.statistics.checkpoints]


def report(spark: Any, work: Work, rounds: int) -> None:
    """Run everything in turns, and print the rows of the table."""
    work.write()
    runs: dict[str, Callable[[], None]] = {
        "a stage": lambda: stage(work),
        "a stage with two subtasks": lambda: stage(work, parallelism=2),
        "a batch job": lambda: batch(spark, work),
        "Structured Streaming": lambda: structured_streaming(spark, work),
        "a stage, a checkpoint per second": lambda: stage(work, 1_000),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, action in runs.items():
            took_s = seconds(action)
            work.check()
            # Java is not warm in the first round.
            if number:
                times[name].append(took_s)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, found in times.items():
        spread = f"{medians[name]:.2f} s ({min(found):.2f} to {max(found):.2f})"
        text = f"{work.rows / medians[name]:,.0f} rows/s, {spread}"
        row(f"{work.rows:,} rows through {name}", text, None)
    ours = medians["a stage"]
    for what, other, goal in (
        ("a stage", "a batch job", BATCH_GOAL),
        ("a stage with two subtasks", "a batch job", BATCH_GOAL_OF_TWO),
        ("a stage", "Structured Streaming", STREAMING_GOAL),
    ):
        ratio = medians[other] / medians[what]
        row(f"throughput of {what} relative to {other}, at least {goal}", f"{ratio:.2f}", ratio >= goal)
    share = ours / medians["a stage, a checkpoint per second"]
    row(
        f"with a checkpoint per second relative to none, at least {CHECKPOINTS_GOAL}",
        f"{share:.2f}",
        share >= CHECKPOINTS_GOAL,
    )
    longest_ms = max(work.sync_ms, default=0.0)
    row(
        f"synchronous part of {len(work.sync_ms)} checkpoints, at most {SYNC_GOAL_MS:g} ms",
        f"longest {longest_ms:.1f} ms",
        longest_ms <= SYNC_GOAL_MS,
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.throughput")
    parser.add_argument("--quick", action="store_true", help="one round with 200,000 rows")
    parser.add_argument("--rows", type=int, default=10_000_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args()
    rows, rounds = (200_000, 1) if options.quick else (options.rows, options.rounds)
    with spark_session() as session, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        report(session, Work(Path(directory), rows), rounds)


if __name__ == "__main__":
    main()
