"""The workloads on Pathway, under its Python connector: `apply` and `filter`, `groupby().reduce`, `join`.

Pathway answers once per commit, not once per record: a key touched twice within a commit
gives one update. Its results are therefore checked by adding every inserted row and
subtracting every retracted one, which must leave the final counts and sums.
"""

from __future__ import annotations

import json
from typing import Any

import pathway as pw
from measure import MULTIPLIER, Orders, Tally, leave_mark, right_id


class Numbers(pw.io.python.ConnectorSubject):
    """Feeds consecutive numbers; its offset is the next number."""

    deletions_enabled = False

    def __init__(self, orders: Orders) -> None:
        super().__init__()
        self._orders = orders
        self._persisted = False
        self._first = 0

    def run(self) -> None:
        leave_mark(self._orders.marks_dir, "start")
        feed = self.next
        for i in range(self._first, self._orders.records):
            feed(i=i)
            if self._persisted and i % 1000 == 999:
                self._report_offset(json.dumps(i + 1).encode())

    def on_persisted_run(self) -> None:
        self._persisted = True

    def _seek(self, state: bytes) -> None:
        self._first = json.loads(state)


class NumberSchema(pw.Schema):
    """One whole number."""

    i: int


class NetTally(pw.io.python.ConnectorObserver):
    """Keeps the net of all inserted and retracted rows."""

    def __init__(self, orders: Orders) -> None:
        self._tally = Tally(orders)

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        tally = self._tally
        if is_addition and tally.awaits_first:
            tally.first([row["key"], row["count"], row["total"]])
        if is_addition:
            tally.records += 1
            tally.counts += row["count"]
            tally.sums += row["total"]
        else:
            tally.counts -= row["count"]
            tally.sums -= row["total"]

    def on_time_end(self, time: int) -> None:
        self._tally.end_of_commit()

    def on_end(self) -> None:
        self._tally.close()


class Ids(Numbers):
    """One side of W6.

    Args:
        orders: half of whose records are this side's.
        is_right: shuffled.
    """

    def __init__(self, orders: Orders, is_right: bool) -> None:
        super().__init__(orders)
        self._is_right = is_right

    def run(self) -> None:
        leave_mark(self._orders.marks_dir, f"start-{int(self._is_right)}")
        for i in range(self._orders.records // 2):
            self.next(i=right_id(i) if self._is_right else i)


def add_one(x: int) -> int:
    """W1's map function."""
    return x + 1


def is_odd(x: int) -> bool:
    """W1's filter function."""
    return x % 2 == 1


def numbers_of(subject: Numbers, name: str) -> pw.Table:
    """What a subject feeds, committed once a second."""
    return pw.io.python.read(subject, schema=NumberSchema, name=name, autocommit_duration_ms=1000)


def stateless(orders: Orders) -> pw.Table:
    """W1."""
    added = numbers_of(Numbers(orders), "numbers").select(key=pw.apply(add_one, pw.this.i))
    odd = added.filter(pw.apply(is_odd, pw.this.key))
    return odd.select(key=pw.this.key, count=0, total=0)


def keyed(orders: Orders) -> pw.Table:
    """W2, W3 and W5."""
    numbers = numbers_of(Numbers(orders), "numbers")
    by_key = numbers.select(key=pw.this.i * MULTIPLIER % orders.keys, i=pw.this.i)
    return by_key.groupby(pw.this.key).reduce(
        pw.this.key, count=pw.reducers.count(), total=pw.reducers.sum(pw.this.i)
    )


def join(orders: Orders) -> pw.Table:
    """W6."""
    left = numbers_of(Ids(orders, is_right=False), "left")
    right = numbers_of(Ids(orders, is_right=True), "right")
    return left.join(right, left.i == right.i).select(key=left.i, count=left.i * 3, total=right.i * 5)


def main() -> None:
    """Runs one job to its end."""
    orders = Orders.from_argv()
    results = {"W1": stateless, "W6": join}.get(orders.workload, keyed)(orders)
    pw.io.python.write(results, NetTally(orders))
    persistence = None
    if orders.interval_ms:
        persistence = pw.persistence.Config(
            pw.persistence.Backend.filesystem(orders.state_dir),
            snapshot_interval_ms=orders.interval_ms,
        )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=persistence)


if __name__ == "__main__":
    main()
