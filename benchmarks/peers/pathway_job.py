"""W2, W3 and W5 on Pathway: `groupby().reduce(count, sum)` under its Python connector.

Pathway answers once per commit, not once per record: a key touched twice within a commit
gives one update. Its results are therefore checked by adding every inserted row and
subtracting every retracted one, which must leave the final counts and sums.
"""

from __future__ import annotations

import json
from typing import Any

import pathway as pw
from measure import MULTIPLIER, Orders, Tally, leave_mark


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


def main() -> None:
    """Runs one job to its end."""
    orders = Orders.from_argv()
    numbers = pw.io.python.read(
        Numbers(orders), schema=NumberSchema, name="numbers", autocommit_duration_ms=1000
    )
    keyed = numbers.select(key=pw.this.i * MULTIPLIER % orders.keys, i=pw.this.i)
    totals = keyed.groupby(pw.this.key).reduce(
        pw.this.key, count=pw.reducers.count(), total=pw.reducers.sum(pw.this.i)
    )
    pw.io.python.write(totals, NetTally(orders))
    persistence = None
    if orders.interval_ms:
        persistence = pw.persistence.Config(
            pw.persistence.Backend.filesystem(orders.state_dir),
            snapshot_interval_ms=orders.interval_ms,
        )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=persistence)


if __name__ == "__main__":
    main()
