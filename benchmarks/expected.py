"""The right answers, worked out from the definition of the workloads and not by running them.

2654435761 is prime to K, so the keys of the records i = 0, 1, 2 … repeat with period K and
in each period every key occurs once. Record i is thus the (i // K + 1)-th of its key, and
its key's values so far are i % K, i % K + K, …, i.
"""

from __future__ import annotations

from typing import Any

from .peers.measure import MULTIPLIER, Orders


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


def check_totals(orders: Orders, ends: list[dict[str, Any]], per_commit: bool) -> None:
    """Compares what the sinks added up with the right answer.

    Args:
        orders: what was run.
        ends: the marks of all sink subtasks.
        per_commit: the system answers per commit, so its sinks hold net final values.

    Raises:
        WrongResultError: anything differs.
    """
    records, counts, sums = (sum(end[k] for end in ends) for k in ("records", "counts", "sums"))
    if orders.workload == "W1":
        _compare("records", records, odd_results(orders.records))
        return
    if per_commit:
        _compare("net count", counts, orders.records)
        _compare("net sum", sums, orders.records * (orders.records - 1) // 2)
        return
    all_counts, all_sums = running_totals(orders.records, orders.keys)
    _compare("records", records, orders.records)
    _compare("sum of running counts", counts, all_counts)
    if orders.parallelism == 1:
        # Several sources interleave freely, and with them the running sums.
        _compare("sum of running sums", sums, all_sums)


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
