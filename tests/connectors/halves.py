"""A source that waits half way, until what it gave first is seen outside of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.datastream import Source, SourceReader
from tidegate.protocol.elements import Batch


class InTwoHalves(Source):
    """Numbers 0 to 999 of each split; the second half follows once a condition holds.

    Args:
        is_first_half_there: The condition; travels with the job.
    """

    def __init__(self, is_first_half_there: Callable[[], bool]) -> None:
        self._is_first_half_there = is_first_half_there

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(index * 1_000, index * 1_000 + 1_000) for index in range(parallelism)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _HalvesReader(self._is_first_half_there, splits[0])


class _HalvesReader(SourceReader):
    def __init__(self, is_first_half_there: Callable[[], bool], split: tuple[int, int]) -> None:
        self._is_first_half_there = is_first_half_there
        self._position, self._end = split

    def poll(self, max_records: int) -> Batch | None:
        if self._position == self._end:
            return None
        if self._position == self._end - 500 and not self._is_first_half_there():
            return Batch([])
        values = list(range(self._position, self._position + 100))
        self._position += 100
        return Batch(values)

    def snapshot_state(self) -> list[Any]:
        return [(self._position, self._end)]
