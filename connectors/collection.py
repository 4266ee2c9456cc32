"""A source of the records of a Python collection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..operators.sources.enumerators import Boundedness
from ..operators.sources.sources import Source, SourceReader
from ..protocol.elements import Batch, RowBatch


class CollectionSource(Source):
    """Emits the records of a collection in order, from one subtask.

    Args:
        records: Anything iterable; read once, when the source is made.
    """

    def __init__(self, records: Iterable[Any]) -> None:
        self._records = list(records)

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _CollectionReader(self._records, splits)

    def max_source_parallelism(self) -> int | None:
        return 1


class _CollectionReader(SourceReader):
    """A split is the index of the next record."""

    def __init__(self, records: list[Any], splits: list[int]) -> None:
        self._records = records
        self._position = splits[0] if splits else len(records)

    def poll(self, max_records: int) -> Batch | None:
        if self._position >= len(self._records):
            return None
        values = self._records[self._position : self._position + max_records]
        self._position += len(values)
        return RowBatch(values)

    def snapshot_state(self) -> list[Any]:
        return [self._position]
