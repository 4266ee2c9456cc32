"""Runs the Spark jobs that write the files of a savepoint, and turns what they report into handles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from ...protocol.checkpoints.handles import (
    FileHandle,
    ListPart,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from ...protocol.checkpoints.manifest import OperatorManifest
from ...protocol.checkpoints.redistribution import BROADCAST
from ...protocol.key_groups import key_group_range_of_subtask
from ...runtime.local_dirs import as_file_name
from ...state.claims import without_mark
from ...state.operator.list_files import EncodedItems, write_list_file
from ...state.snapshots.snapshot_columns import StoredValues
from ...state.snapshots.snapshot_files import StateLocation
from ...state.storage.checkpoint_storage import CheckpointStorage
from ...state.ttl.expiration import Expiration
from ..exchange.exchange_frames import to_arrow
from ..failures import errors_of_tasks
from .state_types import spark_schema
from .state_writing import COPIED, PLACE, WRITTEN, Copying, KeyedWriting


def written_segments(writing: KeyedWriting, frame: Any) -> dict[int, SegmentHandle]:
    """Write a keyed state; the segment of each subtask that has entries."""
    from pyspark.sql import types

    def place(batches: Iterator[Any]) -> Iterator[Any]:
        return writing.place(batches)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "only Spark tasks call this"
        return writing.write(context.taskAttemptId(), batches)

    placed_schema = types.StructType([*frame.schema.fields, *spark_schema(PLACE).fields])
    placed = frame.mapInArrow(place, placed_schema).repartition(writing.parallelism, "piece")
    files = placed.sortWithinPartitions("piece", "key_group").mapInArrow(write, spark_schema(WRITTEN))
    with errors_of_tasks():
        rows = files.collect()
    return {row["piece"]: _segment(writing, row) for row in rows}


def _segment(writing: KeyedWriting, row: Any) -> SegmentHandle:
    return SegmentHandle(
        writing.where.state_name,
        FileHandle(row["path"], row["size_bytes"], row["sha256"]),
        key_group_range_of_subtask(row["piece"], writing.max_parallelism, writing.parallelism),
        row["entry_count"],
        is_base=True,
        footer_sha256=row["footer_sha256"],
    )


def copied_files(
    spark: Any, directory: str, operators: Mapping[str, OperatorManifest], expiration: Expiration
) -> dict[str, OperatorManifest]:
    """The same operators, without expired state, with copies of their files in the savepoint.

    Small files without expiring state stay in the manifest.
    """
    names: dict[str, tuple[FileHandle, str]] = {}
    expiring: dict[str, SegmentHandle] = {}
    for uid, operator in operators.items():
        for snapshot in operator.subtasks:
            for segment in snapshot.keyed.segments:
                schema = snapshot.keyed.descriptors.get(segment.state_name, {})
                if expiration.time_of(schema) is not None:
                    expiring[segment.file.path] = segment
            for file in snapshot.files():
                if (not file.is_inline or file.path in expiring) and file.path not in names:
                    name = f"{as_file_name(uid)}/copy-{len(names)}-{file.path.rsplit('/', 1)[-1]}"
                    names[file.path] = (file, name)
    rows = _copies(spark, Copying(directory, tuple(names.values()), expiring, expiration))

    def copied(file: FileHandle) -> FileHandle:
        row = rows.get(file.path)
        return file if row is None else FileHandle(row["path"], row["size_bytes"], row["sha256"])

    def copied_segment(segment: SegmentHandle) -> SegmentHandle:
        row = rows.get(segment.file.path)
        if row is None or row["entry_count"] is None:
            return segment
        return replace(segment, entry_count=row["entry_count"], footer_sha256=row["footer_sha256"])

    def copied_snapshot(snapshot: OperatorSnapshot) -> OperatorSnapshot:
        segments = tuple(map(copied_segment, snapshot.keyed.segments))
        return replace(snapshot, keyed=replace(snapshot.keyed, segments=segments)).with_files(copied)

    return {
        uid: replace(operator, subtasks=tuple(map(copied_snapshot, operator.subtasks)))
        for uid, operator in operators.items()
    }


def _copies(spark: Any, copying: Copying) -> dict[str, Any]:
    """What is said of each copy, by the path of the file that was copied."""
    count = len(copying.files)
    if not count:
        return {}

    def copy(batches: Iterator[Any]) -> Iterator[Any]:
        return copying.copy(batches)

    tasks = min(count, 4 * spark.sparkContext.defaultParallelism)
    with errors_of_tasks():
        rows = spark.range(0, count, 1, tasks).mapInArrow(copy, spark_schema(COPIED)).collect()
    return {copying.files[row["number"]][0].path: row for row in rows}


def written_items(
    storage: CheckpointStorage,
    uid: str,
    handle: OperatorListHandle,
    key_types: Mapping[str, str],
    frame: Any,
    operator: OperatorManifest,
) -> list[OperatorListHandle]:
    """Write an operator state as one file; the handle of each subtask."""
    where = StateLocation(uid, operator.name, handle.state_name)
    parallelism = len(operator.subtasks)
    with errors_of_tasks():
        table = to_arrow(frame).combine_chunks()
    if handle.mode == BROADCAST:
        bounds = [0, *[table.num_rows] * parallelism]
    elif "subtask" in table.column_names:
        table = table.sort_by("subtask")
        subtasks = [min(subtask, parallelism - 1) for subtask in table["subtask"].to_pylist()]
        bounds = [sum(subtask < index for subtask in subtasks) for index in range(parallelism + 1)]
    else:
        bounds = [table.num_rows * index // parallelism for index in range(parallelism + 1)]
    values = StoredValues(where, handle.schema, is_keyed=False)
    encoding = {"value_encoding": "pickle" if values.is_pickled else "typed"}
    handle = replace(handle, schema={**handle.schema, **encoding})
    if not table.num_rows:
        return [handle] * parallelism
    file = _list_file(storage, where, handle, key_types, table)
    parts = [ListPart(file, start, end) for start, end in pairwise(bounds)]
    return [replace(handle, parts=(part,) if part.item_count else ()) for part in parts]


def _list_file(
    storage: CheckpointStorage,
    where: StateLocation,
    handle: OperatorListHandle,
    key_types: Mapping[str, str],
    table: pa.Table,
) -> FileHandle:
    values = StoredValues(where, handle.schema, is_keyed=False)
    writing = KeyedWriting("", where, handle.schema, key_types, 1, 1)
    count = table.num_rows
    names = table.column_names
    map_keys = (
        writing.stored_keys("map_key", table["map_key"].combine_chunks())
        if "map_key" in names
        else pa.nulls(count)
    )
    encoded = table["value_encoded"].combine_chunks() if "value_encoded" in names else pa.nulls(count)
    column = writing.cast("value", table["value"].combine_chunks(), values.arrow_type)
    items = EncodedItems(map_keys, column, encoded.cast(pa.large_binary()))
    data = write_list_file(items, where.operator_uid, where.state_name, without_mark(handle.schema))
    path = f"{as_file_name(where.operator_uid)}/operator/{quote(where.state_name, safe='')}-0-0-0.parquet"
    return storage.write_file(path, data)
