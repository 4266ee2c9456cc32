"""A bounded source from a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ..common.errors import ConfigurationError
from ..operators.base import OperatorContext
from ..operators.enumerators import Boundedness
from ..operators.sources import Source, SourceReader
from ..protocol.elements import Batch
from .java import require_java
from .session import SparkSessionLease, SparkSettings, session_host

COLOCATION_GROUP = "spark"
"""All Spark operators of a job share one process, and so one session."""


class SparkSource(Source):
    """Emits the rows of a DataFrame as tuples, in one order on every run.

    The position is the number of rows emitted: a restored reader computes the DataFrame again and
    skips that many. Rows come partition by partition, so the driver process holds one or two of them.

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
        return [0]

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
        splits: list[int],
    ) -> None:
        self._build = build
        self._order_by = order_by
        self._settings = settings
        self._position = splits[0] if splits else None
        self._rows: Iterator[Any] | None = None
        self._lease: SparkSessionLease | None = None

    def open(self, context: OperatorContext) -> None:
        if self._position is not None:
            self._lease = session_host().acquire(self._settings)

    def poll(self, max_records: int) -> Batch | None:
        if self._position is None or self._lease is None:
            return None
        if self._rows is None:
            if self._lease.is_starting():
                return Batch([])
            self._rows = self._open_rows(self._lease.session(), self._position)
        values = [tuple(row) for row in islice(self._rows, max_records)]
        if not values:
            return None
        self._position += len(values)
        return Batch(values)

    def _open_rows(self, session: Any, position: int) -> Iterator[Any]:
        frame = self._build(session).orderBy(*self._order_by)
        rows = _without_time_zones(frame).toLocalIterator(prefetchPartitions=True)
        return islice(rows, position, None)

    def snapshot_state(self) -> list[Any]:
        return [] if self._position is None else [self._position]

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()


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
