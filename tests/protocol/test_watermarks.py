"""The watermark of a task is the lowest among its channels that are open and not idle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.elements import MAX_WATERMARK_MS, Watermark, WatermarkStatus
from tidegate.protocol.watermarks import MIN_WATERMARK_MS, WatermarkValve

IDLE, ACTIVE = WatermarkStatus(True), WatermarkStatus(False)


def test_the_slowest_channel_decides() -> None:
    valve = WatermarkValve(2)
    assert valve.on_watermark(0, 100) == []
    assert valve.on_watermark(1, 40) == [Watermark(40)]
    assert valve.on_watermark(1, 200) == [Watermark(100)]
    assert valve.on_watermark(1, 300) == []
    assert valve.current_ms == 100


def test_a_watermark_that_goes_back_is_ignored() -> None:
    valve = WatermarkValve(1)
    assert valve.on_watermark(0, 100) == [Watermark(100)]
    assert valve.on_watermark(0, 50) == []
    assert valve.on_watermark(0, 101) == [Watermark(101)]


def test_an_ended_channel_holds_nobody_back() -> None:
    valve = WatermarkValve(2)
    assert valve.on_watermark(0, 70) == []
    assert valve.on_channel_ended(1) == [Watermark(70)]
    assert valve.on_channel_ended(0) == [Watermark(MAX_WATERMARK_MS)]


def test_an_idle_channel_holds_nobody_back() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 70)
    assert valve.on_status(1, True) == [Watermark(70)]
    assert valve.on_status(1, True) == []
    assert valve.on_watermark(0, 80) == [Watermark(80)]


def test_who_wakes_up_behind_the_others_counts_again_when_it_has_caught_up() -> None:
    valve = WatermarkValve(2)
    valve.on_status(1, True)
    assert valve.on_watermark(0, 70) == [Watermark(70)]
    assert valve.on_status(1, False) == []
    assert valve.on_watermark(0, 75) == [Watermark(75)]
    assert valve.on_watermark(1, 75) == []
    assert valve.on_watermark(0, 90) == []
    assert valve.on_watermark(1, 80) == [Watermark(80)]


def test_when_all_are_idle_the_highest_watermark_counts_and_the_whole_is_idle() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 50)
    valve.on_watermark(1, 70)
    assert valve.on_status(0, True) == [Watermark(70)]
    assert valve.on_status(1, True) == [IDLE]
    assert valve.on_status(0, False) == [ACTIVE]
    assert valve.on_watermark(0, 60) == []
    assert valve.on_watermark(0, 71) == [Watermark(71)]


def test_the_last_to_become_idle_lets_the_highest_watermark_pass() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 50)
    valve.on_watermark(1, 70)
    assert valve.on_status(1, True) == []
    assert valve.on_status(0, True) == [Watermark(70), IDLE]


def test_the_others_being_idle_an_ended_channel_does_not_end_event_time() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 5)
    assert valve.on_channel_ended(1) == [Watermark(5)]
    assert valve.on_status(0, True) == [IDLE]
    assert valve.on_status(0, False) == [ACTIVE]
    assert valve.on_watermark(0, 6) == [Watermark(6)]
    valve.on_status(0, True)
    assert valve.on_channel_ended(0) == [Watermark(MAX_WATERMARK_MS)]


CHANNELS = 3
Step = tuple[int, int | bool | None]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=CHANNELS - 1),
        st.one_of(st.integers(min_value=0, max_value=50), st.booleans(), st.none()),
    )
)


def _take(valve: WatermarkValve, channel: int, what: int | bool | None) -> list[Watermark | WatermarkStatus]:
    if what is None:
        return valve.on_channel_ended(channel)
    if isinstance(what, bool):
        return valve.on_status(channel, what)
    return valve.on_watermark(channel, what)


@given(STEPS)
def test_it_only_rises_tells_of_every_change_and_passes_nobody_who_keeps_up(steps: list[Step]) -> None:
    valve = WatermarkValve(CHANNELS)
    highest, idle = [MIN_WATERMARK_MS] * CHANNELS, [False] * CHANNELS
    current, is_idle = MIN_WATERMARK_MS, False
    for channel, what in steps:
        keeping_up = [
            each
            for each, rests in zip(highest, idle, strict=True)
            if not rests and current <= each < MAX_WATERMARK_MS
        ]
        changes = _take(valve, channel, what)
        if isinstance(what, bool):
            idle[channel] = what
        else:
            highest[channel] = max(highest[channel], MAX_WATERMARK_MS if what is None else what)
        for change in changes:
            if isinstance(change, Watermark):
                assert change.timestamp_ms > current
                current = change.timestamp_ms
            else:
                assert change.is_idle != is_idle
                is_idle = change.is_idle
        still = [each for each, rests in zip(highest, idle, strict=True) if not rests]
        assert all(each >= current for each in still if each in keeping_up)
        assert (valve.current_ms, valve.is_idle) == (current, is_idle)


@given(STEPS)
def test_in_the_end_it_is_the_end_of_time_however_idle_the_channels_were(steps: list[Step]) -> None:
    valve = WatermarkValve(CHANNELS)
    for channel, what in steps:
        _take(valve, channel, what)
    for channel in range(CHANNELS):
        valve.on_channel_ended(channel)
    assert valve.current_ms == MAX_WATERMARK_MS
