"""Event time where several streams meet: the lowest watermark among those that are not idle."""

from __future__ import annotations

from .elements import MAX_WATERMARK_MS, Watermark, WatermarkStatus

MIN_WATERMARK_MS = -(1 << 63)


class WatermarkValve:
    """Combines the watermarks of `channel_count` channels, or of as many inputs of an operator.

    An idle channel holds nobody back. When all are idle, so is the whole; and as nothing is awaited then,
    the highest watermark among them counts. A channel that wakes up behind that takes part again when it has
    caught up. A channel whose watermark is `MAX_WATERMARK_MS` has ended: it is neither idle nor awaited.

    Source: Flink's `StatusWatermarkValve`. There an ended channel counts as active, so that the whole
    jumps to the end of time when all others are idle; here they decide.
    """

    def __init__(self, channel_count: int) -> None:
        self._channels = [MIN_WATERMARK_MS] * channel_count
        self._idle = [False] * channel_count
        self._current = MIN_WATERMARK_MS
        self._is_idle = False

    @property
    def current_ms(self) -> int:
        """The watermark of the whole; `MIN_WATERMARK_MS` before the first."""
        return self._current

    @property
    def is_idle(self) -> bool:
        """Whether the whole is idle."""
        return self._is_idle

    def on_watermark(self, channel: int, timestamp_ms: int) -> list[Watermark | WatermarkStatus]:
        """Take a channel's watermark; what changes for the whole, in order."""
        if timestamp_ms <= self._channels[channel]:
            return []
        self._channels[channel] = timestamp_ms
        if self._idle[channel] and timestamp_ms < MAX_WATERMARK_MS:
            return []
        return self._changes()

    def on_status(self, channel: int, is_idle: bool) -> list[Watermark | WatermarkStatus]:
        """A channel became idle, or active again; what changes for the whole, in order."""
        if is_idle == self._idle[channel]:
            return []
        self._idle[channel] = is_idle
        return self._changes()

    def on_channel_ended(self, channel: int) -> list[Watermark | WatermarkStatus]:
        """The channel ended; what changes for the whole, in order."""
        return self.on_watermark(channel, MAX_WATERMARK_MS)

    def _changes(self) -> list[Watermark | WatermarkStatus]:
        is_open = [timestamp_ms < MAX_WATERMARK_MS for timestamp_ms in self._channels]
        if not any(is_open):
            return self._risen(MAX_WATERMARK_MS)
        active = [
            timestamp_ms
            for timestamp_ms, opened, idle in zip(self._channels, is_open, self._idle, strict=True)
            if opened and not idle
        ]
        if not active:
            highest = max(each for each, opened in zip(self._channels, is_open, strict=True) if opened)
            return [*self._risen(highest), *self._changed_status(True)]
        # Who woke up behind the rest is not waited for until it has caught up.
        caught_up = [timestamp_ms for timestamp_ms in active if timestamp_ms >= self._current]
        return [*self._changed_status(False), *self._risen(min(caught_up, default=MIN_WATERMARK_MS))]

    def _risen(self, timestamp_ms: int) -> list[Watermark | WatermarkStatus]:
        if timestamp_ms <= self._current:
            return []
        self._current = timestamp_ms
        return [Watermark(timestamp_ms)]

    def _changed_status(self, is_idle: bool) -> list[Watermark | WatermarkStatus]:
        if is_idle == self._is_idle:
            return []
        self._is_idle = is_idle
        return [WatermarkStatus(is_idle)]
