"""The right answers, worked out from the definition of the workloads and not by running them.

2654435761 is prime to K, so the keys of the records i = 0, 1, 2 … repeat with period K and
in each period every key occurs once. Record i is thus the (i // K + 1)-th of its key, and
its key's values so far are i % K, i % K + K, …, i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .peers.measure import DISORDER_MS, MULTIPLIER, RECORDS_PER_MS, WINDOW_MS, Orders


class WrongResultError(Exception):
    """A run gave a wrong answer; its time means nothing."""


def odd_results(records: int) -> int:
    """W1: how many of x+1, for x = 0 … records-1, are odd."""
    return (records + 1) // 2


def running_totals(records: int, keys: int) -> tuple[int, int]:
    """W2: the sum of all running counts and the sum of all running sums."""
    counts = sums = 0
    for lap in range(-(-records // keys)):
        size = min(keys, records - lap * keys)
        occurrence = lap + 1
        counts += size * occurrence
        sums += occurrence * size * (size - 1) // 2 + size * keys * lap * occurrence // 2
    return counts, sums


def window_totals(records: int, keys: int, closed_only: bool = False) -> dict[str, int]:
    """W4: what a tally of all windows holds.

    Args:
        closed_only: only of the windows that end before any later record could still change them.
    """
    last_start = (records // RECORDS_PER_MS - DISORDER_MS) // WINDOW_MS * WINDOW_MS
    sizes: dict[tuple[int, int], int] = {}
    sums = total = 0
    for first in range(0, records, 1 << 20):
        numbers = np.arange(first, min(first + (1 << 20), records), dtype=np.int64)
        times = numbers // RECORDS_PER_MS + DISORDER_MS - numbers * 40503 % DISORDER_MS
        windows = times // WINDOW_MS
        if closed_only:
            is_closed = windows * WINDOW_MS < last_start
            numbers, windows = numbers[is_closed], windows[is_closed]
        sums += int(np.sum(numbers * (windows + 1)))
        total += len(numbers)
        found = np.unique(windows * keys + numbers * MULTIPLIER % keys, return_counts=True)
        for group, count in zip(*(each.tolist() for each in found), strict=True):
            sizes[group] = sizes.get(group, 0) + count
    squares = sum(count * count for count in sizes.values())
    return {"records": len(sizes), "counts": total, "sums": sums, "squares": squares}


def check_totals(orders: Orders, ends: list[dict[str, Any]], how: str = "per record") -> dict[str, Any]:
    """Compares what the sinks added up with the right answer.

    Args:
        orders: what was run.
        ends: the marks of all sink subtasks.
        how: `per record`; `per commit` where the sinks hold net final values; `may drop` where windows may
            lack records that came late; `closed only` where the last windows never close.

    Returns:
        What is to be noted beside the figure: records dropped as late.

    Raises:
        WrongResultError: anything differs.
    """
    got = {k: sum(end[k] for end in ends) for k in ("records", "counts", "sums", "squares")}
    if orders.workload == "W1":
        _compare("records", got["records"], odd_results(orders.records))
    elif orders.workload == "W4":
        return _check_windows(orders, got, how)
    elif orders.workload == "W6":
        half = orders.records // 2
        right = {"records": half, "counts": 3 * half * (half - 1) // 2, "sums": 5 * half * (half - 1) // 2}
        _compare_all(got, right)
    elif orders.workload == "W7":
        right = {"records": orders.records, "counts": running_totals(orders.records, orders.keys)[0]}
        _compare_all(got, right)
    elif how == "per commit":
        right = {"counts": orders.records, "sums": orders.records * (orders.records - 1) // 2}
        _compare_all(got, right)
    else:
        counts, sums = running_totals(orders.records, orders.keys)
        _compare_all(got, {"records": orders.records, "counts": counts})
        if orders.parallelism == 1 and how != "counts":
            # Several sources interleave freely, and with them the running sums.
            _compare("sum of running sums", got["sums"], sums)
    return {}


def check_changes(keys: int, hot: int, updates: int, end: dict[str, Any]) -> None:
    """The running counts after each key came once, and then the first ones again and again.

    Raises:
        WrongResultError: anything differs.
    """
    again = running_totals(updates, hot)[0] + updates
    _compare_all(end, {"records": keys + updates, "counts": keys + again})


def _check_windows(orders: Orders, got: dict[str, int], how: str) -> dict[str, Any]:
    right = window_totals(orders.records, orders.keys, closed_only=how == "closed only")
    late = right["counts"] - got["counts"]
    if late > 0 and how == "may drop":
        return {"dropped as late": f"{late / orders.records:.1%}"}
    _compare_all(got, right)
    if not right["records"]:
        return {"not checked": "too few records to close a window"}
    return {"dropped as late": "0"}


def _compare_all(got: dict[str, Any], right: dict[str, int]) -> None:
    for name, value in right.items():
        _compare(name, got[name], value)


def check_restored(orders: Orders, triple: list[int]) -> None:
    """Checks a result emitted after a restart: its key must have been counted on, not anew.

    The n-th value of a key whose first value is r gives the sum n·r + K·n(n-1)/2.

    Raises:
        WrongResultError: the count starts again at one, or the sum does not fit the count.
    """
    key, count, total = triple
    first_value = key * pow(MULTIPLIER, -1, orders.keys) % orders.keys
    if count < 2:
        raise WrongResultError(f"W5: key {key} starts again at count {count}: state was lost")
    right = count * first_value + orders.keys * count * (count - 1) // 2
    _compare(f"sum of key {key} at count {count}", total, right)


def _compare(what: str, got: int, right: int) -> None:
    if got != right:
        raise WrongResultError(f"{what}: got {got}, right is {right}")
