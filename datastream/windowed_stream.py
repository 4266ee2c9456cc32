"""Windows on streams: what is set here becomes one operator when a function is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.errors import ConfigurationError
from ..common.output_tag import OutputTag
from ..common.typeinfo import TypeInformation
from ..operators.columnar.aggregate_functions import Aggregation
from ..operators.columnar.columnar_windows import ColumnarWindowOperator
from ..operators.functions import NullByteKeySelector
from ..operators.windows.assigners import MergingWindowAssigner, WindowAssigner
from ..operators.windows.batched_operator import BatchedWindowOperator, is_common_case
from ..operators.windows.batched_sessions import BatchedSessionOperator, is_common_session
from ..operators.windows.durations import TimeLength, check_whole, milliseconds
from ..operators.windows.evictors import Evictor
from ..operators.windows.folding import aggregated, reduced
from ..operators.windows.merging_operator import MergingWindowOperator
from ..operators.windows.operator import Windowing, WindowOperator
from ..operators.windows.time_assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from ..operators.windows.triggers import Trigger
from ..operators.windows.window_contents import (
    AggregatedContents,
    CollectedContents,
    EvictingContents,
    ReducedContents,
    WindowContents,
)
from ..operators.windows.window_function_calls import WindowCall, call_after_folding, window_call
from .function_checks import checked

if TYPE_CHECKING:
    from .data_stream import DataStream, KeyedStream
    from .stream_execution_environment import StreamExecutionEnvironment

_TAKES_KEYS = True


class _Windows:
    """What windowed streams with and without keys share."""

    _is_keyed: bool

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise ConfigurationError(
                f"window() and window_all() take a WindowAssigner, such as "
                f"TumblingEventTimeWindows.of(Time.seconds(10)), not {window_assigner!r}"
            )
        self._stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._lateness_ms = 0
        self._late_tag_id: str | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Type of the records that are put into windows."""
        return self._stream.get_type()

    def _set_trigger(self, trigger: Trigger[Any, Any]) -> None:
        if not isinstance(trigger, Trigger):
            raise ConfigurationError(f"trigger() takes a Trigger, not {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ConfigurationError(
                f"{self._assigner!r} merges windows, but {type(trigger).__name__} cannot: its can_merge() "
                f"is false"
            )
        self._trigger = trigger

    def _set_evictor(self, evictor: Evictor[Any, Any]) -> None:
        if not isinstance(evictor, Evictor):
            raise ConfigurationError(f"evictor() takes an Evictor, not {evictor!r}")
        self._evictor = evictor

    def _set_lateness(self, time_ms: int | TimeLength) -> None:
        what = "the allowed lateness"
        lateness_ms = check_whole(time_ms, what) if isinstance(time_ms, int) else milliseconds(time_ms, what)
        if lateness_ms < 0:
            raise ConfigurationError(f"the allowed lateness cannot be negative, got {lateness_ms} ms")
        self._lateness_ms = lateness_ms

    def _set_late_tag(self, output_tag: OutputTag) -> None:
        if not isinstance(output_tag, OutputTag):
            raise ConfigurationError(f"side_output_late_data() takes an OutputTag, not {output_tag!r}")
        self._late_tag_id = output_tag.tag_id

    def _reduce(self, function: Any, window_function: Any, output_type: TypeInformation | None) -> DataStream:
        value_type = self._stream.known_type()
        contents: WindowContents = ReducedContents(checked(function, "reduce"), value_type)
        if self._evictor is not None:
            contents = EvictingContents(self._evictor, value_type, reduced(function), function)
        if window_function is None:
            output_type = output_type or value_type
        return self._build(contents, self._after_folding(window_function), output_type)

    def _aggregate(
        self,
        function: Any,
        window_function: Any,
        accumulator_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> DataStream:
        contents: WindowContents = AggregatedContents(function, accumulator_type)
        if self._evictor is not None:
            value_type = self._stream.known_type()
            contents = EvictingContents(self._evictor, value_type, aggregated(function), function)
        return self._build(contents, self._after_folding(window_function), output_type)

    def _collect(self, call: WindowCall, output_type: TypeInformation | None) -> DataStream:
        checked(call.function, call.method)
        value_type = self._stream.known_type()
        contents: WindowContents = CollectedContents(value_type)
        if self._evictor is not None:
            contents = EvictingContents(self._evictor, value_type)
        return self._build(contents, call, output_type)

    def _after_folding(self, window_function: Any) -> WindowCall:
        call = call_after_folding(window_function, self._is_keyed)
        checked(call.function, call.method)
        return call

    def _build(
        self, contents: WindowContents, call: WindowCall, output_type: TypeInformation | None
    ) -> DataStream:
        assigner = self._assigner
        trigger = self._trigger or assigner.get_default_trigger(self.get_execution_environment())
        windowing = Windowing(assigner, trigger, contents, call, self._lateness_ms, self._late_tag_id)
        kind = WindowOperator
        if is_common_session(windowing):
            kind = BatchedSessionOperator
        elif isinstance(assigner, MergingWindowAssigner):
            kind = MergingWindowOperator
        elif is_common_case(windowing):
            kind = BatchedWindowOperator
        stream = self._stream
        operator = kind(windowing, stream.key_selector, stream.key_type)
        return stream.transform(type(assigner).__name__, operator, output_type)


class WindowedStream(_Windows):
    """The records of a keyed stream, in windows.

    Args:
        keyed_stream: The stream.
        window_assigner: Which windows a record goes into.

    Raises:
        ConfigurationError: It is no `WindowAssigner`.
    """

    _is_keyed = True

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedStream:
        """Say when windows fire, instead of the assigner's default.

        Raises:
            ConfigurationError: It is no `Trigger`, or cannot merge while the windows do.
        """
        self._set_trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedStream:
        """Leave records out when a window fires. All records are kept until then, also for a reduce."""
        self._set_evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | TimeLength) -> WindowedStream:
        """Let windows by event time take records for so many milliseconds after their end.

        Each late record fires its window again, with all its records.

        Raises:
            ConfigurationError: It is negative.
        """
        self._set_lateness(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
        """Send records that are too late for all their windows to a side output of the result."""
        self._set_late_tag(output_tag)
        return self

    def reduce(
        self,
        reduce_function: Any,
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Combine the records of a window into one, as they come.

        Args:
            reduce_function: A `ReduceFunction` or a callable of two records.
            window_function: A `WindowFunction` or `ProcessWindowFunction` that gets the result.
            output_type: Type of the results.
        """
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: Any = None,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **aggregations: Aggregation,
    ) -> DataStream:
        """Fold the records of a window into an accumulator, as they come, or aggregate its columns.

        Args:
            aggregate_function: An `AggregateFunction`.
            window_function: A `WindowFunction` or `ProcessWindowFunction` that gets the result.
            accumulator_type: Type of the accumulator; without it accumulators are pickled.
            output_type: Type of the results.
            aggregations: Instead of all these, aggregates by the names of their columns, for example
                `count=Count(), total=Sum("v")`, on a stream that is keyed by a column. The results come in
                Arrow batches: the key, `window_start` and `window_end` in milliseconds, the aggregates.
        """
        if aggregations:
            given = (aggregate_function, window_function, accumulator_type, output_type)
            if any(argument is not None for argument in given):
                raise ConfigurationError(
                    "aggregate() takes a function or aggregates of columns, not both; window twice"
                )
            return self._aggregate_columns(aggregations)
        if aggregate_function is None:
            raise ConfigurationError(
                "aggregate() takes an AggregateFunction, or aggregates of columns such as count=Count()"
            )
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def _aggregate_columns(self, aggregations: dict[str, Any]) -> DataStream:
        assigner = self._assigner
        is_plain = self._trigger is None and self._evictor is None and self._lateness_ms == 0
        if not is_plain or not isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows)):
            raise ConfigurationError(
                f"aggregates of columns work in TumblingEventTimeWindows and SlidingEventTimeWindows without "
                f"trigger, evictor and allowed lateness, not in {assigner!r} as it is set up; use an "
                f"AggregateFunction"
            )
        stream = self._stream
        operator = ColumnarWindowOperator(
            stream.aggregates(aggregations), assigner.shape, stream.key_type, self._late_tag_id
        )
        return stream._then_columns(type(assigner).__name__, operator, operator.output_schema, stateful=True)

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a `WindowFunction` with all records of a window that fires."""
        return self._collect(window_call(window_function, _TAKES_KEYS, is_process=False), output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a `ProcessWindowFunction` with all records of a window that fires."""
        return self._collect(window_call(process_window_function, _TAKES_KEYS, is_process=True), output_type)


class AllWindowedStream(_Windows):
    """All records of a stream, in windows: one subtask has them all.

    Args:
        data_stream: The stream.
        window_assigner: Which windows a record goes into.
    """

    _is_keyed = False

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(data_stream.key_by(NullByteKeySelector()), window_assigner)

    def trigger(self, trigger: Trigger[Any, Any]) -> AllWindowedStream:
        """As `WindowedStream.trigger`."""
        self._set_trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> AllWindowedStream:
        """As `WindowedStream.evictor`."""
        self._set_evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | TimeLength) -> AllWindowedStream:
        """As `WindowedStream.allowed_lateness`."""
        self._set_lateness(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> AllWindowedStream:
        """As `WindowedStream.side_output_late_data`."""
        self._set_late_tag(output_tag)
        return self

    def reduce(
        self,
        reduce_function: Any,
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `WindowedStream.reduce`, with an `AllWindowFunction` or `ProcessAllWindowFunction`."""
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `WindowedStream.aggregate`, with an `AllWindowFunction` or `ProcessAllWindowFunction`."""
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call an `AllWindowFunction` with all records of a window that fires."""
        return self._collect(window_call(window_function, not _TAKES_KEYS, is_process=False), output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a `ProcessAllWindowFunction` with all records of a window that fires."""
        call = window_call(process_window_function, not _TAKES_KEYS, is_process=True)
        return self._collect(call, output_type)

    def _build(
        self, contents: WindowContents, call: WindowCall, output_type: TypeInformation | None
    ) -> DataStream:
        return super()._build(contents, call, output_type).force_non_parallel()
