"""Joins of two streams, with the names of Flink's Java API; PyFlink has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.errors import ConfigurationError
from ..common.output_tag import OutputTag
from ..common.typeinfo import TypeInformation
from ..operators.keyed.interval_join import Interval, IntervalJoinOperator
from ..operators.windows.assigners import WindowAssigner
from ..operators.windows.durations import TimeLength, milliseconds
from ..operators.windows.evictors import Evictor
from ..operators.windows.joining import (
    CoGroupWindowFunction,
    JoinWindowFunction,
    TaggedKey,
    tag_first,
    tag_second,
)
from ..operators.windows.triggers import Trigger
from .function_checks import checked
from .windowed_stream import WindowedStream

if TYPE_CHECKING:
    from .data_stream import DataStream
    from .keyed_stream import KeyedStream


class _Pair:
    """Two streams, and where their keys come from."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self.streams = (first, second)
        self.selectors: list[Any] = []
        self.key_type: TypeInformation | None = None

    def add_selector(self, key_selector: Any, key_type: TypeInformation | None) -> None:
        """The selector of the first stream, then that of the second."""
        checked(key_selector, "get_key")
        self.selectors.append(getattr(key_selector, "get_key", key_selector))
        self.key_type = key_type or self.key_type

    def windowed(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """The tagged records of both in windows."""
        first, second = self.streams
        tagged = first.map(tag_first).union(second.map(tag_second))
        return tagged.key_by(TaggedKey(*self.selectors), self.key_type).window(window_assigner)


class _Windowed:
    """Settings of the windows of a join; see `WindowedStream`."""

    def __init__(self, windows: WindowedStream) -> None:
        self._windows = windows

    def trigger(self, trigger: Trigger[Any, Any]) -> Any:
        """Say when windows fire."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Any:
        """Leave records out; each is a pair of 0 or 1, for the first or the second stream, and the record."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | TimeLength) -> Any:
        """Let windows take records for so many milliseconds after their end."""
        self._windows.allowed_lateness(time_ms)
        return self


class _JoinedWindows(_Windowed):
    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a function for every pair of records with one key in one window.

        Args:
            function: A `JoinFunction` or a callable of two records gives one result; a `FlatJoinFunction`
                any number.
            output_type: Type of the results.
        """
        return self._windows.apply(JoinWindowFunction(checked(function, "join")), output_type)


class _CoGroupedWindows(_Windowed):
    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a function for every key and window with the records of both streams.

        Args:
            function: A `CoGroupFunction` or a callable of two lists; one of them may be empty.
            output_type: Type of the results.
        """
        return self._windows.apply(CoGroupWindowFunction(checked(function, "co_group")), output_type)


class _JoinedKeys:
    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> _JoinedWindows:
        """The windows whose records are joined."""
        return _JoinedWindows(self._pair.windowed(window_assigner))


class _CoGroupedKeys:
    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> _CoGroupedWindows:
        """The windows whose records come together."""
        return _CoGroupedWindows(self._pair.windowed(window_assigner))


class JoinedStreams:
    """Two streams on their way to a window join: `where`, `equal_to`, `window`, `apply`."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._pair = _Pair(first, second)

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> JoinedStreams.Where:
        """The key of the first stream."""
        self._pair.add_selector(key_selector, key_type)
        return JoinedStreams.Where(self._pair)

    class Where:
        """The first stream has its key."""

        def __init__(self, pair: _Pair) -> None:
            self._pair = pair

        def equal_to(self, key_selector: Any, key_type: TypeInformation | None = None) -> _JoinedKeys:
            """The key of the second stream."""
            self._pair.add_selector(key_selector, key_type)
            return _JoinedKeys(self._pair)


class CoGroupedStreams:
    """Two streams on their way to a co-group: `where`, `equal_to`, `window`, `apply`."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._pair = _Pair(first, second)

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> CoGroupedStreams.Where:
        """The key of the first stream."""
        self._pair.add_selector(key_selector, key_type)
        return CoGroupedStreams.Where(self._pair)

    class Where:
        """The first stream has its key."""

        def __init__(self, pair: _Pair) -> None:
            self._pair = pair

        def equal_to(self, key_selector: Any, key_type: TypeInformation | None = None) -> _CoGroupedKeys:
            """The key of the second stream."""
            self._pair.add_selector(key_selector, key_type)
            return _CoGroupedKeys(self._pair)


class IntervalJoin:
    """Two keyed streams on their way to an interval join: `between`, `process`."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        self._left = left
        self._right = right

    def between(self, lower_bound: TimeLength, upper_bound: TimeLength) -> IntervalJoined:
        """Pair a left record at time t with right ones from `t + lower_bound` to `t + upper_bound`.

        Both bounds are included, and may be negative.

        Raises:
            ConfigurationError: The lower bound is above the upper one.
        """
        lower = milliseconds(lower_bound, "the lower bound of an interval join")
        upper = milliseconds(upper_bound, "the upper bound of an interval join")
        _check_bounds(lower, upper)
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined:
    """An interval join that lacks only its function."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._late_tag_ids: list[str | None] = [None, None]

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave out the right records at exactly the lower bound."""
        self._lower_ms += 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave out the right records at exactly the upper bound."""
        self._upper_ms -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send left records behind the watermark to a side output of the result."""
        self._late_tag_ids[0] = output_tag.tag_id
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send right records behind the watermark to a side output of the result."""
        self._late_tag_ids[1] = output_tag.tag_id
        return self

    def process(self, process_join_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a function for every pair.

        Args:
            process_join_function: A `ProcessJoinFunction`, or a callable of left record, right record and
                context; returns or yields results.
            output_type: Type of the results.

        Raises:
            ConfigurationError: No time is left between exclusive bounds.
        """
        # The module extends the one that imports this one.
        from .connected_streams import two_inputs

        _check_bounds(self._lower_ms, self._upper_ms)
        left, right = self._left, self._right
        operator = IntervalJoinOperator(
            checked(process_join_function, "process_element"),
            Interval(self._lower_ms, self._upper_ms, (self._late_tag_ids[0], self._late_tag_ids[1])),
            (left.key_selector, right.key_selector),
            left.key_type or right.key_type,
        )
        return two_inputs("IntervalJoin", operator, left, right, output_type, stateful=True)


def _check_bounds(lower_ms: int, upper_ms: int) -> None:
    if lower_ms > upper_ms:
        raise ConfigurationError(
            f"the lower bound of an interval join must not be above the upper one, got {lower_ms} ms and "
            f"{upper_ms} ms"
        )
