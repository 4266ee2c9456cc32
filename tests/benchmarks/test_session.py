"""A session of the benchmarks: its file, what is left after an interruption, and the table of goals."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from tidegate.benchmarks import run, session, suites, systems, table
from tidegate.benchmarks.cases import LOCAL, SMALL
from tidegate.benchmarks.measurement import Figure

MEMORY = {"memory_mib": 10.0, "ray_memory_mib": 0.0, "own_memory_mib": 10.0}


def done(ours: session.Session, number: int, system: str, rate: float | None) -> None:
    """Notes a run of W2, and keeps it."""
    figure = None if rate is None else Figure({"rate": rate, **MEMORY}, {"odd": 1})
    ours.runs.append(session.Run(number, SMALL, system, 7.5, figure, "" if figure else "WrongResultError: x"))
    ours.save()


@pytest.fixture
def ours(tmp_path: Path) -> session.Session:
    return session.begin(tmp_path, "keyed", 2, 1.0, [SMALL], ["tidegate", "bare"])


def test_an_interrupted_session_goes_on_with_what_is_left(ours: session.Session) -> None:
    done(ours, 1, "bare loop", 800.0)
    done(ours, 1, LOCAL, None)
    again = session.resume(ours.path)
    left = [(number, case.system) for number, case in again.pending()]
    assert left == [(1, system) for _, system in left[:3]] + [(2, case.system) for case in ours.cases]
    assert (again.runs, again.machine, again.rows()) == (ours.runs, ours.machine, ours.rows())
    assert again.failures == [f"round 1 {SMALL} {LOCAL}: WrongResultError: x"]


def test_the_file_says_how_much_is_missing(ours: session.Session) -> None:
    done(ours, 1, "bare loop", 800.0)
    kept = json.loads(ours.path.read_text())
    assert kept["pending"] == 2 * len(ours.cases) - 1
    assert [row["system"] for row in kept["rows"]] == ["bare loop"]


def test_a_file_of_another_kind_cannot_be_resumed(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    for path in (other, tmp_path / "none.json"):
        with pytest.raises(session.ResumeError, match=path.name):
            session.resume(path)


def test_a_resumed_session_takes_no_other_options(ours: session.Session) -> None:
    ours.save()
    options = run.parser_of("keyed").parse_args(["--resume", str(ours.path), "--rounds", "5"])
    with pytest.raises(session.ResumeError, match="alone"):
        run.session_of("keyed", options)


def test_what_an_older_harness_measured_is_shown_and_not_mixed_with_new_runs(ours: session.Session) -> None:
    done(ours, 1, LOCAL, 500.0)
    older = ours.path.read_text().replace("own_memory_mib", "own_mib")
    ours.path.write_text(older)
    assert "not measured" in table.table([json.loads(older)])
    with pytest.raises(session.ResumeError, match="own_mib"):
        session.resume(ours.path)


def test_a_run_is_expected_to_take_as_long_as_the_last_one_of_its_size(ours: session.Session) -> None:
    done(ours, 1, LOCAL, 500.0)
    before = session.took_before(ours.path.parent)
    case = next(case for case in ours.cases if case.system == LOCAL)
    assert session.expected_s(case, 1.0, before) == 7.5
    assert session.expected_s(case, 0.1, before) == session.UNKNOWN_RUN_S


def test_options_of_a_program_are_handed_on_and_not_looked_at() -> None:
    assert suites.named(["--quick", "--suite", "operators", "--only", "columns"]) == (
        "operators",
        ["--quick", "--only", "columns"],
    )


def test_every_part_of_a_suite_is_a_program() -> None:
    for parts in suites.PARTS.values():
        for module in parts.values():
            spec = importlib.util.find_spec(f"tidegate.{module}")
            assert spec is not None, module
            assert spec.origin is not None
            assert "__main__" in Path(spec.origin).read_text(), module


def test_only_bytewax_at_two_workers_may_drop_records() -> None:
    ways = {case.system: systems.how_to_check(case) for case in suites.SUITES["windows"]}
    assert [system for system, way in ways.items() if way == "may drop"] == ["bytewax p=2"]


def test_the_table_has_both_figures_of_a_goal_from_the_last_session_that_has_them(
    ours: session.Session, tmp_path: Path
) -> None:
    later = session.begin(tmp_path / "later", "keyed", 1, 0.1, [SMALL], ["bare"])
    for number, rate in ((1, 500.0), (2, 600.0)):
        done(ours, number, LOCAL, rate)
        done(ours, number, "bare loop", 1_000.0)
    done(later, 1, "bare loop", 1.0)
    shown = table.table([json.loads(each.path.read_text()) for each in (ours, later)])
    figures = "550 k/s (500 to 600) | 1,000 k/s | **0.55** | MISSED |"
    assert f"| {SMALL} {LOCAL} ÷ bare loop | ≥ 0.6 times | {figures}" in shown.splitlines()
    assert "0 of" in shown
    assert "1 missed" in shown
    # The later one has no ours, so nothing of it is in the table.
    assert "no figures to quote" not in shown


def test_the_table_warns_of_sessions_whose_figures_do_not_count(ours: session.Session) -> None:
    done(ours, 1, LOCAL, 500.0)
    kept = json.loads(ours.path.read_text()) | {"share": 0.1, "failures": ["one"]}
    text = table.where(kept)
    assert "no figures to quote" in text
    assert "Interrupted" in text
    assert "1 runs failed" in text
