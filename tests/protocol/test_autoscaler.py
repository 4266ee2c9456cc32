"""How many subtasks an operator gets by how busy it is, and when it is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.scheduling.autoscaler import (
    FULLY_BUSY,
    AutoscalerPolicy,
    AutoscalerSettings,
    GroupLoad,
    SubtaskLoad,
)

QUICK = AutoscalerSettings(window_ms=10_000, stabilization_ms=5_000, scale_down_ms=0)


def group(
    busy: float, parallelism: int = 2, held: float = 0.0, key: str = "count", **more: object
) -> GroupLoad:
    """Operators all of whose subtasks are equally busy."""
    subtasks = ((SubtaskLoad(busy, held),) * parallelism,)
    load = GroupLoad(key, (key,), (), parallelism, 64, False, subtasks)
    return replace(load, **more)  # type: ignore[arg-type]


def decided(*groups: GroupLoad, settings: AutoscalerSettings = QUICK) -> dict[str, int]:
    """What follows from this load for half a minute."""
    policy = AutoscalerPolicy(settings)
    for now_ms in range(0, 30_000, 1_000):
        last = policy.decide(now_ms, 0, groups)
    return last


def test_more_and_fewer_by_the_target() -> None:
    assert decided(group(1.0, 2)) == {"count": 3}
    assert decided(group(0.95, 7)) == {"count": 10}
    assert decided(group(0.2, 10)) == {"count": 4}, "no more than 60 % go at once"
    assert decided(group(0.35, 4)) == {"count": 2}
    for busy in (0.45, 0.7, 0.85):
        assert decided(group(busy, 10)) == {}


def test_what_is_held_back_would_do_more() -> None:
    source = group(0.2, 2, held=0.75, key="source")
    count = group(1.0, 2, inputs=("source",))
    assert decided(source, count) == {"count": 12}
    assert decided(source, count, settings=replace(QUICK, most_growth=1.0)) == {"count": 4}


def test_a_stage_that_waits_for_spark_gets_no_more_subtasks() -> None:
    source = group(0.05, 2, held=0.75, key="source")
    assert decided(source, group(0.03, 2, key="stage", inputs=("source",))) == {"source": 1, "stage": 1}


def test_a_lag_is_caught_up_with() -> None:
    settings = replace(QUICK, lag_ms=1_000, catch_up_ms=60_000)
    assert decided(group(0.7, 10, lag_ms=900), settings=settings) == {}
    assert decided(group(0.7, 10, lag_ms=30_000), settings=settings) == {"count": 15}


def test_one_hot_subtask_keeps_all_of_them() -> None:
    skewed = ((SubtaskLoad(1.0, 0.0), *[SubtaskLoad(0.1, 0.0)] * 9),)
    assert decided(group(0.1, 10)) != {}
    assert decided(group(0.1, 10, subtasks=skewed)) == {}


def test_what_was_needed_lately_stays() -> None:
    policy = AutoscalerPolicy(replace(QUICK, scale_down_ms=60_000))
    for now_ms in range(0, 20_000, 1_000):
        policy.decide(now_ms, 0, [group(0.7, 8)])
    for now_ms in range(20_000, 78_000, 1_000):
        assert policy.decide(now_ms, 0, [group(0.1, 8)]) == {}
    later = [policy.decide(now_ms, 0, [group(0.1, 8)]) for now_ms in range(78_000, 100_000, 1_000)]
    assert later[-1] == {"count": 4}


def test_nothing_is_decided_right_after_a_start() -> None:
    policy = AutoscalerPolicy(QUICK)
    for now_ms in range(0, 5_000, 1_000):
        assert policy.decide(now_ms, 0, [group(1.0)]) == {}
    assert policy.decide(5_000, 0, [group(1.0)]) == {"count": 3}
    assert policy.decide(6_000, 5_500, [group(1.0)]) == {}


def test_averages_forget_what_is_older_than_the_window() -> None:
    policy = AutoscalerPolicy(QUICK)
    for now_ms in range(0, 20_000, 1_000):
        policy.decide(now_ms, 0, [group(1.0)])
    for now_ms in range(20_000, 31_000, 1_000):
        last = policy.decide(now_ms, 0, [group(0.7)])
    assert last == {}


@pytest.mark.parametrize("left_alone", [{"is_fixed": True}, {"key": "odd", "uids": ("odd", "even")}])
def test_some_stay_as_they_are(left_alone: dict[str, object]) -> None:
    settings = replace(QUICK, excluded=frozenset({"even"}))
    assert decided(group(1.0, 2), settings=settings)
    assert decided(replace(group(1.0, 2), **left_alone), settings=settings) == {}  # type: ignore[arg-type]


loads = st.builds(SubtaskLoad, st.floats(0, 1), st.floats(0, 1))


@given(
    st.lists(st.lists(loads, min_size=1, max_size=6), min_size=1, max_size=25),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(5, 12),
)
def test_whatever_comes_limits_hold_and_the_fully_busy_keep_their_subtasks(
    history: list[list[SubtaskLoad]], parallelism: int, lowest: int, highest: int
) -> None:
    settings = replace(QUICK, stabilization_ms=0, window_ms=1, lowest=lowest, highest=highest)
    policy = AutoscalerPolicy(settings)
    for step, subtasks in enumerate(history):
        load = group(0.0, parallelism, subtasks=(tuple(subtasks),))
        number = policy.decide(step * 1_000, 0, [load]).get("count", parallelism)
        if number > parallelism:
            assert number <= highest
        elif number < parallelism:
            assert number >= min(lowest, parallelism)
            assert max(each.busy for each in subtasks) < FULLY_BUSY


@given(st.floats(0.05, 40.0))
def test_it_comes_to_rest(work: float) -> None:
    """An operator with so much work, shared out evenly, gets its subtasks in a few steps, and keeps them."""
    parallelism, settings = 4, replace(QUICK, stabilization_ms=0, window_ms=1)
    policy = AutoscalerPolicy(settings)
    for step in range(20):
        busy = min(1.0, work / parallelism)
        # Who cannot keep up holds the others back.
        held = max(0.0, 1 - parallelism / work)
        source = group(0.1, 1, held=held, key="source", is_fixed=True)
        count = group(busy, parallelism, inputs=("source",))
        changes = policy.decide(step * 1_000, 0, [source, count])
        if not changes:
            break
        parallelism = changes["count"]
    assert not changes
    assert work / parallelism <= settings.upper or parallelism == 64
