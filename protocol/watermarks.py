"""The watermark of a task: the lowest among its open input channels."""

from __future__ import annotations

from .elements import MAX_WATERMARK_MS

MIN_WATERMARK_MS = -(1 << 63)


class WatermarkValve:
    """Combines the watermarks of `channel_count` channels.

    Source: Flink's `StatusWatermarkValve`. A channel that ended no longer holds the others back.
    """

    def __init__(self, channel_count: int) -> None:
        self._channels = [MIN_WATERMARK_MS] * channel_count
        self._current = MIN_WATERMARK_MS

    def on_watermark(self, channel: int, timestamp_ms: int) -> int | None:
        """Take a channel's watermark; the task's new watermark in ms, or `None` if unchanged."""
        self._channels[channel] = max(self._channels[channel], timestamp_ms)
        lowest = min(self._channels)
        if lowest <= self._current:
            return None
        self._current = lowest
        return lowest

    def on_channel_ended(self, channel: int) -> int | None:
        """The channel ended; the task's new watermark in ms, or `None` if unchanged."""
        return self.on_watermark(channel, MAX_WATERMARK_MS)
