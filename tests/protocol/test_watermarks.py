"""The watermark of a task is the lowest among its open channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.protocol.watermarks import WatermarkValve


def test_the_slowest_channel_decides() -> None:
    valve = WatermarkValve(2)
    assert valve.on_watermark(0, 100) is None
    assert valve.on_watermark(1, 40) == 40
    assert valve.on_watermark(1, 200) == 100
    assert valve.on_watermark(1, 300) is None


def test_a_watermark_that_goes_back_is_ignored() -> None:
    valve = WatermarkValve(1)
    assert valve.on_watermark(0, 100) == 100
    assert valve.on_watermark(0, 50) is None
    assert valve.on_watermark(0, 101) == 101


def test_an_ended_channel_holds_nobody_back() -> None:
    valve = WatermarkValve(2)
    assert valve.on_watermark(0, 70) is None
    assert valve.on_channel_ended(1) == 70
    assert valve.on_channel_ended(0) == MAX_WATERMARK_MS


@given(
    st.lists(st.tuples(st.integers(min_value=0, max_value=2), st.integers(min_value=0, max_value=50))),
)
def test_it_only_rises_and_equals_the_minimum(steps: list[tuple[int, int]]) -> None:
    valve = WatermarkValve(3)
    highest = [-1, -1, -1]
    current = -1
    for channel, timestamp_ms in steps:
        highest[channel] = max(highest[channel], timestamp_ms)
        lowest = min(highest)
        assert valve.on_watermark(channel, timestamp_ms) == (lowest if lowest > current else None)
        current = max(current, lowest)
