"""W7's schedule and its latencies. Standard library only, as all that runs inside a peer's environment.

A record's latency starts at the moment its source was to emit it, not at the one it did: a source that falls
behind makes its records late instead of hiding it (coordinated omission, Tene 2013).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

try:
    from measure import Orders, leave_mark
except ModuleNotFoundError:
    from .measure import Orders, leave_mark

SECOND_NS = 1_000_000_000
# How exact percentiles are.
BUCKET_NS = 20_000


class Schedule:
    """When a paced source emits which record: record i is due `i / rate` seconds after the first poll.

    Args:
        orders: how many records there are, and how many a second.
        first: this subtask's first record.
        step: every how many-th record is its own.
    """

    def __init__(self, orders: Orders, first: int = 0, step: int = 1) -> None:
        self._orders = orders
        self._next = first
        self._step = step
        self._start_ns = 0

    def due(self, most: int) -> list[int] | None:
        """The times in ns at which records that have not been taken yet were due; None after the last."""
        now_ns = time.monotonic_ns()
        if not self._start_ns:
            self._start_ns = now_ns
        if self._next >= self._orders.records:
            return None
        rate = self._orders.rate
        end = min((now_ns - self._start_ns) * rate // SECOND_NS + 1, self._orders.records)
        stop = min(end, self._next + most * self._step)
        times = [self._start_ns + i * SECOND_NS // rate for i in range(self._next, stop, self._step)]
        self._next += len(times) * self._step
        return times

    def wait_ns(self) -> int:
        """How long until the next record is due; at most zero if it is due already."""
        if not self._start_ns:
            return 0
        return self._start_ns + self._next * SECOND_NS // self._orders.rate - time.monotonic_ns()


def percentile_ms(latencies: dict[int, int], share: float) -> float:
    """The least latency that so great a share of the records do not exceed.

    Args:
        latencies: how many records there were in each bucket of `BUCKET_NS`.
        share: such as 0.99.

    Raises:
        ValueError: there are none.
    """
    total = sum(latencies.values())
    if not total:
        raise ValueError("no latencies were counted; the run was shorter than its warm-up")
    seen = 0
    for bucket in sorted(latencies):
        seen += latencies[bucket]
        if seen >= share * total:
            break
    return (bucket + 1) * BUCKET_NS / 1e6


class LatencyTally:
    """What reaches W7's sink: how many records, and how late.

    Args:
        orders: what is run.
        subtask: names this one's mark.
    """

    def __init__(self, orders: Orders, subtask: int | str = 0) -> None:
        self._orders = orders
        self._subtask = subtask
        self._latencies: Counter[int] = Counter()
        self._records = 0
        self._counts = 0
        self._last_ns = 0
        self._start_ns = 0

    def add(self, results: Iterable[tuple[int, int, int]]) -> None:
        """Takes a batch of `(key, count, time in ns at which the record was due)`; all arrive now."""
        now_ns = self._last_ns = time.monotonic_ns()
        if not self._start_ns:
            self._start_ns = now_ns
        counted_from_ns = self._start_ns + self._orders.warmup_records * SECOND_NS // self._orders.rate
        due = []
        for _, count, due_ns in results:
            self._records += 1
            self._counts += count
            if due_ns >= counted_from_ns:
                due.append(due_ns)
        self._latencies.update([(now_ns - due_ns) // BUCKET_NS for due_ns in due])

    def close(self) -> None:
        """Leaves the histogram for the harness."""
        leave_mark(
            self._orders.marks_dir,
            f"end-{self._subtask}",
            last_ns=self._last_ns,
            records=self._records,
            counts=self._counts,
            sums=0,
            squares=0,
            latencies=self._latencies,
        )
