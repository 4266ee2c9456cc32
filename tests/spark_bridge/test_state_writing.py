"""What Spark's tasks write is what a state backend writes: the same key groups, keys, columns and order."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Types
from tidegate.common.errors import StateError
from tidegate.common.typeinfo import TypeInformation, type_text
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.spark_bridge.savepoints.state_writing import KeyedWriting
from tidegate.state import read_snapshot
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.snapshots.segments import read_segment
from tidegate.state.snapshots.snapshot_files import StateLocation
from tidegate.state.storage.checkpoint_storage import open_storage

from ..state.checkpoints import MAX_PARALLELISM, NAME, UID, Job

COUNT = ValueStateDescriptor("count", Types.LONG())
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
KEYS: dict[str, tuple[TypeInformation | None, list[Any], pa.Array]] = {
    "integers": (Types.LONG(), [-(2**63), -1, 0, 7, 2**63 - 1], None),
    "small-integers": (Types.INT(), [-1, 0, 70_000], pa.array([-1, 0, 70_000], pa.int32())),
    "flags": (Types.BOOLEAN(), [True, False], None),
    "text": (Types.STRING(), ["", "a", "é\n", "a\x00b", "long" * 100], None),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\x00\xff"], None),
    "days": (Types.SQL_DATE(), [date(1969, 7, 20), date(9999, 12, 31)], None),
    "times": (Types.SQL_TIMESTAMP(), [datetime(1955, 11, 5, 6, 15, 0, 1)], None),
    "pairs": (PAIR, [("a", 1), ("", -5)], pa.array([{"f0": "a", "f1": 1}, {"f0": "", "f1": -5}])),
    "large-integers": (Types.BIG_INT(), [2**70, -(2**65)], pa.array([str(2**70), str(-(2**65))])),
    "undeclared-integers": (None, [5, -6], None),
    "undeclared-text": (None, ["x", "y"], None),
}


def writing(directory: Path, key_type: TypeInformation | None, parallelism: int = 2) -> KeyedWriting:
    types = {} if key_type is None else {"key": type_text(key_type)}
    schema = {**COUNT.schema(), **({} if key_type is None else {"key_type": type_text(key_type)})}
    where = StateLocation(UID, NAME, "count")
    return KeyedWriting(str(directory), where, schema, types, MAX_PARALLELISM, parallelism)


def placed(job: KeyedWriting, keys: pa.Array, values: pa.Array) -> pa.Table:
    batch = pa.record_batch([keys, values], names=["key", "value"])
    table = pa.Table.from_batches(job.place(iter([batch])))
    return table.sort_by([("piece", "ascending"), ("key_group", "ascending")])


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_written_as_a_state_backend_writes_them(tmp_path: Path, name: str) -> None:
    key_type, keys, column = KEYS[name]
    backend = Job(tmp_path / "backend", key_type=key_type)
    backend.each(keys, lambda state: state.get_value_state(COUNT), lambda state, key: state.update(3))
    expected = read_snapshot(backend.checkpoint()).manifest.operators[UID]

    job = writing(tmp_path / "spark", key_type)
    rows = placed(job, pa.array(keys) if column is None else column, pa.array([3] * len(keys)))
    assert sorted(rows["key_group"].to_pylist()) == sorted(key_group_of(key, 128) for key in keys)
    batches = rows.to_batches(max_chunksize=1)
    written = pa.Table.from_batches(job.write(7, iter(batches))).to_pylist()
    for row in written:
        data = open_storage(job.directory).read(row["path"])
        found, info = read_segment(data, row["path"], KeyGroupRange(0, 127))
        (segment,) = expected.subtasks[row["piece"]].keyed.segments
        stored = open_storage(backend.storage.uri).read_file(segment.file)
        assert (found, info) == read_segment(stored, segment.file.path, KeyGroupRange(0, 127))
        assert row["entry_count"] == found.num_rows
    assert {row["piece"] for row in written} == {backend.subtask_of(key) for key in keys}


def test_two_rows_of_one_key_are_refused(tmp_path: Path) -> None:
    job = writing(tmp_path, Types.STRING(), parallelism=1)
    rows = placed(job, pa.array(["a", "b", "a"]), pa.array([1, 2, 3]))
    with pytest.raises(StateError, match=r"state 'count': 2 rows have key 'a'.*aggregate"):
        list(job.write(0, iter(rows.to_batches())))


@pytest.mark.parametrize(
    ("keys", "values", "words"),
    [
        (pa.array(["a", None]), pa.array([1, 2]), "a key is null"),
        (pa.array(["a", "b"]), pa.array([1, 2**63], pa.uint64()), "a value does not fit int64"),
    ],
    ids=["null-key", "too-large"],
)
def test_what_cannot_be_stored_is_refused(tmp_path: Path, keys: Any, values: Any, words: str) -> None:
    job = writing(tmp_path, Types.STRING(), parallelism=1)
    with pytest.raises(StateError, match=f"operator 'Totals'.*state 'count': {words}"):
        list(job.write(0, iter(placed(job, keys, values).to_batches())))
