"""A job follows the size of its cluster: what goes at once, what comes when it stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.scheduling.reactive import ReactivePolicy, ReactiveSettings

PATIENT = ReactiveSettings(cooldown_ms=30_000, stabilization_ms=10_000)


def test_growth_waits_until_the_cluster_keeps_its_size() -> None:
    policy = ReactivePolicy(PATIENT)
    assert policy.decide(0, 2, 2, None) is None
    assert policy.decide(1_000, 3, 2, None) is None
    assert policy.decide(5_000, 4, 2, None) is None
    assert policy.decide(14_000, 4, 2, None) is None
    assert policy.decide(15_000, 4, 2, None) == 4


def test_growth_waits_for_the_cooldown() -> None:
    policy = ReactivePolicy(PATIENT)
    policy.decide(0, 4, 2, rescaled_ms=0)
    assert policy.decide(29_999, 4, 2, rescaled_ms=0) is None
    assert policy.decide(30_000, 4, 2, rescaled_ms=0) == 4


def test_what_goes_is_followed_at_once() -> None:
    policy = ReactivePolicy(PATIENT)
    policy.decide(0, 4, 4, rescaled_ms=0)
    assert policy.decide(1, 3, 4, rescaled_ms=0) == 3


def test_without_any_room_the_job_waits() -> None:
    assert ReactivePolicy(PATIENT).decide(0, 0, 4, None) is None


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 6)), max_size=30))
def test_two_growths_are_never_closer_than_the_cooldown(steps: list[tuple[int, int]]) -> None:
    policy = ReactivePolicy(PATIENT)
    now_ms, parallelism, rescaled_ms = 0, 2, None
    for passed_ms, slots in steps:
        now_ms += passed_ms
        number = policy.decide(now_ms, slots, parallelism, rescaled_ms)
        if number is None:
            continue
        assert number == slots > 0
        if number > parallelism and rescaled_ms is not None:
            assert now_ms - rescaled_ms >= PATIENT.cooldown_ms
        parallelism, rescaled_ms = number, now_ms
