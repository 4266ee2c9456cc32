"""Clocks that provably disagree are corrected by as little as the messages prove."""

from __future__ import annotations

from tidegate.coordinator.monitoring.clock_skews import ClockSkews
from tidegate.protocol.ids import SubtaskId

TASK = SubtaskId("task-1", 0)


def test_clocks_that_may_agree_are_left_alone() -> None:
    assert ClockSkews().observe(TASK, -20.0, 30.0) == 0.0


def test_a_task_ahead_is_corrected_by_what_is_proven() -> None:
    assert ClockSkews().observe(TASK, 5_000.0, 5_040.0) == 5_000.0


def test_times_in_whole_milliseconds_prove_nothing() -> None:
    assert ClockSkews().observe(TASK, -20.0, -0.9) == 0.0


def test_a_task_behind_likewise() -> None:
    assert ClockSkews().observe(TASK, -5_040.0, -5_001.0) == -5_000.0


def test_quick_answers_narrow_the_estimate_for_slow_ones() -> None:
    skews = ClockSkews()
    skews.observe(TASK, 38.0, 41.0)
    assert skews.observe(TASK, -900.0, 950.0) == 38.0
    assert skews.of(TASK) == 38.0


def test_a_clock_that_was_set_is_believed_anew() -> None:
    skews = ClockSkews()
    skews.observe(TASK, 38.0, 41.0)
    assert skews.observe(TASK, -7_010.0, -7_001.0) == -7_000.0


def test_what_contradicts_itself_is_split() -> None:
    assert ClockSkews().observe(TASK, 10.0, 5.0) == 8.0
