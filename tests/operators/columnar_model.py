"""What aggregations give, computed one record after the other in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.operators.columnar.aggregate_functions import Aggregation, Count, Max, Mean, Min, Sum


class KeyModel:
    """The aggregates of one key."""

    def __init__(self, aggregations: Mapping[str, Aggregation]) -> None:
        self.aggregations = aggregations
        self.records: list[Mapping[str, Any]] = []

    def add(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        self.records.append(record)
        return self.results()

    def results(self) -> tuple[Any, ...]:
        return tuple(self.result(each) for each in self.aggregations.values())

    def result(self, aggregation: Aggregation) -> Any:
        if isinstance(aggregation, Count) and not aggregation.column:
            return len(self.records)
        values = [record[aggregation.column] for record in self.records]
        values = [value for value in values if value is not None]
        if isinstance(aggregation, Count):
            return len(values)
        if not values:
            return None
        if isinstance(aggregation, (Sum, Mean)):
            total = 0
            for value in values:
                total += value
            return total if isinstance(aggregation, Sum) else float(total) / len(values)
        numbers = [value for value in values if value == value] or [math.nan]
        if isinstance(aggregation, (Min, Max)):
            return min(numbers) if isinstance(aggregation, Min) else max(numbers)
        raise AssertionError(aggregation)


class Model:
    """The aggregates of all keys, in the order of the records."""

    def __init__(self, key: str, aggregations: Mapping[str, Aggregation]) -> None:
        self.key = key
        self.aggregations = aggregations
        self.keys: dict[Any, KeyModel] = {}

    def process(self, records: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        results = []
        for record in records:
            key = record[self.key]
            model = self.keys.setdefault(key, KeyModel(self.aggregations))
            results.append((key, *model.add(record)))
        return results


def same(left: Any, right: Any) -> bool:
    """Equal, where NaN equals itself."""
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right or (left != left and right != right))
