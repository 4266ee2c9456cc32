"""What the harness works out of measured runs: medians, CPU time, percentiles, goals."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.benchmarks import cases, goals, plan, suites, summary
from tidegate.benchmarks.launch import cpu_between
from tidegate.benchmarks.measurement import Figure
from tidegate.benchmarks.peers.latency import BUCKET_NS, Schedule, percentile_ms
from tidegate.benchmarks.peers.measure import Orders
from tidegate.benchmarks.pictures import series
from tidegate.benchmarks.where_time_goes import OTHER, shares

OURS = plan.Case("W2", "W2", "tidegate ray", "tidegate", 1_000)
PEER = plan.Case("W2", "W2", "bytewax", "bytewax", 500)
LATENCY = plan.Case("W7", "W7 50k/s", "tidegate ray", "tidegate", 1_000, rate=50_000)


def row(case: plan.Case, *values: float, **more: float) -> summary.Row:
    memory = {"peak_mib": 10.0, "daemons_mib": 0.0, "own_mib": 10.0}
    figures = [Figure({case.main_metric: value, **memory, **more}) for value in values]
    return summary.row(case, case.records, figures)


def test_a_row_has_the_median_and_how_far_rounds_lie_apart() -> None:
    found = row(OURS, 90.0, 110.0, 100.0)
    assert (found.median, found.lowest, found.highest, found.spread) == (100.0, 90.0, 110.0, 0.2)


def test_a_ratio_above_one_is_better_for_rates_and_for_times() -> None:
    slower = plan.Case("W5", "W5", "pyflink", "pyflink", 1)
    ours = plan.Case("W5", "W5", "tidegate local", "tidegate", 1)
    rates = summary.ratios([row(OURS, 300.0), row(PEER, 100.0)])
    times = summary.ratios([row(ours, 2.0), row(slower, 8.0)])
    assert [ratio.ratio for ratio in (*rates, *times)] == [3.0, 4.0]


def test_the_table_shows_cpu_time_notes_and_latencies() -> None:
    shown = summary.tables([row(OURS, 300.0, cpu_s=2.5), row(LATENCY, 3.0, p99_ms=12.5, p999_ms=50.0)])
    assert "2.50" in shown
    assert "p99_ms 12.5, p999_ms 50.0" in shown


def test_cpu_time_between_two_moments_lies_on_the_line_between_samples() -> None:
    samples = [(100, 1.0), (200, 2.0), (300, 2.0)]
    assert cpu_between(samples, 150, 250) == pytest.approx(0.5)
    assert cpu_between(samples, 0, 1_000) == pytest.approx(2.0)


def test_percentiles_are_those_of_the_counted_records() -> None:
    latencies = {0: 50, 10: 49, 1_000: 1}
    shares = [percentile_ms(latencies, share) for share in (0.5, 0.99, 0.999)]
    assert shares == [(bucket + 1) * BUCKET_NS / 1e6 for bucket in (0, 10, 1_000)]


def test_no_latencies_are_an_error_and_not_a_good_figure() -> None:
    with pytest.raises(ValueError, match="warm-up"):
        percentile_ms({}, 0.5)


def test_a_paced_source_that_is_held_up_gives_the_times_at_which_records_were_due() -> None:
    schedule = Schedule(Orders("W7", records=1_000, keys=1, marks_dir="", state_dir="", rate=1_000_000_000))
    schedule.due(1)
    taken: list[int] = []
    while (times := schedule.due(64)) is not None:
        taken += times
    # Nanosecond after nanosecond, however long the calls took.
    assert taken == list(range(taken[0], taken[0] + 999))


def goal_of(**more: Any) -> goals.Goal:
    return goals.Goal("W2", "tidegate ray", **more)


@pytest.mark.parametrize(
    ("goal", "measured", "is_met"),
    [
        (goal_of(least=3, others=("bytewax",)), 3.0, True),
        (goal_of(least=3.1, others=("bytewax",)), 3.0, False),
        (goal_of(least=1, others=("bytewax", "pathway")), 0.75, False),
        (goal_of(metric="own_mib", most=600), 500.0, True),
        (goal_of(metric="own_mib", most=1, others=("bytewax",)), 1.25, False),
        (goal_of(least=0.85, others=("other",), other_title="W3"), 1.0, True),
    ],
)
def test_a_goal_is_a_bound_for_a_figure_or_its_ratio_to_the_best_of_others(
    goal: goals.Goal, measured: float, is_met: bool
) -> None:
    found = {
        ("W2", "tidegate ray"): {"rate": 300.0, "own_mib": 500.0},
        ("W2", "bytewax"): {"rate": 100.0, "own_mib": 400.0},
        ("W2", "pathway"): {"rate": 400.0, "own_mib": 300.0},
        ("W3", "other"): {"rate": 300.0},
    }
    verdict = goal.measure(found)
    assert verdict is not None
    assert verdict.measured == measured
    assert verdict.is_met is is_met


def test_a_goal_says_nothing_where_the_session_lacks_one_side() -> None:
    goal = goal_of(least=3, others=("bytewax",))
    assert goal.measure({("W2", "tidegate ray"): {"rate": 1.0}}) is None
    assert goal.measure({("W2", "bytewax"): {"rate": 1.0}}) is None


def test_every_goal_is_about_cases_that_exist() -> None:
    known = {(case.title, case.system) for case in suites.SUITES["all"]}
    for goal in goals.GOALS:
        assert (goal.title, goal.ours) in known
        if goal.others:
            title = goal.other_title or goal.title
            assert any((title, other) in known for other in goal.others), goal.text


def test_no_two_cases_of_a_suite_share_a_row_or_a_folder() -> None:
    for name, chosen in suites.SUITES.items():
        assert len({(case.title, case.system) for case in chosen}) == len(chosen), name
        assert len({case.name for case in chosen}) == len(chosen), name


def test_a_smaller_share_keeps_what_a_restart_and_a_join_need() -> None:
    join, restart = cases.JOIN[0], cases.RESTART[0]
    assert plan.records_for(join, 0.001) % 2048 == 0
    # Every key has to come once more after the restart.
    assert plan.records_for(restart, 0.001) > plan.keys_for(restart, 0.001)


def test_growth_is_drawn_over_the_number_in_a_systems_name() -> None:
    def point(title: str, system: str, cpu_s: float) -> dict[str, Any]:
        return {"title": title, "system": system, "metrics": {"cpu_s": cpu_s}}

    rows = [
        point("W8", "tidegate ray p=2", 2.0),
        point("W8", "tidegate ray p=1", 1.0),
        point("W9 keys lmdb", "10,000 keys", 5.0),
        point("W9 keys lmdb", "1,000,000 keys", 7.0),
    ]
    assert series(rows, "W8", "cpu_s") == {"tidegate ray": [(1, 1.0), (2, 2.0)]}
    assert series(rows, "W9 keys", "cpu_s") == {"lmdb  keys": [(10_000, 5.0), (1_000_000, 7.0)]}


def test_a_sample_counts_for_its_innermost_known_frame_and_only_inside_a_task() -> None:
    task = "run (actors/thread.py:1);StreamTask.step (actors/task.py:5)"
    lines = [
        f"{task};_process (operators/keyed.py:1);update (state/keyed_states.py:9) 6",
        f"{task};_process (operators/keyed.py:1);sorted (library.py:9) 3",
        "main (elsewhere.py:1);load (library.py:3) 100",
        "StreamTask.step (elsewhere.py:5) 1",
    ]
    found = shares(lines)
    assert list(found.values()) == [0.6, 0.3, 0.1]
    assert list(found) == ["state: value() and update()", "loop around the function", OTHER]
