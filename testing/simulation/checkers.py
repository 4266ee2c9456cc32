"""What must be true of the output of a simulated job, however its run went."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from .plan import Plan
from .simulated_graph import keeps_order, ways_to_sinks
from .simulated_operators import Record

_Lineage = tuple[str, int, tuple[str, ...]]


def expected_lineages(plan: Plan) -> Counter[_Lineage]:
    """What a sequential run writes: every record of every split once for each of its ways."""
    return Counter(
        (f"{way[0]}.{split}", number, way)
        for way in ways_to_sinks(plan)
        for split in range(plan.splits)
        for number in range(plan.records)
    )


def check_output(plan: Plan, visible: Iterable[Record], attempts: int) -> None:
    """Raise `AssertionError` unless the output is that of a sequential run.

    Args:
        attempts: How often the job was deployed, which bounds the duplicates in at-least-once mode.
    """
    records = list(visible)
    lineages = Counter(_lineage(record) for record in records)
    expected = expected_lineages(plan)
    lost = Counter({lineage: 1 for lineage in expected if lineage not in lineages})
    assert not lost, f"lost: {_some(lost)}"
    unknown = Counter({lineage: count for lineage, count in lineages.items() if lineage not in expected})
    assert not unknown, f"never written: {_some(unknown)}"
    if not plan.is_exactly_once:
        most = max(lineages.values(), default=0)
        assert most <= attempts, f"a record comes {most} times in {attempts} attempts"
        return
    doubled = lineages - expected
    assert not doubled, f"doubled: {_some(doubled)}"
    _check_counts(plan, records)


def _lineage(record: Record) -> _Lineage:
    split, number, trail = record
    return split, number, tuple(mark if isinstance(mark, str) else mark[0] for mark in trail)


def _check_counts(plan: Plan, records: list[Record]) -> None:
    """Every count that some key reached at some stage was given to exactly one record."""
    given: dict[tuple[str, Any], dict[Any, int]] = defaultdict(dict)
    for split, number, trail in records:
        way: tuple[str, ...] = ()
        for mark in trail:
            uid = mark if isinstance(mark, str) else mark[0]
            way = (*way, uid)
            if isinstance(mark, str):
                continue
            counts = given[uid, mark[1]]
            before = counts.setdefault((split, way, number), mark[2])
            assert before == mark[2], f"{split}:{number} was number {before} and {mark[2]} of {mark[:2]}"
    ordered = keeps_order(plan)
    for (uid, key), counts in given.items():
        numbers = sorted(counts.values())
        assert numbers == list(range(1, len(numbers) + 1)), f"{uid} counted {key!r} as {numbers}"
        if ordered[uid]:
            in_order = [counts[record] for record in sorted(counts)]
            _check_order(uid, key, sorted(counts), in_order)


def _check_order(uid: str, key: Any, records: list[Any], counts: list[int]) -> None:
    for index in range(1, len(records)):
        if records[index][:2] == records[index - 1][:2]:
            earlier, later = records[index - 1], records[index]
            assert counts[index] > counts[index - 1], f"{uid} counted {later} of {key!r} before {earlier}"


def _some(values: Counter[_Lineage]) -> str:
    shown = ", ".join(f"{split}:{number} by {'-'.join(way)}" for split, number, way in list(values)[:3])
    return f"{sum(values.values())} records, such as {shown}"
