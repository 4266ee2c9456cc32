"""Gives records their event times, and makes a stream's watermarks from them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ..common.watermark_generators import (
    NO_TIMESTAMP,
    BoundedOutOfOrdernessWatermarks,
    WatermarkGenerator,
    WatermarkOutput,
)
from ..common.watermark_strategy import WatermarkStrategy
from ..protocol.elements import MAX_WATERMARK_MS, Batch
from ..protocol.watermarks import MIN_WATERMARK_MS
from .base import OperatorContext, StreamOperator
from .output import Emit
from .timestamps import check_timestamp, check_watermark, highest, packed


class EventTime(WatermarkOutput):
    """The event time of one subtask of a stream, by a strategy.

    Args:
        strategy: Where times and watermarks come from.
        context: The operator's place in the job.
        emit: Takes records with their times.
        advance: Takes watermarks.
        set_idle: Takes word that the stream is idle (true), or active again.
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
        self._assigner = strategy.timestamp_assigner
        # The strategy may be in use for several streams.
        self._generator: WatermarkGenerator | None = copy.deepcopy(strategy.generator)
        self._idle_timeout_ms = strategy.idle_timeout_ms
        self._context = context
        self._where = f"operator {context.name_with_subtask}"
        self._emit, self._advance, self._set_idle, self._fail = emit, advance, set_idle, fail
        self._last_ms = MIN_WATERMARK_MS
        self._is_idle = False
        self._had_records = True
        self._quiet_since_ms = 0

    def start(self) -> None:
        """Begin to emit periodically; the operator is open."""
        run_periodically(self._context, self.interval_ms, self.tick)

    @property
    def interval_ms(self) -> int | None:
        """How often `tick` is to be called; `None` or 0 for never."""
        if self._generator is None and self._idle_timeout_ms is None:
            return None
        return self._context.auto_watermark_interval_ms or self._idle_timeout_ms

    @property
    def progress_ms(self) -> int:
        """The watermark, be it emitted already or only due."""
        generator = self._generator
        due_ms = generator.watermark_ms if isinstance(generator, BoundedOutOfOrdernessWatermarks) else None
        return self._last_ms if due_ms is None else max(due_ms, self._last_ms)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for this stream."""
        return self._is_idle

    def keep_awake(self) -> None:
        """The stream is quiet because it was told to wait: that is not idleness."""
        self._had_records = True

    # ------------------------------------------------------------ records

    def process(self, batch: Batch) -> None:
        """Pass records on with their times, and whatever watermarks the generator makes of them."""
        self._had_records = True
        if self._is_idle:
            self.mark_active()
        if self._assigner is not None:
            batch = batch.with_timestamps(self._assigned(batch, self._assigner.extract_timestamp))
        generator, timestamps = self._generator, batch.timestamps
        if generator is None:
            self._emit(batch)
        elif isinstance(generator, BoundedOutOfOrdernessWatermarks):
            if timestamps is not None and len(timestamps):
                generator.on_highest(highest(timestamps))
            self._emit(batch)
        else:
            self._process_each(generator, batch)

    def _assigned(self, batch: Batch, extract: Callable[[Any, int], int]) -> Sequence[int]:
        values = batch.rows()
        before = [NO_TIMESTAMP] * len(values) if batch.timestamps is None else batch.timestamps
        timestamps: list[int] = []
        try:
            # `extend` keeps what came before an exception, so the record is known without counting.
            timestamps.extend(map(extract, values, before))
        except Exception as error:
            record = values[len(timestamps)] if len(timestamps) < len(values) else None
            raise self._fail("extract_timestamp()", error, record) from error
        times = packed(timestamps)
        if times is not None:
            return times
        for value, timestamp in zip(values, timestamps, strict=True):
            check_timestamp(timestamp, value, self._where)
        return timestamps

    def _process_each(self, generator: WatermarkGenerator, batch: Batch) -> None:
        """Cut the batch where the generator emits: what it says holds behind the record it saw."""
        values, timestamps = batch.rows(), batch.timestamps
        held: list[Callable[[], None]] = []
        held_output = _Held(self, held)
        start = 0
        for position, value in enumerate(values, start=1):
            timestamp = NO_TIMESTAMP if timestamps is None else timestamps[position - 1]
            try:
                generator.on_event(value, timestamp, held_output)
            except Exception as error:
                raise self._fail("on_event()", error, value) from error
            if held:
                self._emit(batch.part(start, position))
                start = position
                for action in held:
                    action()
                held.clear()
        if start < len(values):
            self._emit(batch.part(start, len(values)))

    # ------------------------------------------------------------ from time to time

    def tick(self) -> None:
        """Time has passed: emit what is due, or become idle. `start` sees to it."""
        if self._is_quiet():
            if not self._is_idle:
                self.mark_idle()
            return
        if self._generator is not None:
            try:
                self._generator.on_periodic_emit(self)
            except Exception as error:
                raise self._fail("on_periodic_emit()", error) from error

    def _is_quiet(self) -> bool:
        """Whether there was no record for the time that makes the stream idle."""
        if self._idle_timeout_ms is None:
            return False
        now_ms = self._context.processing_time.now_ms()
        if self._had_records:
            self._had_records = False
            self._quiet_since_ms = now_ms
        return now_ms - self._quiet_since_ms >= self._idle_timeout_ms

    # ------------------------------------------------------------ WatermarkOutput

    def emit_watermark(self, timestamp: int) -> None:
        check_watermark(timestamp, self._where)
        if self._is_idle:
            self.mark_active()
        if timestamp > self._last_ms:
            self._last_ms = timestamp
            self._advance(timestamp)

    def mark_idle(self) -> None:
        self._is_idle = True
        self._set_idle(True)

    def mark_active(self) -> None:
        self._is_idle = False
        self._set_idle(False)


def run_periodically(context: OperatorContext, interval_ms: int | None, action: Callable[[], None]) -> None:
    """Run an action on the task's loop again and again; never, without an interval."""
    if not interval_ms:
        return

    def run() -> None:
        action()
        service.call_at(service.now_ms() + interval_ms, run)

    service = context.processing_time
    service.call_at(service.now_ms() + interval_ms, run)


class _Held(WatermarkOutput):
    """Keeps what a generator says until the record that it saw is passed on."""

    def __init__(self, output: WatermarkOutput, held: list[Callable[[], None]]) -> None:
        self._output = output
        self._held = held

    def emit_watermark(self, timestamp: int) -> None:
        self._held.append(lambda: self._output.emit_watermark(timestamp))

    def mark_idle(self) -> None:
        self._held.append(self._output.mark_idle)

    def mark_active(self) -> None:
        self._held.append(self._output.mark_active)


class TimestampsAndWatermarksOperator(StreamOperator):
    """Applies a `WatermarkStrategy` to a stream, whose own watermarks end here but for the last.

    Source: Flink's operator of the same name.
    """

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self) -> None:
        self._own_time = EventTime(
            self._strategy, self.context, self.emit, self._advance, self._set_idle, self.user_error
        )
        self._own_time.start()

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._own_time.process(batch)

    def process_watermark(self, timestamp_ms: int, input_index: int = 0) -> None:
        if timestamp_ms == MAX_WATERMARK_MS:
            super().process_watermark(timestamp_ms, input_index)

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """Only the records of this stream say whether it is idle."""

    def _advance(self, timestamp_ms: int) -> None:
        super().process_watermark(timestamp_ms)

    def _set_idle(self, is_idle: bool) -> None:
        super().process_status(is_idle)
