from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from tidegate.common import Duration, Instant, Time


def test_time_counts_milliseconds() -> None:
    amounts = [Time.milliseconds(7), Time.seconds(2), Time.minutes(2), Time.hours(2), Time.days(2)]
    assert [amount.to_milliseconds() for amount in amounts] == [
        7,
        2_000,
        120_000,
        7_200_000,
        172_800_000,
    ]
    assert Time.seconds(60) == Time.minutes(1)
    assert repr(Time.seconds(1)) == "Time.milliseconds(1000)"


def test_duration_counts_nanoseconds() -> None:
    assert Duration.of_nanos(1_500_000).to_millis() == 1
    assert Duration.of_millis(1).to_nanos() == 1_000_000
    assert Duration.of_seconds(60) == Duration.of_minutes(1)
    assert Duration.of_hours(24) == Duration.of_days(1)
    assert Duration.of_seconds(1) < Duration.of_minutes(1)
    assert repr(Duration.of_seconds(1)) == "Duration.of_millis(1000)"
    assert repr(Duration.of_nanos(5)) == "Duration.of_nanos(5)"


def test_a_timedelta_becomes_the_same_duration_exactly() -> None:
    # Through a float of seconds this one would lose its last microsecond.
    delta = timedelta(days=100_000, microseconds=1)
    assert Duration.of_timedelta(delta).to_nanos() == 100_000 * 86_400 * 10**9 + 1_000


@pytest.mark.parametrize("epoch_milli", [0, 1, 999, 1_000, 1_700_000_000_123, -1, -999, -1_000])
def test_an_instant_returns_the_milliseconds_it_was_made_of(epoch_milli: int) -> None:
    instant = Instant.of_epoch_milli(epoch_milli)
    assert 0 <= instant.nanos < 10**9
    assert instant.to_epoch_milli() == epoch_milli
    assert pickle.loads(pickle.dumps(instant)) == instant


def test_an_instant_rounds_towards_the_past_and_prints_as_in_pyflink() -> None:
    assert Instant(-1, 999_999_999).to_epoch_milli() == -1
    assert Instant(0, 1_999_999).to_epoch_milli() == 1
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
