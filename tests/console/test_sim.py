"""`tidegate sim` runs seeds of the simulation and tells what failed, and how to see it again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from tidegate.console.main import main

from ..simulation.mutants import MUTANTS


@pytest.fixture(autouse=True)
def _logging_is_on_again() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "--seeds", "3", "--first", "10", "--processes", "1", "--json")
    done = json.loads(out)
    assert (code, done["seeds"], done["failures"]) == (0, 3, [])
    assert done["events"] > 100


def test_a_failing_seed_is_shown_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MUTANTS["first-barrier"].planted():
        code, out = run(capsys, "--seeds", "2", "--first", "4", "--processes", "1")
    assert code == 1
    assert "replay: tidegate sim --seed" in out
    assert "reports SubtaskAcknowledged" in out, "the end of its trace"


def test_a_replayed_seed_prints_its_job_and_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "--seed", "1")
    assert code == 0
    assert "attempt 1 is deployed" in out
    assert "seed 1: clean" in out


def test_shrinking_needs_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--shrink")[0] == 2
