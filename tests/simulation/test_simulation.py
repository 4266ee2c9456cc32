"""The simulation itself: it is repeatable, clean seeds pass, and planted bugs are found."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tidegate.testing.mutants import MUTANTS
from tidegate.testing.run_one import run_seed
from tidegate.testing.simulate import first_finding, main

SEEDS_FOR_A_MUTANT = 300


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_one_seed_gives_the_same_run_twice() -> None:
    first, second = run_seed(7, keeps_log=True), run_seed(7, keeps_log=True)
    assert first.log
    assert first.log == second.log
    assert first.events == second.events


def test_different_seeds_give_different_runs() -> None:
    assert run_seed(1, keeps_log=True).log != run_seed(2, keeps_log=True).log


def test_seeds_with_crashes_end_with_every_record_once() -> None:
    outcomes = [run_seed(seed) for seed in range(20_001, 20_041)]
    assert [outcome.problem for outcome in outcomes if outcome.problem] == []
    assert sum(outcome.crashes for outcome in outcomes) > 20
    assert sum(outcome.checkpoints for outcome in outcomes) > 80


@pytest.mark.parametrize("name", ["first-barrier", "any-order", "lost-positions", "wrong-key-groups"])
def test_a_planted_bug_is_found(name: str) -> None:
    assert first_finding(name, SEEDS_FOR_A_MUTANT) is not None
    assert run_seed(1).problem is None, "the bug stayed planted"


def test_every_mutant_says_what_it_breaks() -> None:
    assert all(mutant.description for mutant in MUTANTS.values())


def test_a_failing_seed_is_shown_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["--seeds", "40", "--processes", "1", "--break", "first-barrier"])
    printed = capsys.readouterr().out
    assert code == 1
    assert "python -m tidegate.testing.simulate --seed" in printed
    assert "--break first-barrier" in printed
