"""A savepoint of a million keys read into Spark, and written from it.

The first read of a session also starts Spark's Python workers and warms Java up, so it stands apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.common import Types
from tidegate.spark_bridge import SavepointWriter, read_savepoint
from tidegate.state.descriptors import ValueStateDescriptor

from ..parts import row
from .common import QUICK, median_seconds, scratch, seconds, spark_session

KEYS = 100_000 if QUICK else 1_000_000
GOAL_S = 10.0
PAIR = ValueStateDescriptor("total", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
COUNT = ValueStateDescriptor("count", Types.LONG())


def written(spark: Any, path: str) -> None:
    """A savepoint with a state of integer keys and one of text keys."""
    numbers = spark.range(KEYS)
    totals = numbers.selectExpr("id as key", "named_struct('f0', id, 'f1', id / 2.0D) as value")
    counts = numbers.selectExpr("concat('user-', id) as key", "id as value")
    writer = SavepointWriter.new_savepoint(spark)
    writer.with_keyed_state("integers", PAIR, totals, key_type=Types.LONG())
    writer.with_keyed_state("texts", COUNT, counts, key_type=Types.STRING())
    writer.write(path)


def read(spark: Any, path: str, uid: str, state: str) -> None:
    """All columns of all rows, into Spark."""
    frame = read_savepoint(spark, path).keyed_state(uid, state)
    frame.write.format("noop").mode("overwrite").save()


def report(spark: Any, directory: str) -> None:
    """Print the rows of the table."""
    thousands = f"{KEYS // 1_000:,}k keys"
    write_s = seconds(lambda: written(spark, f"{directory}/savepoint"))
    row(f"two states of {thousands} each written, in a cold session", f"{write_s:.1f} s", None)

    def reading(uid: str, state: str) -> Callable[[], None]:
        return lambda: read(spark, f"{directory}/savepoint", uid, state)

    for uid, state, what in (
        ("integers", "total", "LONG to (LONG, DOUBLE)"),
        ("texts", "count", "text to LONG"),
    ):
        first_s = seconds(reading(uid, state))
        middle, low, high = median_seconds(reading(uid, state))
        measured = f"{middle:.1f} s ({low:.1f} to {high:.1f}), the first time {first_s:.1f} s"
        row(f"{thousands}, {what}, read into Spark in {GOAL_S:g} s", measured, max(middle, first_s) <= GOAL_S)


if __name__ == "__main__":
    with spark_session() as session, scratch() as directory:
        report(session, directory)
