"""A source of consecutive integers, for tests, examples and benchmarks."""

from __future__ import annotations

import itertools
from typing import Any

from ..common.errors import ConfigurationError
from ..operators.sources.enumerators import Boundedness
from ..operators.sources.sources import Source, SourceReader
from ..protocol.elements import Batch, RowBatch


class NumberSequenceSource(Source):
    """Emits the integers `start` to `end`, both included, each exactly once.

    The range is cut into one split per subtask; order holds within a split.

    Args:
        start: First number.
        end: Last number; at least `start`.
    """

    def __init__(self, start: int, end: int) -> None:
        if end < start:
            raise ConfigurationError(f"number sequence from {start} to {end} is empty; swap the bounds")
        self._start = start
        self._end = end

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_splits(self, parallelism: int) -> list[Any]:
        count = self._end - self._start + 1
        bounds = [self._start + count * index // parallelism for index in range(parallelism + 1)]
        return [(low, high) for low, high in itertools.pairwise(bounds) if low < high]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _NumberReader(splits)


class _NumberReader(SourceReader):
    """Reads ranges given as (next number, number after the last)."""

    def __init__(self, splits: list[tuple[int, int]]) -> None:
        self._splits = list(splits)

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        position, end = self._splits[0]
        stop = min(position + max_records, end)
        if stop < end:
            self._splits[0] = (stop, end)
        else:
            self._splits.pop(0)
        return RowBatch(list(range(position, stop)))

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)
