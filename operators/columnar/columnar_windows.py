"""Aggregates per key and window over Arrow batches: tumbling and sliding windows by event time.

A window fires once, when the watermark reaches its end. The records of a batch are grouped by key and
window at once; Python runs once per key and window of a batch, not per record. What is kept is value state
of the key with the window as its namespace, and a timer for its end.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.errors import ConfigurationError, TidegateError, UserCodeError
from ...common.typeinfo import TypeInformation
from ...protocol.elements import MAX_WATERMARK_MS, Batch, ColumnBatch
from ..base import OperatorContext
from ..batch_selection import selected
from ..late_records import LateRecords
from ..output import Output
from ..timers.timer_queue import Due
from ..timers.timers import BatchTimerTarget, TimerServices
from .aggregate_functions import ROWS, Fold
from .aggregate_state import BatchFolds, KeyedFolds, result_column
from .column_key import DistinctKeys, distinct_keys
from .columnar_aggregate import Aggregates, FoldingOperator
from .columns import Int64s, as_columns, as_timestamps, timestamps_of
from .grouping import MAX_ROWS, Array, Grouping

WINDOW_START = "window_start"
WINDOW_END = "window_end"
# Records, counted once for each window that they are in: some ten arrays of 4 MiB.
_AT_ONCE = 8 * MAX_ROWS


class ColumnarWindowOperator(FoldingOperator, BatchTimerTarget):
    """For each key and window that has records: the key, the window, and the aggregates of its records.

    Args:
        aggregates: What is computed.
        shape: Size of the windows, distance from start to start, and offset of the starts from the epoch, in
            milliseconds.
        key_type: Declared type of the key, if any.
        late_tag_id: Side output for records that come after the end of all their windows; `None` drops them.

    Attributes:
        output_schema: Columns of the results; start and end of the window are in milliseconds.
    """

    def __init__(
        self,
        aggregates: Aggregates,
        shape: tuple[int, int, int],
        key_type: TypeInformation | None = None,
        late_tag_id: str | None = None,
    ) -> None:
        super().__init__(aggregates, [*aggregates.folds(), Fold(ROWS)], key_type)
        self._size, self._slide, self._offset = shape
        self._windows_of_a_record = -(-self._size // self._slide)
        self._late_tag_id = late_tag_id
        self._window_fields = [pa.field(name, pa.int64()) for name in (WINDOW_START, WINDOW_END)]
        taken_names = {aggregates.key_field.name, *aggregates.aggregations} & {WINDOW_START, WINDOW_END}
        if taken_names:
            raise ConfigurationError(
                f"aggregate(): {', '.join(sorted(taken_names))} is the name of a column that windows add; "
                f"call yours something else"
            )
        self.output_schema = pa.schema([aggregates.key_field, *self._window_fields, *aggregates.fields])

    def setup(self, context: OperatorContext, output: Output) -> None:
        self.late_records = LateRecords(
            context, "that come after their windows ended: side_output_late_data() keeps them"
        )
        super().setup(context, output)

    def open(self) -> None:
        self._states.open(self.keyed, namespaced=True)
        timer_services = self.timer_services = TimerServices(self.context, self.keyed)
        self._timers = timer_services.create("columnar_window", self, namespaced=True)
        self._due: defaultdict[Any, list[Any]] = defaultdict(list)

    def close(self) -> None:
        self.late_records.close()
        super().close()

    # ------------------------------------------------------------ records

    def process_batch(self, batch: Batch, input_index: int) -> None:
        columns = as_columns(batch, self._aggregates.schema, self._where)
        times = timestamps_of(batch)
        if times is None:
            raise UserCodeError(
                f"{self._where}: windows by event time need event times, but the records have none; name "
                f"a timestamp_column in from_arrow(), or call assign_timestamps_and_watermarks() first"
            )
        at_once = min(MAX_ROWS, max(1, _AT_ONCE // self._windows_of_a_record))
        for start in range(0, len(columns), at_once):
            self._add(columns.slice(start, at_once), times[start : start + at_once])
        self.keyed.records_processed(len(columns))

    def _add(self, columns: pa.RecordBatch, times: Int64s) -> None:
        """Add each record to its windows that are not over."""
        # Windows are numbered; NumPy divides by a constant several times quicker than it takes remainders.
        latest = (times - self._offset) // self._slide
        watermark = self._timers.current_watermark()
        # Windows of this number and below are over.
        over = (watermark - self._size + 1 - self._offset) // self._slide
        windows = self._windows_of_a_record
        is_all_open = not self._size % self._slide and int(latest.min()) - windows >= over
        keys = distinct_keys(self._aggregates.key.column_of(columns, self._where))
        if windows == 1 and is_all_open:
            self._add_to_windows(columns, _grouped(keys, None, latest))
            return
        numbers = latest[:, np.newaxis] - np.arange(windows)
        if is_all_open:
            rows, numbers = np.repeat(np.arange(len(columns)), windows), numbers.ravel()
        else:
            is_inside = numbers * self._slide + self._offset > times[:, np.newaxis] - self._size
            is_open = is_inside & (numbers > over)
            late = np.flatnonzero((times <= watermark) & ~is_open.any(axis=1))
            if len(late):
                self._late(ColumnBatch(columns, as_timestamps(times)), late)
            rows, numbers = np.nonzero(is_open)[0], numbers[is_open]
            if not len(rows):
                return
        at_once = len(rows) if _count(numbers) * len(keys.keys) < MAX_ROWS else MAX_ROWS
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            self._add_to_windows(columns, _grouped(keys, rows[part], numbers[part]))

    def _late(self, batch: Batch, rows: Int64s) -> None:
        if self._late_tag_id is None:
            first = batch.values.slice(int(rows[0]), 1).to_pylist()[0]
            self.late_records.drop(len(rows), first)
        else:
            self.output.emit_side(self._late_tag_id, selected(batch, rows))

    def _add_to_windows(self, columns: pa.RecordBatch, groups: _Groups) -> None:
        """Add records to one window each."""
        count = len(groups.keys)
        before: dict[Fold, Array] = {
            fold: np.empty(count, np.int64 if fold.is_counted else np.float64) for fold in self._states.folds
        }
        sketches: dict[Fold, list[Any]] = {fold: [None] * count for fold in self._states.sketches}
        windows = [(number * self._slide + self._offset, positions) for number, positions in groups.windows()]
        for start, positions in windows:
            self._load(start, positions, groups.keys, before, sketches)
        folds = BatchFolds(groups.grouping, columns, before, sketches)
        try:
            after = folds.after()
        except TidegateError as error:
            raise UserCodeError(f"{self._where}: {error}") from error
        folds.finish_sketches()
        for start, positions in windows:
            self.keyed.current_namespace = (start, start + self._size)
            keys = _picked(groups.keys, positions)
            self._states.store(keys, {fold: values[positions] for fold, values in after.items()})
            self._states.store_sketches(
                keys, {fold: _picked(values, positions) for fold, values in sketches.items()}
            )
        self.keyed.current_namespace = None

    def _load(
        self,
        start: int,
        positions: Array,
        every_key: list[Any],
        before: dict[Fold, Array],
        sketches: dict[Fold, list[Any]],
    ) -> None:
        """Read what one window has so far for some groups; a key's first records in it set a timer."""
        window = (start, start + self._size)
        keyed, keys = self.keyed, _picked(every_key, positions)
        keyed.current_namespace = window
        folds, new = self._states.load(keys)
        for fold, values in folds.items():
            before[fold][positions] = values
        for fold, found in self._states.load_sketches(keys).items():
            for position, sketch in zip(positions.tolist(), found, strict=True):
                sketches[fold][position] = sketch
        self._timers.register_event_time_timers([keys[position] for position in new], window, window[1] - 1)
        keyed.current_key = None

    # ------------------------------------------------------------ firing

    def advance_watermark(self, timestamp_ms: int) -> None:
        # The end of the input is no point in time: it lets nothing expire.
        if timestamp_ms < MAX_WATERMARK_MS:
            self.keyed.current_watermark = timestamp_ms

    def on_timers(self, due: Due, is_event_time: bool) -> None:
        for (key, window), _ in due:
            self._due[window].append(key)

    def timers_fired(self) -> None:
        due, self._due = self._due, defaultdict(list)
        for window, keys in due.items():
            self.keyed.current_namespace = window
            results = self._results(window, keys)
            self._states.clear(keys)
            self.emit(ColumnBatch(results, as_timestamps(np.full(len(keys), window[1] - 1))))
        self.keyed.current_namespace = None

    def _results(self, window: tuple[int, int], keys: list[Any]) -> pa.RecordBatch:
        aggregates = self._aggregates
        folds = KeyedFolds(self._states.load(keys)[0], self._states.load_sketches(keys))
        columns = [pa.array(keys, aggregates.key_field.type)]
        columns += [pa.array(np.full(len(keys), bound)) for bound in window]
        for field, aggregation in zip(aggregates.fields, aggregates.aggregations.values(), strict=True):
            columns.append(result_column(*folds.result(aggregation, aggregates.schema), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


@dataclass(frozen=True)
class _Groups:
    """The keys and windows of a batch that have records.

    Attributes:
        keys: per group, the key.
        numbers: per group, the number of its window.
    """

    grouping: Grouping
    keys: list[Any]
    numbers: Array

    def windows(self) -> list[tuple[int, Array]]:
        """Number of each window, and the positions of its groups."""
        order = np.argsort(self.numbers, kind="stable")
        found, starts = np.unique(self.numbers[order], return_index=True)
        return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


def _grouped(distinct: DistinctKeys, rows: Array | None, numbers: Int64s) -> _Groups:
    """Group records by key and window.

    Args:
        distinct: the keys of a batch.
        rows: places of records in the batch; None: each once.
        numbers: of the window that each of them is added to.
    """
    key_codes = distinct.codes if rows is None else distinct.codes[rows]
    windows = _count(numbers)
    if windows == 1:
        codes: Array = key_codes
    elif windows * len(distinct.keys) < MAX_ROWS:
        codes = key_codes.astype(np.uint16)
        codes *= windows
        codes += (numbers - numbers.min()).astype(np.uint16)
    else:
        found, window_codes = np.unique(numbers, return_inverse=True)
        codes = key_codes.astype(np.int64) * len(found) + window_codes
        codes = np.unique(codes, return_inverse=True)[1]
    grouping = Grouping(codes, rows)
    first = grouping.order[grouping.starts]
    return _Groups(grouping, _picked(distinct.keys, key_codes[first]), numbers[first])


def _count(numbers: Int64s) -> int:
    """How many windows there are from the first to the last; their difference may leave 64 bits."""
    return int(numbers.max()) - int(numbers.min()) + 1


def _picked(values: list[Any], positions: Array) -> list[Any]:
    return [values[position] for position in positions.tolist()]
