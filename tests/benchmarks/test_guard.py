"""The guard fails when Tidegate has become slower, and not when a machine was busy for a moment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from tidegate.benchmarks import quick
from tidegate.benchmarks.guard import Outcome, judge, ratio_of

BOUNDS = {"keyed": 0.6, "windows": 0.4}


class Runs:
    """Gives the ratios of one run after the other, and keeps what was asked for."""

    def __init__(self, *runs: Mapping[str, float]) -> None:
        self.runs = list(runs)
        self.asked: list[list[str]] = []

    def __call__(self, names: Sequence[str]) -> Mapping[str, float]:
        self.asked.append(list(names))
        run = self.runs.pop(0)
        return {name: run[name] for name in names}


def outcomes(runs: Runs) -> dict[str, Outcome]:
    return {finding.name: finding.outcome for finding in judge(BOUNDS, runs)}


def test_a_job_that_takes_twice_as_long_for_a_record_is_found() -> None:
    limit = [1.0, 1.1, 0.9]
    before = ratio_of([1.7, 1.8, 1.6], limit)
    planted = ratio_of([2 * 1.7, 2 * 1.8, 2 * 1.6], limit)
    findings = judge({"keyed": before}, Runs({"keyed": planted}, {"keyed": planted}))
    assert [finding.outcome for finding in findings] == [Outcome.FALLEN]


@pytest.mark.parametrize("slow", [1.1, 1.3, 1.49])
def test_what_is_less_than_half_as_slow_again_passes_in_one_run(slow: float) -> None:
    runs = Runs({"keyed": 0.6 / slow, "windows": 0.4 / slow})
    assert outcomes(runs) == {"keyed": Outcome.KEPT, "windows": Outcome.KEPT}
    assert runs.asked == [["keyed", "windows"]]


def test_a_fall_that_the_second_run_does_not_see_is_noise_and_only_the_doubtful_run_again() -> None:
    runs = Runs({"keyed": 0.2, "windows": 0.4}, {"keyed": 0.55})
    assert outcomes(runs) == {"keyed": Outcome.NOISE, "windows": Outcome.KEPT}
    assert runs.asked == [["keyed", "windows"], ["keyed"]]


def test_a_machine_that_is_slow_for_both_changes_no_ratio() -> None:
    assert ratio_of([1.7, 5.1], [1.0, 3.0]) == pytest.approx(1 / 1.7)


def test_one_disturbed_round_of_three_does_not_count() -> None:
    assert ratio_of([2.0, 40.0, 2.0], [1.0, 1.0, 1.0]) == 0.5


def test_better_than_recorded_is_kept() -> None:
    assert set(outcomes(Runs({"keyed": 1.2, "windows": 2.0})).values()) == {Outcome.KEPT}


def test_every_guarded_pair_has_a_recorded_bound() -> None:
    assert set(json.loads(quick.BOUNDS.read_text())) == set(quick.pairs())
