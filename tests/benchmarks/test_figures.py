"""What the harness works out of measured runs: medians, CPU time, percentiles, goals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tidegate.benchmarks import cases, goals, plan, suites, summary
from tidegate.benchmarks.launch import Outcome
from tidegate.benchmarks.measurement import Figure, cpu_s
from tidegate.benchmarks.peers.latency import BUCKET_NS, Schedule, percentile_ms
from tidegate.benchmarks.peers.measure import Orders
from tidegate.benchmarks.processes import ProcessTree, cpu_between, is_of_ray, size_bytes
from tidegate.benchmarks.where_time_goes import CONNECTIONS, OTHER, part_on_ray, shares

OURS = plan.Case("W2", "W2", "tidegate ray", "tidegate", 1_000)
PEER = plan.Case("W2", "W2", "bytewax", "bytewax", 500)
LATENCY = plan.Case("W7", "W7 50k/s", "tidegate ray", "tidegate", 1_000, rate=50_000)


def row(case: plan.Case, *values: float, **more: float) -> summary.Row:
    memory = {"memory_mib": 10.0, "ray_memory_mib": 0.0, "own_memory_mib": 10.0}
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


def test_a_process_has_used_nothing_before_it_was_first_seen() -> None:
    assert cpu_between([(200, 1.0), (300, 2.0)], 100, 250) == pytest.approx(1.5)


def test_cpu_time_comes_from_a_processs_marks_where_samples_would_miss_something() -> None:
    def mark(pid: int, at_ns: int, cpu_s: float) -> dict[str, int]:
        return {"pid": pid, "at_ns": at_ns, "cpu_ns": int(cpu_s * 1e9)}

    marks = {
        # A source in a process of its own: before its first record it had taken 90 s to start.
        "start-numbers-0": mark(1, 100, 90.0),
        "read-numbers-0": mark(1, 180, 93.0),
        # A sink, ready before there was a record, and closed after it was seen for the last time.
        "ready-0": mark(2, 90, 50.0),
        "end-0": mark(2, 200, 54.0),
        # A source and a sink in one.
        "ready-1": mark(3, 80, 5.0),
        "start-numbers-1": mark(3, 120, 6.0),
        "read-numbers-1": mark(3, 190, 7.0),
        "end-1": mark(3, 200, 7.5),
    }
    cpu = {
        1: [(50, 0.0), (150, 92.0)],
        2: [(50, 0.0), (110, 50.0), (150, 52.0)],
        3: [(50, 0.0), (150, 6.5)],
        # The driver leaves no marks.
        4: [(50, 0.0), (150, 1.0), (250, 2.0)],
    }
    assert cpu_s(Outcome(0, 4, marks, cpu), 100, 200) == pytest.approx(3.0 + 4.0 + 1.5 + 1.0)


@pytest.fixture
def this_process() -> psutil.Process:
    return psutil.Process()


def test_a_shared_page_counts_in_parts(this_process: psutil.Process, tmp_path: Path) -> None:
    told = tmp_path / str(this_process.pid) / "smaps_rollup"
    told.parent.mkdir()
    told.write_text(
        "0000-ffff ---p 00000000 00:00 0    [rollup]\nRss:   900 kB\nPss:   300 kB\nPss_Anon: 1 kB\n"
    )
    assert size_bytes(this_process, tmp_path) == 300 * 1024


def test_where_the_kernel_tells_no_proportional_size_it_is_the_resident_one(
    this_process: psutil.Process, tmp_path: Path
) -> None:
    assert size_bytes(this_process, tmp_path) == pytest.approx(this_process.memory_info().rss, rel=0.2)


def test_the_tree_has_what_a_process_started_and_nothing_that_has_ended(this_process: psutil.Process) -> None:
    tree = ProcessTree([this_process])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        tree.sample_cpu()
        both = tree.memory()
        size = tree.sizes()[child.pid][1]
        child.communicate(b"\n")
    assert both.bytes >= size > 0
    assert both.ray_bytes == 0
    assert child.pid not in tree.sizes()
    assert child.pid in tree.cpu()


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
        (goal_of(metric="own_memory_mib", most=600), 500.0, True),
        (goal_of(metric="own_memory_mib", most=1, others=("bytewax",)), 1.25, False),
        (goal_of(least=0.85, others=("other",), other_title="W3"), 1.0, True),
    ],
)
def test_a_goal_is_a_bound_for_a_figure_or_its_ratio_to_the_best_of_others(
    goal: goals.Goal, measured: float, is_met: bool
) -> None:
    found = {
        ("W2", "tidegate ray"): {"rate": 300.0, "own_memory_mib": 500.0},
        ("W2", "bytewax"): {"rate": 100.0, "own_memory_mib": 400.0},
        ("W2", "pathway"): {"rate": 400.0, "own_memory_mib": 300.0},
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
    known = {(case.title, case.system) for suite in suites.SUITES.values() for case in suite}
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


def test_a_sample_counts_for_its_innermost_known_frame_and_only_inside_a_task() -> None:
    task = "run (actors/task_runner.py:1);StreamTask.step (runtime/tasks/task.py:5)"
    lines = [
        f"{task};_process (operators/keyed/keyed.py:1);update (state/keyed/keyed_states.py:9) 6",
        f"{task};_process (operators/keyed/keyed.py:1);sorted (library.py:9) 3",
        "main (elsewhere.py:1);load (library.py:3) 100",
        "StreamTask.step (elsewhere.py:5) 1",
    ]
    found = shares(lines)
    assert list(found.values()) == [0.6, 0.3, 0.1]
    assert list(found) == ["state: value() and update()", "loop around the function", OTHER]


def test_a_sample_of_a_task_process_counts_in_tidegates_threads_and_not_while_it_loads_modules() -> None:
    lines = [
        "StreamTask.step (runtime/tasks/task.py:5);_flush (runtime/output.py:1) 3",
        "Connections._run (runtime/network/connections.py:1);select (selectors.py:9) 1",
        "StreamTask.step (runtime/tasks/task.py:5);_find_and_load (<frozen importlib._bootstrap>:1) 50",
        "main_loop (ray/_private/worker.py:1) 100",
    ]
    assert shares(lines, part_on_ray) == {"task: gate, credits, batches": 0.75, CONNECTIONS: 0.25}


def test_what_ray_runs_for_itself_is_told_from_the_jobs_processes() -> None:
    own = [
        "ray::DashboardAgent",
        "ray::RuntimeEnvAgent",
        "ray::IDLE",
        "python -u lib/ray/autoscaler/_private/monitor.py --logs-dir=x",
        "python -u lib/ray/_private/log_monitor.py",
        "lib/ray/core/src/ray/raylet/raylet",
    ]
    assert all(map(is_of_ray, own))
    assert not any(
        map(is_of_ray, ["ray::TaskActor.push", "ray::CoordinatorActor", "python -m benchmarks.jobs"])
    )
