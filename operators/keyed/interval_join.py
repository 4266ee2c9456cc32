"""The interval join: pairs of records of one key whose event times are close to each other.

Source: Flink's `IntervalJoinOperator`. Each side keeps its records, by event time, for as long as a record
of the other side may still come that they pair with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from ...common.errors import TidegateError, UserCodeError
from ...common.typeinfo import TypeInformation, Types
from ...protocol.elements import Batch, RowBatch
from ...protocol.watermarks import MIN_WATERMARK_MS
from ...state.descriptors import MapStateDescriptor
from ...state.kinds import MapState
from ..late_records import LateRecords
from ..side_outputs import emit_results
from ..timers.timers import Timer, TimerServices, TimerTarget
from ..window_functions import ProcessJoinFunction
from .keyed import KeyedOperator, Selector

_LEFT, _RIGHT = 0, 1


@dataclass(frozen=True)
class Interval:
    """A left record at time `t` pairs with right ones from `t + lower` to `t + upper`, both included.

    Attributes:
        lower_ms: May be negative, as may `upper_ms`.
        late_tag_ids: Side outputs for late records of the left and the right side; `None` drops them.
    """

    lower_ms: int
    upper_ms: int
    late_tag_ids: tuple[str | None, str | None] = (None, None)

    def of_side(self, side: int) -> tuple[int, int]:
        """The bounds as a record of one side sees the other."""
        return (self.lower_ms, self.upper_ms) if side == _LEFT else (-self.upper_ms, -self.lower_ms)


class IntervalJoinOperator(KeyedOperator, TimerTarget):
    """Joins its two inputs.

    Args:
        function: A `ProcessJoinFunction`, or a callable of left record, right record and context.
        interval: When two records are a pair.
        key_selectors: Of the left and the right input.
        key_type: Declared type of the key, if any.
    """

    input_count = 2

    def __init__(
        self,
        function: Any,
        interval: Interval,
        key_selectors: tuple[Selector, Selector],
        key_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(function, "process_element", key_selectors[_LEFT], key_type)
        self._interval = interval
        self._selectors = key_selectors

    def open(self) -> None:
        super().open()
        self.late_records = LateRecords(
            self.context,
            "behind the watermark: side_output_left_late_data() and side_output_right_late_data() keep them",
        )
        timer_services = self.timer_services = TimerServices(self.context, self.keyed)
        self._timers = timer_services.create("interval_join", self, namespaced=True)
        self._buffers = [self._buffer("_left_buffer"), self._buffer("_right_buffer")]

    def _buffer(self, name: str) -> MapState[int, list[Any]]:
        return self.keyed.get_map_state(MapStateDescriptor(name, Types.LONG(), None))

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = batch.rows()
        # The selector that `keys_of` falls back on is that of the input at hand.
        self._key_selector = self._selectors[input_index]
        keys = self.keys_of(batch, values)
        if batch.timestamps is None and values:
            raise self._without_timestamp(values[0])
        self._join(values, keys, batch.timestamps or (), input_index)
        self.keyed.current_key = None
        self.keyed.records_processed(len(values))

    def _join(self, values: list[Any], keys: Sequence[Any], times: Sequence[int], side: int) -> None:
        keyed, watermark = self.keyed, self._timers.current_watermark()
        lower, upper = self._interval.of_side(side)
        context = _PairContext()
        results: list[Any] = []
        result_times: list[int] = []
        late: tuple[list[Any], list[int]] = ([], [])
        value: Any = None
        try:
            for value, keyed.current_key, time in zip(values, keys, times):
                if time is None:
                    raise self._without_timestamp(value)
                if watermark > MIN_WATERMARK_MS and time < watermark:
                    late[0].append(value)
                    late[1].append(time)
                    continue
                self._keep(value, time, side, upper)
                for other_time, others in self._buffers[1 - side].sorted_items(
                    time + lower, time + upper + 1
                ):
                    context.times = (time, other_time) if side == _LEFT else (other_time, time)
                    for other in others:
                        left, right = (value, other) if side == _LEFT else (other, value)
                        produced = self._call(left, right, context)
                        if produced is not None:
                            results.extend(produced)
                    latest = max(context.times)
                    result_times.extend(repeat(latest, len(results) - len(result_times)))
        except Exception as error:
            raise self.user_error("process_element()", error, value) from error
        if results:
            emit_results(self.output, results, result_times)
        if late[0]:
            self._emit_late(RowBatch(*late), side)

    def _keep(self, value: Any, time: int, side: int, upper: int) -> None:
        buffer = self._buffers[side]
        kept = buffer.get(time)
        if kept is None:
            kept = []
            self._timers.register_event_time_timer(side, time + max(0, upper))
        kept.append(value)
        buffer.put(time, kept)

    def _emit_late(self, late: Batch, side: int) -> None:
        tag_id = self._interval.late_tag_ids[side]
        if tag_id is not None:
            self.output.emit_side(tag_id, late)
            return
        self.late_records.drop(len(late), late.values[0])

    def on_event_time(self, timer: Timer) -> None:
        side: int = timer.namespace
        _, upper = self._interval.of_side(side)
        self._buffers[side].remove(timer.timestamp - max(0, upper))

    def on_processing_time(self, timer: Timer) -> None:
        raise AssertionError("an interval join has no processing-time timers")

    def _without_timestamp(self, record: Any) -> TidegateError:
        return UserCodeError(
            f"operator {self.context.name_with_subtask}: the record {record!r:.200} has no timestamp, but an "
            f"interval join goes by event time; call assign_timestamps_and_watermarks() on both streams "
            f"before their key_by()"
        )


class _PairContext(ProcessJoinFunction.Context):
    """One object per batch, not per pair."""

    times: tuple[int, int]

    def get_left_timestamp(self) -> int:
        return self.times[_LEFT]

    def get_right_timestamp(self) -> int:
        return self.times[_RIGHT]

    def get_timestamp(self) -> int:
        return max(self.times)
