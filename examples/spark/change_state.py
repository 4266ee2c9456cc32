"""Change a job's state with Spark, and resume the job.

A job keeps the points of customers. Spark reads them from a savepoint (here: the checkpoint at the end of the
job), doubles those of gold customers, and adds one from an older system. The job goes on with the result.

    python examples/spark/change_state.py [directory]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Types
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.spark_bridge import SavepointWriter, local_spark, read_savepoint
from tidegate.state import read_snapshot

ORDERS = [("ann", 10), ("bob", 20), ("ann", 5), ("cid", 7), ("ann", 1), ("dan", 4)]


class Points(KeyedProcessFunction):
    """Adds up the points of each customer."""

    def open(self, runtime_context: Any) -> None:
        self.points = runtime_context.get_state(ValueStateDescriptor("points", Types.LONG()))

    def process_element(self, order: Any, ctx: Any) -> None:
        self.points.update((self.points.value() or 0) + order[1])


def run(orders: list[tuple[str, int]], directory: Path, start_from: str = "") -> str:
    """Run the job on some orders; returns its last checkpoint."""
    configuration = Configuration()
    settings = {
        "execution.target": "local",
        "execution.checkpointing.interval": "1 min",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "tidegate.checkpointing.retain-on-finish": "true",
        "execution.state-recovery.path": start_from,
    }
    for key, value in settings.items():
        if value:
            configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    by_customer = (
        env.from_collection(orders).uid("orders").key_by(lambda order: order[0], key_type=Types.STRING())
    )
    by_customer.process(Points()).uid("points").add_sink(lambda result: None).uid("nothing")
    return str(env.execute("points").report.newest_checkpoint)


def changed(spark: Any, path: str, target: Path) -> str:
    """A savepoint like the one at `path`, with other points."""
    before = read_savepoint(spark, path).keyed_state("points", "points").select("key", "value")
    gold = spark.createDataFrame([("ann", True), ("bob", True)], "key string, is_gold boolean")
    doubled = before.join(gold, "key", "left").selectExpr("key", "if(is_gold, value * 2, value) as value")
    older = spark.createDataFrame([("dan", 100)], "key string, value long")
    writer = SavepointWriter.from_existing_savepoint(spark, path)
    return writer.with_keyed_state("points", "points", doubled.union(older)).write(str(target))


def points(path: str) -> dict[str, int]:
    """The points in a checkpoint."""
    return {entry.key: entry.value for entry in read_snapshot(path).keyed_state("points", "points").entries()}


def main(directory: Path) -> None:
    first = run(ORDERS[:4], directory)
    print("before", dict(sorted(points(first).items())))
    with local_spark() as spark:
        path = changed(spark, first, directory / "changed")
    print("changed", dict(sorted(points(path).items())))
    # All orders: the source goes on behind those that it had given out.
    print("after", dict(sorted(points(run(ORDERS, directory, path)).items())))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
