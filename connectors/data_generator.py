"""A source that makes records from their numbers, at a steady rate if wanted.

Source of the idea: Flink's `DataGeneratorSource`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..common.errors import ConfigurationError
from ..operators.base import OperatorContext
from ..operators.sources.enumerators import Boundedness
from ..operators.sources.sources import Source, SourceReader
from ..protocol.elements import Batch, RowBatch
from .number_sequence import NumberSequenceSource


class DataGeneratorSource(Source):
    """Emits `generator_function(0)`, `generator_function(1)` and so on, each exactly once.

    The numbers are shared out in ranges, one a subtask; order holds within a range. What the function gives
    for a number must be the same every time, since after a failure some numbers come again.

    Args:
        generator_function: Makes a record of a number (picklable).
        count: How many records.
        records_per_second: Upper bound for all subtasks together; each gets its share. `None` for any.
    """

    def __init__(
        self,
        generator_function: Callable[[int], Any],
        count: int,
        records_per_second: float | None = None,
    ) -> None:
        if not callable(generator_function):
            raise ConfigurationError(
                f"the data generator takes a function of a number, not {generator_function!r:.100}"
            )
        if count < 1:
            raise ConfigurationError(f"the data generator is to make {count} records; it makes at least 1")
        if records_per_second is not None and not records_per_second > 0:
            raise ConfigurationError(f"records_per_second is {records_per_second}; it must be positive")
        self._function = generator_function
        self._numbers = NumberSequenceSource(0, count - 1)
        self._records_per_second = records_per_second

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_splits(self, parallelism: int) -> list[Any]:
        return self._numbers.create_splits(parallelism)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _GeneratingReader(
            self._numbers.create_reader(splits), self._function, self._records_per_second
        )


class _GeneratingReader(SourceReader):
    """Keeps the position in the reader of the numbers."""

    def __init__(
        self, numbers: SourceReader, function: Callable[[int], Any], records_per_second: float | None
    ) -> None:
        self._numbers = numbers
        self._function = function
        self._total_rate = records_per_second
        self._emitted = 0

    def open(self, context: OperatorContext) -> None:
        self._now_ms = context.now_ms
        self._started_ms = context.now_ms()
        self._rate = None if self._total_rate is None else self._total_rate / context.parallelism

    def poll(self, max_records: int) -> Batch | None:
        allowed = self._allowed(max_records)
        if not allowed:
            return RowBatch([])
        numbers = self._numbers.poll(allowed)
        if numbers is None:
            return None
        self._emitted += len(numbers)
        return RowBatch([self._function(number) for number in numbers.values])

    def _allowed(self, max_records: int) -> int:
        """What the rate leaves for now; the first record is due at once."""
        if self._rate is None:
            return max_records
        due = 1 + int((self._now_ms() - self._started_ms) * self._rate / 1_000)
        return min(max_records, max(0, due - self._emitted))

    def snapshot_state(self) -> list[Any]:
        return self._numbers.snapshot_state()
