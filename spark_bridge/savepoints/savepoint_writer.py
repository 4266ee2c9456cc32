"""Makes or edits a savepoint from Spark DataFrames."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...common.errors import CheckpointStorageError, StateError
from ...common.typeinfo import PickledBytesTypeInfo, TypeInformation, Types, type_text
from ...protocol.checkpoints.handles import (
    KeyedStateHandle,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from ...protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from ...protocol.checkpoints.redistribution import BROADCAST, EVEN_SPLIT
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId
from ...protocol.key_groups import KeyGroupRange, check_parallelism
from ...state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ...state.snapshots.segments import ENCODED_KEY, KEY_COLUMNS
from ...state.snapshots.snapshot_files import StateLocation
from ...state.snapshots.snapshot_reader import Snapshot
from ...state.storage.checkpoint_storage import CheckpointStorage, open_storage
from ...state.storage.stored_checkpoint import MANIFEST_NAME, read_checkpoint
from ...state.ttl.expiration import Expiration
from .savepoint_files import copied_files, written_items, written_segments
from .savepoint_reader import absolute
from .state_frames import item_frame, keyed_frame
from .state_writing import KeyedWriting

DEFAULT_MAX_PARALLELISM = 128
_UNKNOWN = type_text(PickledBytesTypeInfo())


@dataclass(frozen=True)
class _KeyedState:
    schema: dict[str, object]
    key_types: dict[str, str]
    frame: Any


@dataclass(frozen=True)
class _ListState:
    handle: OperatorListHandle
    key_types: dict[str, str]
    frame: Any


class SavepointWriter:
    """Collects states, and writes them as a savepoint that a job can start from.

    Nothing is read or computed before `write`, which runs one Spark job per keyed state. Every method but
    `write` returns the writer itself. The names are those of Flink's State Processor API.
    """

    def __init__(self, spark: Any, base: CheckpointManifest | None, max_parallelism: int) -> None:
        self._spark = spark
        self._base = base
        self._max_parallelism = max_parallelism
        self._operators: dict[str, OperatorManifest] = {} if base is None else dict(base.operators)
        self._keyed: dict[tuple[str, str], _KeyedState] = {}
        self._lists: dict[tuple[str, str], _ListState] = {}

    @classmethod
    def new_savepoint(cls, spark: Any, max_parallelism: int = DEFAULT_MAX_PARALLELISM) -> SavepointWriter:
        """Start from nothing.

        Args:
            spark: A SparkSession; its executors write the state.
            max_parallelism: That of the job's operators (`pipeline.max-parallelism`): a job cannot change it.
        """
        check_parallelism("savepoint", 1, max_parallelism)
        return cls(spark, None, max_parallelism)

    @classmethod
    def from_existing_savepoint(cls, spark: Any, path: str) -> SavepointWriter:
        """Start from a savepoint or checkpoint, which stays as it is.

        Args:
            spark: A SparkSession; its executors read and write the state.
            path: As for `read_savepoint`.

        Raises:
            CheckpointStorageError: There is no savepoint at `path`.
        """
        base = read_checkpoint(absolute(path))
        highest = max((op.max_parallelism for op in base.operators.values()), default=DEFAULT_MAX_PARALLELISM)
        return cls(spark, base, highest)

    def with_keyed_state(
        self,
        uid: str,
        state: StateDescriptor | str,
        frame: Any,
        *,
        key_type: TypeInformation | None = None,
        namespace_type: TypeInformation | None = None,
        map_key_type: TypeInformation | None = None,
        parallelism: int | None = None,
    ) -> SavepointWriter:
        """Put the rows of a DataFrame in the place of a keyed state, which may be new.

        The DataFrame has the columns of `SavepointReader.keyed_state`: `key`, `value`, and for some states
        `namespace`, `map_key`, `position`, `value_encoded`, `expiry`. One row per key, or per key and map
        key, or per key and position.

        Args:
            uid: Of the operator. One that the savepoint does not have is added.
            state: How the job declares the state; or the name of a state in the savepoint, which keeps its
                types.
            frame: The entries. Its key groups are computed here.
            key_type: Type of the keys; by default that of the operator's other states, else what Spark has.
            namespace_type: Type of the namespaces, where there are such.
            map_key_type: Type of the map keys, where the job declares none.
            parallelism: Of a new operator: how many files the state is written to, each by a Spark task that
                has all of its rows in memory. The job may have another. By default Spark's own.

        Raises:
            StateError: A column is missing or has another type, or there is no such state.
        """
        schema = self._keyed_schema(uid, state, key_type, is_namespaced="namespace" in frame.columns)
        name = state if isinstance(state, str) else state.get_name()
        given = {
            "key": _text(key_type) or schema.get("key_type"),
            "namespace": _text(namespace_type),
            "map_key": _text(map_key_type) or schema.get("map_key_type"),
        }
        key_types = {column: str(text) for column, text in given.items() if text not in (None, _UNKNOWN)}
        where = StateLocation(uid, self._name(uid), name)
        self._check_known_keys(where, key_types, frame)
        checked = keyed_frame(frame, where, schema, key_types)
        self._add_operator(uid, parallelism)
        self._keyed[uid, name] = _KeyedState(schema, key_types, checked)
        return self

    def with_timers(
        self,
        uid: str,
        frame: Any,
        *,
        domain: str = "event",
        service: str = "user",
        key_type: TypeInformation | None = None,
        parallelism: int | None = None,
    ) -> SavepointWriter:
        """Put timers in the place of an operator's timers in one domain.

        Args:
            uid: Of the operator.
            frame: Columns `key` and `timestamp_ms`. Timers with namespaces cannot be written.
            domain: `event` or `processing`.
            service: `user` for the timers of a process function.
            key_type: As for `with_keyed_state`.
            parallelism: As for `with_keyed_state`.

        Raises:
            StateError: A column is missing or has another type.
        """
        from pyspark.sql import functions as F

        if domain not in ("event", "processing"):
            raise StateError(f"timers are in event or processing time, not in {domain!r}")
        missing = [name for name in ("key", "timestamp_ms") if name not in frame.columns]
        if missing:
            raise StateError(f"the DataFrame of timers lacks {', '.join(missing)}")
        namespaces = F.col("timestamp_ms").cast("long").alias("namespace")
        entries = frame.select("key", namespaces, F.lit(True).alias("value"))
        return self.with_keyed_state(
            uid,
            ValueStateDescriptor(f"_timers_{service}_{domain}", Types.BOOLEAN()),
            entries,
            key_type=key_type,
            namespace_type=Types.LONG(),
            parallelism=parallelism,
        )

    def with_operator_state(
        self,
        uid: str,
        state: ListStateDescriptor | MapStateDescriptor | str,
        frame: Any,
        *,
        mode: str = EVEN_SPLIT,
        parallelism: int | None = None,
    ) -> SavepointWriter:
        """Put the rows of a DataFrame in the place of an operator state, which may be new.

        The rows go through the driver: a subtask has all of them in memory anyway.

        Args:
            uid: Of the operator.
            state: A list descriptor; a map descriptor for broadcast state; or the name of a state in the
                savepoint, which keeps its types and its mode.
            frame: Column `value`, and `map_key` for broadcast state. `subtask` says where an item is; without
                it they are dealt out evenly.
            mode: `even-split` or `union`, for a new list.
            parallelism: Of a new operator: over how many subtasks items are dealt out.

        Raises:
            StateError: A column is missing or has another type, or there is no such state.
        """
        name = state if isinstance(state, str) else state.get_name()
        handle = self._list_handle(uid, state, mode)
        text = str(handle.schema.get("map_key_type", _UNKNOWN))
        key_types = {} if text == _UNKNOWN else {"map_key": text}
        where = StateLocation(uid, self._name(uid), name)
        checked = item_frame(frame, where, handle.schema, key_types)
        self._add_operator(uid, parallelism)
        self._lists[uid, name] = _ListState(handle, key_types, checked)
        return self

    def remove_state(self, uid: str, state: str) -> SavepointWriter:
        """Leave a state out; `StateError` when there is none."""
        operator = self._existing(uid)
        if state not in _state_names(operator) and not {(uid, state)} & {*self._keyed, *self._lists}:
            raise StateError(f"operator {operator.name!r} (uid {uid}) has no state {state!r}")
        self._keyed.pop((uid, state), None)
        self._lists.pop((uid, state), None)
        subtasks = tuple(_without_state(snapshot, state) for snapshot in operator.subtasks)
        self._operators[uid] = replace(operator, subtasks=subtasks)
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave an operator out with all of its state; `StateError` when there is none."""
        self._existing(uid)
        del self._operators[uid]
        for states in (self._keyed, self._lists):
            for key in [key for key in states if key[0] == uid]:
                states.pop(key)
        return self

    def change_operator_identifier(self, uid: str, new_uid: str) -> SavepointWriter:
        """Let the state of an operator be that of another uid.

        Raises:
            StateError: There is no such operator, or one with the new uid already.
        """
        operator = self._existing(uid)
        if new_uid in self._operators:
            raise StateError(f"the savepoint has an operator with uid {new_uid!r} already")
        if any(key[0] == uid for key in (*self._keyed, *self._lists)):
            raise StateError(f"change the uid {uid!r} before you give its operator new state")
        del self._operators[uid]
        self._operators[new_uid] = replace(operator, uid=new_uid)
        return self

    def write(self, path: str, now_ms: int | None = None) -> str:
        """Write the savepoint, whole or not at all, without state that has expired in processing time.

        Args:
            path: Its directory, which is absent or empty: a path or an address that the executors reach.
            now_ms: By what time state is expired, in milliseconds since the epoch; by default now.

        Returns:
            The absolute address.

        Raises:
            CheckpointStorageError: The directory holds something, or cannot be written.
            StateError: Two rows have one key, or a value does not fit its type.
        """
        path = absolute(path)
        storage = open_storage(path)
        found = storage.list_files("")
        if found:
            raise CheckpointStorageError(
                f"the directory {path} is not empty: it holds {found[0]!r}. A savepoint needs one of its own"
            )
        try:
            now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
            manifest = self._written(path, storage, Expiration({"processing-time": now_ms}))
            named = {file.path for file in manifest.files()}
            # What attempts of Spark tasks wrote that failed or were not needed.
            storage.delete(name for name in storage.list_files("") if name not in named)
            storage.create_exclusive(MANIFEST_NAME, encode_manifest(manifest))
        except BaseException:
            storage.delete_all()
            raise
        return path

    # ------------------------------------------------------------ what is there

    def _existing(self, uid: str) -> OperatorManifest:
        if uid not in self._operators:
            there = ", ".join(self._operators) or "none"
            raise StateError(f"the savepoint has no operator with uid {uid!r}; there is: {there}")
        return self._operators[uid]

    def _name(self, uid: str) -> str:
        return self._operators[uid].name if uid in self._operators else uid

    def _add_operator(self, uid: str, parallelism: int | None) -> None:
        if uid not in self._operators:
            most = self._max_parallelism
            chosen = parallelism or min(most, self._spark.sparkContext.defaultParallelism)
            check_parallelism(uid, chosen, most)
            self._operators[uid] = OperatorManifest(uid, uid, most, (OperatorSnapshot(),) * chosen)
        elif parallelism not in (None, len(self._operators[uid].subtasks)):
            raise StateError(
                f"operator {self._name(uid)!r} (uid {uid}) has parallelism "
                f"{len(self._operators[uid].subtasks)} in the savepoint; leave parallelism out. The job that "
                f"starts from it may have any"
            )

    def _keyed_schemas(self, uid: str) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        if uid in self._operators:
            for snapshot in self._operators[uid].subtasks:
                found.update(snapshot.keyed.descriptors)
        found.update({name: state.schema for (of, name), state in self._keyed.items() if of == uid})
        return found

    def _keyed_schema(
        self, uid: str, state: StateDescriptor | str, key_type: TypeInformation | None, is_namespaced: bool
    ) -> dict[str, object]:
        schemas = self._keyed_schemas(uid)
        if isinstance(state, str):
            if state not in schemas:
                there = ", ".join(map(repr, schemas)) or "none"
                raise StateError(
                    f"operator {self._name(uid)!r} (uid {uid}) has no keyed state {state!r}; there is: "
                    f"{there}. Give a descriptor for a new one"
                )
            return schemas[state]
        others = (schema["key_type"] for schema in schemas.values() if "key_type" in schema)
        text = _text(key_type) or next(others, None)
        schema = state.schema()
        schema |= {} if text in (None, _UNKNOWN) else {"key_type": text}
        return schema | ({"namespaced": True} if is_namespaced else {})

    def _check_known_keys(self, where: StateLocation, key_types: Mapping[str, str], frame: Any) -> None:
        """Keys that were read as the text that Python prints for them must not be written as text."""
        if self._base is None or where.operator_uid not in self._base.operators:
            return
        operator = Snapshot("", self._base).operator(where.operator_uid)
        stored = operator.keyed_states.get(where.state_name)
        if stored is None:
            return
        types = stored.segments.within(KeyGroupRange(0, operator.max_parallelism - 1)).types()
        for name in KEY_COLUMNS:
            is_encoded = any(found[name] == ENCODED_KEY for found in types)
            if name in frame.columns and name not in key_types and is_encoded:
                raise StateError(
                    f"{where}: the job declared no type for its {name}s, and they are neither all integers "
                    f"nor all text; say which type they have with {name}_type="
                )

    def _list_handle(
        self, uid: str, state: ListStateDescriptor | MapStateDescriptor | str, mode: str
    ) -> OperatorListHandle:
        if not isinstance(state, str):
            is_broadcast = isinstance(state, MapStateDescriptor)
            return OperatorListHandle(state.get_name(), BROADCAST if is_broadcast else mode, state.schema())
        for snapshot in self._existing(uid).subtasks:
            for handle in snapshot.lists:
                if handle.state_name == state:
                    return replace(handle, parts=())
        raise StateError(
            f"operator {self._name(uid)!r} (uid {uid}) has no operator state {state!r}; give a descriptor "
            f"for a new one"
        )

    # ------------------------------------------------------------ writing

    def _written(self, path: str, storage: CheckpointStorage, expiration: Expiration) -> CheckpointManifest:
        for uid, name in (*self._keyed, *self._lists):
            operator = self._operators[uid]
            kept = tuple(_without_state(snapshot, name) for snapshot in operator.subtasks)
            self._operators[uid] = replace(operator, subtasks=kept)
        operators = copied_files(self._spark, path, self._operators, expiration)
        for (uid, name), state in self._keyed.items():
            where = StateLocation(uid, operators[uid].name, name)
            of = operators[uid]
            groups, pieces = of.max_parallelism, len(of.subtasks)
            writing = KeyedWriting(path, where, state.schema, state.key_types, groups, pieces, expiration)
            segments = written_segments(writing, state.frame)
            operators[uid] = _with_segments(of, name, state.schema, segments)
        for (uid, _), items in self._lists.items():
            handles = written_items(storage, uid, items.handle, items.key_types, items.frame, operators[uid])
            operators[uid] = _with_lists(operators[uid], handles)
        return self._manifest(operators)

    def _manifest(self, operators: dict[str, OperatorManifest]) -> CheckpointManifest:
        now_ms = time.time_ns() // 1_000_000
        base = self._base
        return CheckpointManifest(
            secrets.token_hex(16) if base is None else base.job_id,
            "" if base is None else base.job_name,
            CheckpointId(1) if base is None else base.checkpoint_id,
            SnapshotKind.SAVEPOINT,
            now_ms,
            now_ms,
            operators,
        )


def _text(type_info: TypeInformation | None) -> str | None:
    return None if type_info is None else type_text(type_info)


def _state_names(operator: OperatorManifest) -> set[str]:
    names = {name for snapshot in operator.subtasks for name in snapshot.keyed.descriptors}
    return names | {handle.state_name for snapshot in operator.subtasks for handle in snapshot.lists}


def _without_state(snapshot: OperatorSnapshot, name: str) -> OperatorSnapshot:
    segments = tuple(segment for segment in snapshot.keyed.segments if segment.state_name != name)
    descriptors = {known: schema for known, schema in snapshot.keyed.descriptors.items() if known != name}
    lists = tuple(handle for handle in snapshot.lists if handle.state_name != name)
    return replace(snapshot, keyed=KeyedStateHandle(segments, descriptors), lists=lists)


def _with_segments(
    operator: OperatorManifest, name: str, schema: dict[str, object], segments: Mapping[int, SegmentHandle]
) -> OperatorManifest:
    subtasks = []
    for index, snapshot in enumerate(operator.subtasks):
        own = (segments[index],) if index in segments else ()
        keyed = KeyedStateHandle(
            (*snapshot.keyed.segments, *own), {**snapshot.keyed.descriptors, name: schema}
        )
        subtasks.append(replace(snapshot, keyed=keyed))
    return replace(operator, subtasks=tuple(subtasks))


def _with_lists(operator: OperatorManifest, handles: list[OperatorListHandle]) -> OperatorManifest:
    subtasks = (
        replace(snapshot, lists=(*snapshot.lists, handle))
        for snapshot, handle in zip(operator.subtasks, handles, strict=True)
    )
    return replace(operator, subtasks=tuple(subtasks))
