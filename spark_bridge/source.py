"""A bounded source from a Spark DataFrame."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..common.errors import ConfigurationError, UserCodeError
from ..operators.base import OperatorContext
from ..operators.sources.enumerators import Boundedness
from ..operators.sources.sources import Source, SourceReader
from ..protocol.elements import Batch, ColumnBatch, RowBatch
from .exchange.exchange_frames import packing
from .java import require_java
from .session import SparkSessionLease, SparkSettings, session_host

COLOCATION_GROUP = "spark"
"""All Spark operators of a job share one process, and so one session."""


@dataclass(frozen=True)
class SparkPosition:
    """How far a reader has come.

    Attributes:
        rows: How many rows it has emitted.
        after: The columns of the order in the last of them.
    """

    rows: int = 0
    after: tuple[Any, ...] | None = None


class SparkSource(Source):
    """Emits the rows of a DataFrame, in one order on every run, as Arrow batches.

    The position is the last row emitted: a restored reader asks for the rows behind it, so Spark filters
    the others out where they are read, and what was made of them is not computed again. Rows come
    partition by partition, so the driver process holds one or two of them.

    Args:
        build: Makes the DataFrame from a session; must give the same rows whenever it is called.
        order_by: Columns to sort by; together they must tell any two rows apart.
        settings: How the session is started.
    """

    def __init__(self, build: Callable[[Any], Any], order_by: list[str], settings: SparkSettings) -> None:
        if not order_by:
            raise ConfigurationError(
                "from_spark() needs order_by: without an order a restored source could not tell which "
                "rows it has emitted"
            )
        self._build = build
        self._order_by = list(order_by)
        self._settings = settings

    def create_splits(self, parallelism: int) -> list[Any]:
        return [SparkPosition()]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _SparkReader(self._build, self._order_by, self._settings, splits)

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def max_source_parallelism(self) -> int | None:
        return 1

    def colocation_group(self) -> str | None:
        return COLOCATION_GROUP

    def validate(self) -> None:
        require_java().use()


class _SparkReader(SourceReader):
    def __init__(
        self,
        build: Callable[[Any], Any],
        order_by: list[str],
        settings: SparkSettings,
        splits: list[SparkPosition],
    ) -> None:
        self._build = build
        self._order_by = order_by
        self._settings = settings
        self._position = splits[0] if splits else None
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self._lease: SparkSessionLease | None = None
        self._where = ""

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        if self._position is not None:
            self._lease = session_host().acquire(self._settings)

    def poll(self, max_records: int) -> Batch | None:
        if self._position is None or self._lease is None:
            return None
        if self._batches is None:
            if self._lease.is_starting():
                return RowBatch([])
            session = self._lease.session()
            with self._lease.losses(self._where):
                self._batches = self._open_batches(session, self._position)
        with self._lease.losses(self._where):
            rest = next(self._batches, None) if self._rest is None else self._rest
        if rest is None:
            return None
        taken = rest.slice(0, max_records)
        self._rest = rest.slice(max_records) if rest.num_rows > max_records else None
        self._position = SparkPosition(self._position.rows + taken.num_rows, self._order_of_last(taken))
        # A slice would drag its whole batch along wherever it is pickled; a copy does not.
        return ColumnBatch(taken.take(pa.array(range(taken.num_rows), pa.int64())))

    def snapshot_state(self) -> list[Any]:
        return [] if self._position is None else [self._position]

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()

    def _open_batches(self, session: Any, position: SparkPosition) -> Iterator[pa.RecordBatch]:
        frame = _without_time_zones(self._build(session))
        self._check_order(frame)
        if position.after is not None:
            frame = frame.where(_behind(self._order_by, position.after))
        packed = frame.orderBy(*self._order_by).mapInArrow(packing(), "batch binary")
        before = position.after
        for row in packed.toLocalIterator(prefetchPartitions=True):
            batch = pa.ipc.open_stream(row[0]).read_next_batch()
            self._check_distinct(batch, before)
            before = self._order_of_last(batch)
            yield batch

    def _order_of_last(self, batch: pa.RecordBatch) -> tuple[Any, ...]:
        return tuple(batch.column(name)[-1].as_py() for name in self._order_by)

    def _check_order(self, frame: Any) -> None:
        kinds = dict(frame.dtypes)
        unknown = [name for name in self._order_by if name not in kinds]
        parts = ("struct", "array", "map")
        nested = [name for name in self._order_by if kinds.get(name, "").startswith(parts)]
        if unknown or nested:
            raise ConfigurationError(
                f"{self._where}: order_by names {', '.join(unknown or nested)}, "
                + ("which the DataFrame does not have" if unknown else "which has parts; name plain columns")
                + f". Its columns are {', '.join(f'{name}: {kind}' for name, kind in kinds.items())}"
            )

    def _check_distinct(self, batch: pa.RecordBatch, before: tuple[Any, ...] | None) -> None:
        """Two rows that the order does not tell apart could get lost on a restore."""
        is_same = None
        for name in self._order_by:
            column = batch.column(name)
            above, below = column.slice(0, len(column) - 1), column.slice(1)
            equal = pc.fill_null(pc.equal(above, below), False)
            equal = pc.or_(equal, pc.and_(above.is_null(), below.is_null()))
            is_same = equal if is_same is None else pc.and_(is_same, equal)
        first = tuple(batch.column(name)[0].as_py() for name in self._order_by)
        if first == before or pc.any(is_same).as_py():
            raise UserCodeError(
                f"{self._where}: order_by ({', '.join(self._order_by)}) does not tell rows apart: two rows "
                f"have the same; name more columns, or make the rows distinct"
            )


def _behind(order_by: list[str], after: tuple[Any, ...]) -> Any:
    """The condition for rows behind one in ascending order, nulls first.

    The first column also stands alone, as the filter that sources of data can use.
    """
    from pyspark.sql import functions as F

    columns = [F.col(f"`{name}`") for name in order_by]
    same: list[Any] = []
    either = []
    for column, value in zip(columns, after, strict=True):
        greater = column.isNotNull() if value is None else column > F.lit(value)
        either.append(functools.reduce(operator.and_, [*same, greater]))
        same.append(column.eqNullSafe(F.lit(value)))
    behind = functools.reduce(operator.or_, either)
    return behind if after[0] is None else (columns[0] >= F.lit(after[0])) & behind


def _without_time_zones(frame: Any) -> Any:
    """The DataFrame with its timestamps as they read in the session's time zone, UTC.

    PySpark would otherwise show them in the time zone of each process.
    """
    return frame.to(_without_time_zone(frame.schema))


def _without_time_zone(kind: Any) -> Any:
    from pyspark.sql import types

    if isinstance(kind, types.TimestampType):
        return types.TimestampNTZType()
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_without_time_zone(kind.elementType), kind.containsNull)
    if isinstance(kind, types.MapType):
        key, value = _without_time_zone(kind.keyType), _without_time_zone(kind.valueType)
        return types.MapType(key, value, kind.valueContainsNull)
    if isinstance(kind, types.StructType):
        fields = [(field.name, _without_time_zone(field.dataType), field.nullable) for field in kind.fields]
        return types.StructType([types.StructField(*field) for field in fields])
    return kind
