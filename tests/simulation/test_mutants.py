"""Planted bugs are found. `make mutants` looks for all of them among more seeds."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tidegate.testing.simulation.run_one import run_seed

from .mutants import MUTANTS, finding
from .mutants.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:FoldingState is deprecated")]

QUICK_SEEDS = 60
QUICK = [
    "first-barrier",
    "any-order",
    "gap-too-early",
    "report-gap-ignored",
    "two-sequences",
    "marker-on-arrival",
    "end-is-no-barrier",
    "lost-positions",
    "manifest-before-acks",
    "notify-before-manifest",
    "late-freeze",
    "late-enumerator",
    "failure-counted-twice",
    "successor-killed",
    "end-forgotten-unverified",
    "dropped-records",
    "overtaken-unrecorded",
    "no-retry",
    "directory-not-synced",
    "manifest-synced-first",
]
"""Bugs that few seeds are enough for; the others would make the tests slow."""
STAGES = {
    "epochs-without-state": 87,
    "results-not-stored": 90,
    "begun-not-stored": 90,
    "epoch-held-by-one": 87,
    "epochs-lost-in-rescale": 152,
    "epoch-before-barrier": 2195,
}
"""Bugs of stages, which one seed in twenty has, with a seed that finds each."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    assert finding(name, seeds=QUICK_SEEDS) is not None
    assert run_seed(1).problem is None, "the bug stayed planted"


@pytest.mark.parametrize("name", STAGES)
def test_a_planted_bug_of_a_stage_is_found(name: str) -> None:
    assert finding(name, STAGES[name], seeds=0) is not None


def test_there_are_enough_bugs_and_each_says_what_it_breaks() -> None:
    assert len(MUTANTS) >= 15
    assert len({mutant.description for mutant in MUTANTS.values()}) == len(MUTANTS)


def test_a_bug_can_be_watched_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    found = finding("any-order", seeds=QUICK_SEEDS)
    assert found is not None
    assert main(["any-order", "--seed", str(found.seed)]) == 1
    assert f"seed {found.seed}: {found.problem}" in capsys.readouterr().out
