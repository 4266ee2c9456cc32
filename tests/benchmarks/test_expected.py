"""The right answers of the workloads: they equal those of a plain loop, and anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.benchmarks import expected
from tidegate.benchmarks.peers.measure import (
    DISORDER_MS,
    JOIN_BLOCK,
    MULTIPLIER,
    WINDOW_MS,
    Orders,
    Tally,
    event_time_ms,
    right_id,
)

RECORDS = 250_000


def orders(workload: str, records: int = RECORDS, keys: int = 100, **more: Any) -> Orders:
    return Orders(workload, records, keys, marks_dir="", state_dir="", **more)


def totals(tally: Tally) -> dict[str, Any]:
    names = ("records", "counts", "sums", "squares")
    return {name: getattr(tally, name) for name in names}


@pytest.fixture(scope="module")
def windows() -> dict[tuple[int, int], tuple[int, int]]:
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for i in range(RECORDS):
        window = event_time_ms(i) // WINDOW_MS * WINDOW_MS, i * MULTIPLIER % 100
        count, total = found.get(window, (0, 0))
        found[window] = (count + 1, total + i)
    return found


def tally_of(windows: dict[tuple[int, int], tuple[int, int]]) -> dict[str, Any]:
    tally = Tally(orders("W4"))
    tally.add_windows((key, start, *value) for (start, key), value in windows.items())
    return totals(tally)


def test_windows_of_a_plain_loop_are_right(windows: dict[tuple[int, int], tuple[int, int]]) -> None:
    assert len({start for start, _ in windows}) == 3
    noted = expected.check_totals(orders("W4"), [tally_of(windows)])
    assert noted == {"dropped as late": "0"}


def test_a_record_in_another_window_or_under_another_key_is_found(
    windows: dict[tuple[int, int], tuple[int, int]],
) -> None:
    (one, other), (_, third) = list(windows)[:2], list(windows)[-2:]
    for target in (other, third):
        moved = dict(windows)
        moved[one] = (moved[one][0] - 1, moved[one][1] - 7)
        moved[target] = (moved[target][0] + 1, moved[target][1] + 7)
        with pytest.raises(expected.WrongResultError):
            expected.check_totals(orders("W4"), [tally_of(moved)])


def test_records_dropped_as_late_are_shown_where_a_system_may_drop_and_refused_where_not(
    windows: dict[tuple[int, int], tuple[int, int]],
) -> None:
    lost = dict(list(windows.items())[1:])
    noted = expected.check_totals(orders("W4"), [tally_of(lost)], "may drop")
    assert noted["dropped as late"] != "0"
    with pytest.raises(expected.WrongResultError):
        expected.check_totals(orders("W4"), [tally_of(lost)])


def test_windows_that_never_close_are_left_out_where_a_system_gives_only_closed_ones(
    windows: dict[tuple[int, int], tuple[int, int]],
) -> None:
    closed = {key: value for key, value in windows.items() if key[0] < 2 * WINDOW_MS}
    expected.check_totals(orders("W4"), [tally_of(closed)], "closed only")


def test_no_record_is_further_behind_than_the_disorder_says() -> None:
    highest = 0
    for i in range(50_000):
        time_ms = event_time_ms(i)
        assert time_ms >= highest - DISORDER_MS
        highest = max(highest, time_ms)


def test_the_right_stream_of_the_join_has_the_ids_of_the_left() -> None:
    assert sorted(map(right_id, range(3 * JOIN_BLOCK))) == list(range(3 * JOIN_BLOCK))
    assert [right_id(i) for i in range(5)] != list(range(5))


def test_every_pair_of_the_join_counts() -> None:
    half = 2 * JOIN_BLOCK
    tally = Tally(orders("W6", 2 * half))
    tally.add_triples([(i, 3 * i, 5 * i) for i in range(half)])
    expected.check_totals(orders("W6", 2 * half), [totals(tally)])
    with pytest.raises(expected.WrongResultError):
        expected.check_totals(orders("W6", 2 * half), [totals(tally) | {"counts": 0}])


def test_counts_of_a_state_of_which_a_part_goes_on_changing() -> None:
    keys, hot, updates = 10, 4, 9
    counts = dict.fromkeys(range(keys), 1)
    total = keys
    for i in range(updates):
        counts[i % hot] += 1
        total += counts[i % hot]
    expected.check_changes(keys, hot, updates, {"records": keys + updates, "counts": total})
    with pytest.raises(expected.WrongResultError):
        expected.check_changes(keys, hot, updates, {"records": keys + updates, "counts": total - 1})
