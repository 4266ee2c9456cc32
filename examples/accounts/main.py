"""Join each epoch of payments with a large table that Spark holds, and continue in keyed state.

    python examples/accounts/main.py                          # 50 million accounts, on an embedded Ray
    python examples/accounts/main.py --accounts 200000 --payments 50000 --local

    payments → Spark: region and limit of each account, aggregate → by region: running totals → totals/

Spark reads the accounts once and keeps them in the memory of two executors. Each epoch travels to the
accounts: it is broadcast, and each executor joins it with its part of the accounts. The running
totals are in LMDB, and the sink writes each row exactly once. At the end the totals are compared with those
that NumPy computes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from generated import PAYMENTS, expected_totals, write_accounts, write_payments
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink, FileSource
from tidegate.datastream.state import ValueStateDescriptor

PARALLELISM = 2
EXECUTORS = 2
TOTALS = pa.schema(
    [("region", pa.int32()), ("payments", pa.int64()), ("cents", pa.int64()), ("above_limit", pa.int64())]
)


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    directory: Path
    accounts: int
    payments: int
    epoch_records: int
    executor_memory: str
    is_local: bool


def regions_of_payments(accounts_path: Path) -> Callable[[Any], Any]:
    """What Spark runs on the payments of an epoch."""
    path = f"file://{accounts_path}"

    def aggregate(payments: Any) -> Any:
        from pyspark.sql.functions import broadcast, col, count
        from pyspark.sql.functions import sum as sum_of

        spark = payments.sparkSession
        if not spark.catalog.tableExists("accounts"):
            spark.read.parquet(path).createOrReplaceTempView("accounts")
            spark.catalog.cacheTable("accounts")
        joined = spark.table("accounts").join(broadcast(payments), "account")
        return joined.groupBy("region").agg(
            count("*").alias("payments"),
            sum_of("cents").alias("cents"),
            sum_of((col("cents") > col("limit")).cast("long")).alias("above_limit"),
        )

    return aggregate


class RunningTotals(KeyedProcessFunction):
    """Adds up what the epochs have of each region."""

    def open(self, runtime_context: RuntimeContext) -> None:
        totals = ValueStateDescriptor("totals", Types.TUPLE([Types.LONG()] * 3))
        self._totals = runtime_context.get_state(totals)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        region, *added = value
        totals = tuple(old + new for old, new in zip(self._totals.value() or (0, 0, 0), added))
        self._totals.update(totals)
        yield (region, *totals)


def region_of_row(row: Any) -> int:
    return int(row[0])


def run(options: Options) -> float:
    """Write the input, run the job to its end; how long the job took in seconds."""
    directory = options.directory
    accounts = directory / "accounts"
    write_accounts(accounts, options.accounts)
    splits = write_payments(directory / "payments", options.payments, options.accounts, PARALLELISM)
    for name in ("totals", "checkpoints", "state"):
        shutil.rmtree(directory / name, ignore_errors=True)
    configuration = Configuration()
    for key, value in {
        "execution.target": "local" if options.is_local else "ray",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "state.backend.type": "lmdb",
        "tidegate.local-dir": str(directory / "state"),
        "tidegate.spark.executors": str(EXECUTORS),
        "tidegate.spark.executor-memory": options.executor_memory,
        "tidegate.spark.log-dir": str(directory / "logs"),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(PARALLELISM).enable_checkpointing(1_000)
    source = FileSource(splits, PAYMENTS.names, as_columns=True)
    payments = env.from_source(source, WatermarkStrategy.no_watermarks(), "payments").uid("payments")
    aggregate = regions_of_payments(accounts)
    regions = payments.spark_stage(aggregate, TOTALS, PAYMENTS, max_epoch_records=options.epoch_records)
    totals = (
        regions.name("regions")
        .uid("regions")
        .key_by(region_of_row, key_type=Types.LONG())
        .process(RunningTotals())
        .name("running totals")
        .uid("running-totals")
    )
    totals.sink_to(FileSink(directory / "totals", TOTALS)).name("totals").uid("totals-sink")
    begun_s = time.monotonic()
    env.execute("accounts")
    return time.monotonic() - begun_s


def differences(options: Options) -> list[str]:
    """How the output differs from what NumPy computes. Each running total must be in it once."""
    written = pq.read_table(options.directory / "totals", schema=TOTALS)
    rows = [tuple(row.values()) for row in written.to_pylist()]
    wrong = [f"{row} is there {times} times" for row, times in Counter(rows).items() if times > 1]
    found: dict[int, tuple[int, ...]] = {}
    for region, *totals in sorted(rows):
        found[region] = tuple(totals)
    expected = expected_totals(options.payments, options.accounts)
    for region in sorted(found.keys() | expected.keys()):
        if found.get(region) != expected.get(region):
            wrong.append(f"region {region}: {found.get(region)}, expected {expected.get(region)}")
    return wrong


def parse_options(arguments: list[str]) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--accounts", type=int, default=50_000_000, help="rows of the table; default: %(default)s"
    )
    parser.add_argument("--payments", type=int, default=2_000_000, help="default: %(default)s")
    parser.add_argument(
        "--epoch", type=int, default=250_000, help="payments of an epoch; default: %(default)s"
    )
    parser.add_argument("--executor-memory", default="1536m", help="heap of each; default: %(default)s")
    parser.add_argument("--local", action="store_true", help="run in this process, without Ray")
    parser.add_argument("--directory", type=Path, default=Path("out/accounts"), help="for all files")
    chosen = parser.parse_args(arguments)
    return Options(
        chosen.directory.resolve(),
        chosen.accounts,
        chosen.payments,
        chosen.epoch,
        chosen.executor_memory,
        chosen.local,
    )


def main() -> int:
    """Run and check; the exit code is 0 only if the totals are right."""
    options = parse_options(sys.argv[1:])
    took_s = run(options)
    wrong = differences(options)
    for line in wrong[:10]:
        print(f"different: {line}")
    counts = f"{options.payments:,} payments joined with {options.accounts:,} accounts in {took_s:.1f} s"
    print(f"{counts}: {'different from' if wrong else 'identical with'} NumPy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
