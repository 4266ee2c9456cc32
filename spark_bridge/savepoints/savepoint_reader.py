"""A savepoint or checkpoint as Spark DataFrames."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from ...common.errors import StateError
from ...common.typeinfo import TypeInformation, type_text
from ...protocol.key_groups import KeyGroupRange
from ...state.snapshots.snapshot_files import key_group_ranges
from ...state.snapshots.snapshot_reader import SnapshotOperator, read_snapshot
from ...state.snapshots.snapshot_states import KeyedSnapshotState
from ..in_flight import InFlightReading
from .state_reading import KeyedReading, OperatorStateReading, RawKeyedReading
from .state_types import spark_schema

_SMALLEST_PIECE_ROWS = 65_536
_LARGEST_PIECE_ROWS = 1_000_000
_TIMERS = re.compile(r"_timers_(.*)_(event|processing)")


class _Reading(Protocol):
    @property
    def columns(self) -> pa.Schema: ...

    def read(self, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


def read_savepoint(spark: Any, path: str) -> SavepointReader:
    """Open a savepoint or checkpoint for Spark; only its manifest is read.

    Args:
        spark: A SparkSession, with RayDP or without. Its executors read the state from storage.
        path: The directory of the savepoint or checkpoint, or the manifest in it; a local path, which may
            be relative, or any address of a checkpoint storage.

    Raises:
        CheckpointStorageError: There is no savepoint at `path`.
        CorruptCheckpointError: What is there is damaged, or of a newer format.
    """
    return SavepointReader(spark, path)


class SavepointReader:
    """The states of a savepoint or checkpoint as Spark DataFrames. Made by `read_savepoint`.

    Attributes:
        snapshot: The same for Python, without Spark (`tidegate.state.read_snapshot`).
    """

    def __init__(self, spark: Any, path: str) -> None:
        self._spark = spark
        self.path = absolute(path)
        self.snapshot = read_snapshot(self.path)

    def states(self) -> Any:
        """One row per state: `uid`, `operator`, `state`, `kind`, its types, rows and size."""
        fields = (
            "uid string, operator string, parallelism int, max_parallelism int, state string, kind string, "
            "key_type string, map_key_type string, value_type string, ttl string, stored_rows long, "
            "size_bytes long"
        )
        rows = [
            (
                operator.uid,
                operator.name,
                operator.parallelism,
                operator.max_parallelism,
                state.name,
                state.kind,
                *(state.schema.get(name) for name in ("key_type", "map_key_type", "value_type", "ttl")),
                state.stored_rows,
                state.size_bytes,
            )
            for operator in self.snapshot.operators.values()
            for state in operator.states
        ]
        return self._spark.createDataFrame(rows, fields)

    def keyed_state(
        self,
        uid: str,
        state: str,
        *,
        keys: Iterable[Any] | None = None,
        key_groups: tuple[int, int] | None = None,
        explode: bool = True,
        key_type: TypeInformation | None = None,
        namespace_type: TypeInformation | None = None,
        map_key_type: TypeInformation | None = None,
    ) -> Any:
        """The live entries of a keyed state.

        Columns: `key_group`, `key`, `namespace` (of windows), `map_key` (map state; one row per entry),
        `position` (list state; one row per element), `value`, `value_encoded` (what the typed column could
        not hold), `expiry` (with TTL; null: never).

        Args:
            uid: Of the operator.
            state: Name of the state.
            keys: Read only these keys: only the row groups that may hold them are read.
            key_groups: Read only these key groups, the first and the last.
            explode: Whether a list becomes one row per element; else it is one array. An element that was
                encoded with its whole list, and the expiries of such a list, need False.
            key_type: Type of the keys, where the job declared none.
            namespace_type: Type of the namespaces, such as `Types.TUPLE([Types.LONG(), Types.LONG()])` of
                time windows; without it those that are neither integers nor text are shown as text.
            map_key_type: Type of the map keys, where the job declared none.

        Raises:
            StateError: There is no such state.
        """
        stored = self.snapshot.keyed_state(uid, state)
        known = {"key_type": key_type, "namespace_type": namespace_type, "map_key_type": map_key_type}
        reading = self._keyed_reading(stored, keys, key_groups, known)
        frame = self._frame(reading, len(reading.pieces))
        if explode and stored.kind == "list" and pa.types.is_list(reading.columns.field("value").type):
            return _exploded(frame)
        return frame

    def timers(self, uid: str) -> Any:
        """The timers of an operator.

        Columns: `key_group`, `key`, `timestamp_ms`, `namespace` (as text, null where there is none),
        `service` (`user` for those of a process function) and `domain` (`event` or `processing`).
        """
        operator = self.snapshot.operator(uid)
        frames = [
            self._timers_of(operator.keyed_states[name], found[1], found[2])
            for name, found in _timer_states(operator)
        ]
        if not frames:
            raise StateError(f"operator {operator.name!r} (uid {uid}) has no timers in the checkpoint")
        united = frames[0]
        for frame in frames[1:]:
            united = united.unionByName(frame)
        return united

    def operator_state(self, uid: str, state: str) -> Any:
        """An operator state, one row per item: a list, a union list, or broadcast state.

        Columns: `subtask` that stored the item, `map_key` (broadcast state), `value`, `value_encoded`. One
        task reads it, since every item of it has room in the memory of a subtask.

        Raises:
            StateError: There is no such state.
        """
        operator = self.snapshot.operator(uid)
        if state not in operator.operator_states:
            there = ", ".join(map(repr, operator.operator_states)) or "none"
            raise StateError(
                f"operator {operator.name!r} (uid {uid}) has no operator state {state!r}; there is: {there}"
            )
        return self._frame(OperatorStateReading(self.path, uid, state), 1)

    def raw_keyed_state(self, uid: str) -> Any:
        """The raw keyed state of an operator: `key_group` and `value`, perhaps in several rows in order.

        Raises:
            StateError: There is none.
        """
        operator = self.snapshot.operator(uid)
        if operator.raw_keyed_state is None:
            raise StateError(f"operator {operator.name!r} (uid {uid}) has no raw keyed state")
        return self._frame(RawKeyedReading(self.path, uid), 1)

    def in_flight(self, uid: str | None = None, *, trusted: bool = False) -> Any:
        """The records that were under way in an unaligned checkpoint; a savepoint holds none.

        Columns say the channel, and `message`, its number in it. A message is pickled: `payload`, of whose
        elements the first `skipped` do not count. With `trusted` there is one row per `element` (a `record`
        or `watermark`) instead: `timestamp_ms`, `value` as Python prints it, and `value_pickled`.

        Args:
            uid: Only those under way to this operator.
            trusted: Unpickle messages. A pickle can run any code: only for checkpoints of jobs you trust.
        """
        if uid is not None:
            self.snapshot.operator(uid)
        pieces = [
            (operator.uid, subtask)
            for operator in self.snapshot.manifest.operators.values()
            for subtask, snapshot in enumerate(operator.subtasks)
            if snapshot.channels is not None and uid in (None, operator.uid)
        ]
        return self._frame(InFlightReading(self.path, tuple(pieces), trusted), len(pieces))

    def _timers_of(self, state: KeyedSnapshotState, service: str, domain: str) -> Any:
        from pyspark.sql import functions as F

        reading = self._keyed_reading(state, None, None, {}, is_timers=True)
        frame = self._frame(reading, len(reading.pieces))
        return frame.withColumns({"service": F.lit(service), "domain": F.lit(domain)})

    def _keyed_reading(
        self,
        state: KeyedSnapshotState,
        keys: Iterable[Any] | None,
        key_groups: tuple[int, int] | None,
        known: dict[str, TypeInformation | None],
        is_timers: bool = False,
    ) -> KeyedReading:
        given = {name: type_text(kind) for name, kind in known.items() if kind is not None}
        everything = KeyGroupRange(0, state.max_parallelism - 1)
        wanted = everything if key_groups is None else KeyGroupRange(*key_groups).intersect(everything)
        chosen = None if keys is None else tuple(keys)
        # Footers only: what the driver has to know of the files.
        segments = (state if chosen is None else state.filter(chosen)).segments.within(wanted)
        held = [(found.intersect(wanted), rows) for found, rows in segments.row_groups()]
        return KeyedReading(
            self.path,
            state.operator_uid,
            state.name,
            {**state.schema, **given},
            tuple(state.segments.within(everything).types()),
            tuple(self._pieces([entry for entry in held if entry[0].size])),
            chosen,
            is_timers,
        )

    def _pieces(self, held: Sequence[tuple[KeyGroupRange, int]]) -> Iterator[KeyGroupRange]:
        """Key groups for each task: several tasks for each core, none too small or too large."""
        tasks = 3 * self._spark.sparkContext.defaultParallelism
        even = sum(rows for _, rows in held) // tasks
        return key_group_ranges(held, max(_SMALLEST_PIECE_ROWS, min(even, _LARGEST_PIECE_ROWS)))

    def _frame(self, reading: _Reading, tasks: int) -> Any:
        columns = reading.columns
        schema = spark_schema(columns)
        if not tasks:
            return self._spark.createDataFrame([], schema)
        return self._spark.range(0, tasks, 1, tasks).mapInArrow(_in_tasks(reading, columns), schema)


def absolute(path: str) -> str:
    """An address that means the same in another process."""
    return path if "://" in path else os.path.abspath(path)


def _in_tasks(reading: _Reading, columns: pa.Schema) -> Callable[[Iterator[Any]], Iterator[Any]]:
    return lambda batches: reading.read(columns, batches)


def _timer_states(operator: SnapshotOperator) -> Iterator[tuple[str, re.Match[str]]]:
    for name in operator.keyed_states:
        found = _TIMERS.fullmatch(name)
        if found is not None:
            yield name, found


def _exploded(frame: Any) -> Any:
    """One row per element of a list; a list without elements, or pickled as a whole, has position null."""
    from pyspark.sql import functions as F

    has_expiry = "expiry" in frame.columns
    zipped = F.arrays_zip("value", "expiry") if has_expiry else F.arrays_zip("value")
    before = [name for name in frame.columns if name not in ("value", "value_encoded", "expiry")]
    rows = frame.select(*before, "value_encoded", F.posexplode_outer(zipped).alias("position", "element"))
    after = [F.col("element.expiry").alias("expiry")] if has_expiry else []
    return rows.select(*before, "position", F.col("element.value").alias("value"), "value_encoded", *after)
