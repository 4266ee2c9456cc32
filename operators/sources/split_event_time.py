"""Watermarks of a source that reads several splits: each has its own, the lowest is that of the subtask.

Two partitions of a log that are read in turn are each in order; their mixture is not. So every split gets a
generator of its own, as in Flink's FLIP-27 (`WatermarkOutputMultiplexer`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...common.watermark_strategy import WatermarkStrategy
from ...protocol.elements import Batch
from ...protocol.watermarks import MIN_WATERMARK_MS
from ..base import OperatorContext
from ..event_time import EventTime, run_periodically
from ..output import Emit


@dataclass(slots=True)
class _SplitTime:
    """How far one split has come."""

    event_time: EventTime
    watermark_ms: int = MIN_WATERMARK_MS


class SplitEventTime:
    """The event time of one subtask that tells its splits apart.

    A split without records yet holds the others back until it is idle; without any split the subtask is
    idle. A split that appears later holds the watermark where it is until it has caught up.

    Args:
        strategy: Where times and watermarks come from; each split gets a copy of its generator.
        context: The operator's place in the job.
        emit: Takes records with their times.
        advance: Takes watermarks.
        set_idle: Takes word that the subtask is idle (true), or active again.
        fail: Turns an exception of user code into the error to raise.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        context: OperatorContext,
        emit: Emit,
        advance: Callable[[int], None],
        set_idle: Callable[[bool], None],
        fail: Callable[..., Exception],
    ) -> None:
        self._strategy, self._context = strategy, context
        self._emit, self._advance, self._set_idle, self._fail = emit, advance, set_idle, fail
        self._times: dict[str, _SplitTime] = {}
        self._last_ms = MIN_WATERMARK_MS
        self._is_idle = False

    def start(self) -> None:
        """Begin to emit periodically; the operator is open."""
        run_periodically(self._context, self._new("").interval_ms, self._tick)

    def set_splits(self, split_ids: frozenset[str]) -> None:
        """Watermarks are made from these splits, from now on; others are no longer awaited."""
        for gone in self._times.keys() - split_ids:
            del self._times[gone]
        for split_id in sorted(split_ids - self._times.keys()):
            self._times[split_id] = _SplitTime(self._new(split_id))
        self._combine()

    def process(self, batch: Batch, split_id: str) -> None:
        """Pass on records of one split with their times, and whatever watermarks follow from them."""
        self._times[split_id].event_time.process(batch)

    @property
    def progress_ms(self) -> int:
        """The watermark, be it emitted already or only due."""
        active = [each.event_time for each in self._times.values() if not each.event_time.is_idle]
        return max(self._last_ms, min((each.progress_ms for each in active), default=self._last_ms))

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for this subtask."""
        return self._is_idle

    def keep_awake(self) -> None:
        """The subtask is quiet because it was told to wait: that is not idleness."""
        for each in self._times.values():
            each.event_time.keep_awake()

    def _new(self, split_id: str) -> EventTime:
        def advance(timestamp_ms: int) -> None:
            self._times[split_id].watermark_ms = timestamp_ms
            self._combine()

        def set_idle(is_idle: bool) -> None:
            self._combine()

        return EventTime(self._strategy, self._context, self._emit, advance, set_idle, self._fail)

    def _tick(self) -> None:
        for each in list(self._times.values()):
            each.event_time.tick()

    def _combine(self) -> None:
        active = [each.watermark_ms for each in self._times.values() if not each.event_time.is_idle]
        if active:
            if self._is_idle:
                self._is_idle = False
                self._set_idle(False)
            self._rise(min(active))
            return
        # Nothing is awaited, so the furthest counts, as where several channels meet.
        self._rise(max((each.watermark_ms for each in self._times.values()), default=MIN_WATERMARK_MS))
        if not self._is_idle:
            self._is_idle = True
            self._set_idle(True)

    def _rise(self, watermark_ms: int) -> None:
        if watermark_ms > self._last_ms:
            self._last_ms = watermark_ms
            self._advance(watermark_ms)
