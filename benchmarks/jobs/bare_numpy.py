"""W2 and W4 with NumPy alone, with no engine around; run as the other workloads are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..peers.measure import (
    DISORDER_MS,
    MULTIPLIER,
    RECORDS_PER_MS,
    WINDOW_MS,
    Orders,
    Tally,
    leave_mark,
)

Array = npt.NDArray[np.int64]
ROWS = 65_536


def running_totals(orders: Orders) -> None:
    """W2 with arrays for state and one stable sort a batch."""
    tally = Tally(orders)
    counts, sums = np.zeros(orders.keys, np.int64), np.zeros(orders.keys, np.int64)
    leave_mark(orders.marks_dir, "start")
    for first in range(0, orders.records, ROWS):
        numbers = np.arange(first, min(first + ROWS, orders.records), dtype=np.int64)
        keys = numbers * MULTIPLIER % orders.keys
        order = np.argsort(keys, kind="stable")
        grouped, values = keys[order], numbers[order]
        is_first = np.empty(len(grouped), bool)
        is_first[0] = True
        np.not_equal(grouped[1:], grouped[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        group = np.cumsum(is_first) - 1
        running = np.cumsum(values)
        before = (running[starts] - values[starts])[group]
        found = np.arange(len(grouped)) - starts[group] + 1 + counts[grouped]
        totals = running - before + sums[grouped]
        ends = np.append(starts[1:], len(grouped)) - 1
        counts[grouped[ends]], sums[grouped[ends]] = found[ends], totals[ends]
        results = np.empty((2, len(grouped)), np.int64)
        results[:, order] = found, totals
        tally.add_sums(len(grouped), int(results[0].sum()), int(results[1].sum()))
    tally.close()


def windows(orders: Orders) -> None:
    """W4 with one array per window."""
    tally = Tally(orders)
    open_windows: dict[int, tuple[Array, Array]] = {}
    leave_mark(orders.marks_dir, "start")
    for first in range(0, orders.records, ROWS):
        numbers = np.arange(first, min(first + ROWS, orders.records), dtype=np.int64)
        keys = numbers * MULTIPLIER % orders.keys
        times = numbers // RECORDS_PER_MS + DISORDER_MS - numbers * 40503 % DISORDER_MS
        window = times // WINDOW_MS
        for each in np.unique(window).tolist():
            mine = window == each
            counts, sums = open_windows.setdefault(
                each, (np.zeros(orders.keys, np.int64), np.zeros(orders.keys, np.int64))
            )
            counts += np.bincount(keys[mine], minlength=orders.keys)
            # Sums of a batch stay below 2^53, so the float weights are exact.
            sums += np.bincount(keys[mine], numbers[mine], orders.keys).astype(np.int64)
        watermark_ms = int(times.max()) - DISORDER_MS
        for each in [w for w in open_windows if (w + 1) * WINDOW_MS <= watermark_ms]:
            _fire(tally, each, *open_windows.pop(each))
    for each, (counts, sums) in open_windows.items():
        _fire(tally, each, counts, sums)
    tally.close()


def _fire(tally: Tally, window: int, counts: Array, sums: Array) -> None:
    keys = np.flatnonzero(counts)
    starts = [window * WINDOW_MS] * len(keys)
    tally.add_windows(zip(keys.tolist(), starts, counts[keys].tolist(), sums[keys].tolist()))


if __name__ == "__main__":
    order = Orders.from_argv()
    {"W2": running_totals, "W4": windows}[order.workload](order)
