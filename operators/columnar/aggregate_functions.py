"""What `keyed.aggregate(...)` can compute: counts, sums, means, smallest and largest values, quantiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ...common.errors import ConfigurationError
from ..running_folds import MAX, MIN, SUM, RunningFold
from .columns import schema_text

ROWS = "rows"


@dataclass(frozen=True, order=True)
class Fold:
    """What must be kept per key for some aggregations; several may share it.

    Attributes:
        kind: `rows`, `count`, `sum`, `min`, `max` or `sketch`.
        column: what is folded; empty for `rows`.
        is_integer: whether the column's values are kept as 64-bit integers, else as floats.
        accuracy: of a sketch.
    """

    kind: str
    column: str = ""
    is_integer: bool = True
    accuracy: float = 0.0

    @property
    def is_counted(self) -> bool:
        """Whether the fold itself is an integer."""
        return self.kind in ("rows", "count") or self.is_integer

    @property
    def text(self) -> str:
        """The fold as state names say it."""
        if self.kind == "sketch":
            return f"sketch({self.column}, {self.accuracy:g})"
        return f"{self.kind}({self.column})" if self.column else self.kind


class Aggregation(ABC):
    """One aggregate over the records of a key. Nulls in its column are left out.

    Args:
        column: The column it is over.
    """

    def __init__(self, column: str) -> None:
        if not isinstance(column, str) or not column:
            raise ConfigurationError(f"{type(self).__name__}() takes the name of a column, not {column!r}")
        self.column = column

    def check(self, schema: pa.Schema, where: str, error: type[Exception]) -> None:
        """Raise `error` unless `schema` has the column, with a type that can be aggregated."""
        if self.column not in schema.names:
            raise error(f"{where}: there is no column {self.column!r} in {schema_text(schema)}")
        kind = schema.field(self.column).type
        if not self.takes(kind):
            raise error(
                f"{where}: {type(self).__name__}({self.column!r}) cannot be computed from a column of type "
                f"{kind}; {self.advice()}"
            )

    def takes(self, kind: pa.DataType) -> bool:
        """Whether it can be computed from a column of this type."""
        return is_number(kind)

    def advice(self) -> str:
        """What the column should be."""
        return "cast it to integers of at most 64 bits with sign, or to floats, in map_batches()"

    @abstractmethod
    def folds(self, schema: pa.Schema) -> list[Fold]:
        """What must be kept for it, in the order in which its result needs it."""

    @abstractmethod
    def output_type(self, schema: pa.Schema) -> pa.DataType:
        """Type of its results."""

    def _is_integer(self, schema: pa.Schema) -> bool:
        return not pa.types.is_floating(schema.field(self.column).type)

    def _fold(self, fold: RunningFold, schema: pa.Schema) -> Fold:
        return Fold(fold.kind, self.column, self._is_integer(schema))


class Count(Aggregation):
    """How many records there are, or with a column how many of its values are not null."""

    def __init__(self, column: str | None = None) -> None:
        self.column = ""
        if column is not None:
            super().__init__(column)

    def check(self, schema: pa.Schema, where: str, error: type[Exception]) -> None:
        if self.column:
            super().check(schema, where, error)

    def takes(self, kind: pa.DataType) -> bool:
        return True

    def folds(self, schema: pa.Schema) -> list[Fold]:
        return [Fold("count", self.column) if self.column else Fold(ROWS)]

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.int64()


class Sum(Aggregation):
    """The sum: of integers an integer, of floats a float, added in the order of the records.

    An integer sum that does not fit into 64 bits fails the job.
    """

    def folds(self, schema: pa.Schema) -> list[Fold]:
        return [Fold("count", self.column), self._fold(SUM, schema)]

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.int64() if self._is_integer(schema) else pa.float64()


class Mean(Aggregation):
    """The arithmetic mean: the sum divided by the count, as a float."""

    def folds(self, schema: pa.Schema) -> list[Fold]:
        return [Fold("count", self.column), self._fold(SUM, schema)]

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.float64()


class Extreme(Aggregation):
    """What `Min` and `Max` share: numbers, dates, times and timestamps; NaN is left out like null."""

    fold: ClassVar[RunningFold]

    def takes(self, kind: pa.DataType) -> bool:
        return is_number(kind) or is_time(kind)

    def folds(self, schema: pa.Schema) -> list[Fold]:
        return [Fold("count", self.column), self._fold(self.fold, schema)]

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        return schema.field(self.column).type


class Min(Extreme):
    """The smallest value."""

    fold = MIN


class Max(Extreme):
    """The largest value."""

    fold = MAX


class Quantile(Aggregation):
    """A quantile of numbers, from a sketch of bounded relative error.

    The result is within `accuracy` of the value of rank `ceil(q * n)`, as a share of that value. NaN is left
    out like null.

    Args:
        column: The column it is over.
        q: From 0 (the smallest) over 0.5 (the median) to 1 (the largest).
        accuracy: Largest relative error, from 0.001 to 0.5. The sketch of a key takes a bucket for each step
            of twice that among its values.

    Source: Masson, Rim, Lee: "DDSketch", VLDB 2019.
    """

    def __init__(self, column: str, q: float, accuracy: float = 0.01) -> None:
        super().__init__(column)
        if not 0 <= q <= 1:
            raise ConfigurationError(f"Quantile({column!r}): q is {q!r}; it lies between 0 and 1")
        if not 0.001 <= accuracy <= 0.5:
            raise ConfigurationError(
                f"Quantile({column!r}): accuracy is {accuracy!r}; it lies between 0.001 and 0.5"
            )
        self.q = q
        self.accuracy = accuracy

    def folds(self, schema: pa.Schema) -> list[Fold]:
        return [Fold("sketch", self.column, False, self.accuracy)]

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.float64()


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a column's type are numbers that fit into 64 bits with sign."""
    return bool(
        (pa.types.is_integer(kind) and not pa.types.is_uint64(kind))
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    )


def is_time(kind: pa.DataType) -> bool:
    """Whether values of a column's type are points in time, or lengths of it."""
    return bool(
        pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    )


def checked_aggregations(aggregations: dict[str, Any], key: str, where: str) -> dict[str, Aggregation]:
    """What a user asked for.

    Raises:
        ConfigurationError: Nothing is asked for, something is no aggregation, or a name is the key's.
    """
    if not aggregations:
        raise ConfigurationError(f"{where}: name at least one aggregate, for example count=Count()")
    for name, aggregation in aggregations.items():
        if not isinstance(aggregation, Aggregation):
            raise ConfigurationError(
                f"{where}: {name} is a {type(aggregation).__name__}; use Count(), Sum(column), Mean(column), "
                f"Min(column), Max(column) or Quantile(column, q)"
            )
        if name == key:
            raise ConfigurationError(
                f"{where}: {name!r} is the name of the key column; call the aggregate something else"
            )
    return aggregations
