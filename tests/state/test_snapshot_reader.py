"""Checkpoints are read without the job: listed, typed, lazily, by key, and never unpickled unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Row, Types
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError, StateError
from tidegate.state import read_snapshot
from tidegate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.serializers.encoded_values import PickledValue
from tidegate.state.snapshots.snapshot_states import KeyedSnapshotState

from .checkpoints import NAME, TOTAL, UID, Job, totals


def as_dict(state: Any) -> dict[Any, Any]:
    table = state.to_arrow()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def value_state(job: Job, descriptor: ValueStateDescriptor, values: dict[Any, Any]) -> KeyedSnapshotState:
    """A checkpoint with one value state, opened."""
    job.each(
        values,
        lambda backend: backend.get_value_state(descriptor),
        lambda state, key: state.update(values[key]),
    )
    return read_snapshot(job.checkpoint()).keyed_state(UID, descriptor.get_name())


# ---------------------------------------------------------------- what there is


def test_a_snapshot_lists_its_operators_and_states(tmp_path: Path) -> None:
    job = Job(tmp_path, key_type=Types.LONG())
    totals(job, range(100))
    snapshot = read_snapshot(job.checkpoint())
    assert (snapshot.job_id, snapshot.job_name, snapshot.checkpoint_id) == ("job-1", "flights", 1)
    assert (snapshot.kind, snapshot.triggered_ms, snapshot.completed_ms) == ("checkpoint", 1_000, 1_200)
    operator = snapshot.operator(UID)
    assert (operator.name, operator.max_parallelism, operator.parallelism) == (NAME, 128, 2)
    (state,) = operator.states
    assert (state.name, state.kind, state.stored_rows) == ("total", "value", 100)
    assert repr(state) == "<value state 'total' of 'totals-uid': LONG -> TUPLE(LONG, DOUBLE)>"
    assert state.schema["key_type"] == "LONG"
    assert state.schema["value_type"] == "TUPLE(LONG, DOUBLE)"
    assert 0 < state.size_bytes == snapshot.size_bytes


def test_a_name_that_is_not_there_is_an_error_that_says_what_is(tmp_path: Path) -> None:
    job = Job(tmp_path)
    totals(job, range(3))
    snapshot = read_snapshot(job.checkpoint())
    with pytest.raises(StateError, match=r"no operator with uid 'other'; there is: totals-uid \(Totals\)"):
        snapshot.operator("other")
    with pytest.raises(StateError, match=r"operator 'Totals' .* has no state 'sum'.*there is: 'total'"):
        snapshot.state(UID, "sum")


def test_the_manifest_itself_and_a_relative_path_name_a_checkpoint_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path)
    totals(job, range(3))
    path = job.checkpoint()
    monkeypatch.chdir(tmp_path)
    for name in (path + "/", path + "/MANIFEST", "chk-1", f"file://{path}"):
        assert len(read_snapshot(name).state(UID, "total").to_arrow()) == 3


def test_any_storage_holds_readable_checkpoints() -> None:
    job = Job("memory://snapshots-anywhere/job")
    totals(job, range(20))
    state = read_snapshot(job.checkpoint()).keyed_state(UID, "total")
    assert len(state.to_arrow()) == 20
    assert state.get(7) == (7, 3.5)


def test_where_there_is_no_checkpoint_the_error_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(CheckpointStorageError, match=r"there is no checkpoint at .*chk-12"):
        read_snapshot(str(tmp_path / "nothing"))


# ---------------------------------------------------------------- what is in it


def test_values_come_typed_and_the_latest_wins(tmp_path: Path) -> None:
    job = Job(tmp_path, key_type=Types.LONG())
    totals(job, range(1_000))
    job.checkpoint()
    totals(job, range(0, 1_000, 2), factor=2.0)
    job.each(range(10), lambda backend: backend.get_value_state(TOTAL), lambda state, key: state.clear())
    state = read_snapshot(job.checkpoint()).state(UID, "total")
    table = state.to_arrow()
    assert table.schema.field("key").type == pa.int64()
    assert table.schema.field("value").type == pa.struct([("f0", pa.int64()), ("f1", pa.float64())])
    assert table.column_names == ["key", "value"]
    expected = {key: {"f0": key, "f1": key * (0.5 if key % 2 else 2.0)} for key in range(10, 1_000)}
    assert as_dict(state) == expected
    assert state.stored_rows == 1_505, "stored rows, overwritten ones included"


def test_a_map_state_has_a_row_per_map_key(tmp_path: Path) -> None:
    job = Job(tmp_path)
    descriptor = MapStateDescriptor("delays", Types.STRING(), Types.DOUBLE())
    job.each(
        ["AA", "UA"],
        lambda backend: backend.get_map_state(descriptor),
        lambda state, key: state.put_all({"JFK": 1.0, "LGA": len(key) / 4}),
    )
    state = read_snapshot(job.checkpoint()).keyed_state(UID, "delays")
    table = state.to_arrow().sort_by([("key", "ascending"), ("map_key", "ascending")])
    assert table.to_pydict() == {
        "key": ["AA", "AA", "UA", "UA"],
        "map_key": ["JFK", "LGA", "JFK", "LGA"],
        "value": [1.0, 0.5, 1.0, 0.5],
    }
    assert state.get("UA") == {"JFK": 1.0, "LGA": 0.5}
    assert state.get("DL") is None


def test_list_and_reducing_states_are_read(tmp_path: Path) -> None:
    job = Job(tmp_path)
    numbers = ListStateDescriptor("numbers", Types.LONG())
    total = ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
    job.each(
        range(5), lambda backend: backend.get_list_state(numbers), lambda state, key: state.update([key, 9])
    )
    job.each(range(5), lambda backend: backend.get_reducing_state(total), lambda state, key: state.add(key))
    snapshot = read_snapshot(job.checkpoint())
    assert as_dict(snapshot.state(UID, "numbers")) == {key: [key, 9] for key in range(5)}
    assert snapshot.keyed_state(UID, "numbers").get(3) == [3, 9]
    assert as_dict(snapshot.state(UID, "sum")) == {key: key for key in range(5)}


def test_a_namespaced_state_has_a_column_for_the_namespace(tmp_path: Path) -> None:
    job = Job(tmp_path)

    def fill(state: Any, key: int) -> None:
        for window in (10, 20):
            job.backends[job.subtask_of(key)].current_namespace = window
            state.update(key + window)

    descriptor = ValueStateDescriptor("window", Types.LONG())
    job.each(range(3), lambda backend: backend.get_value_state(descriptor, namespaced=True), fill)
    state = read_snapshot(job.checkpoint()).keyed_state(UID, "window")
    rows = state.to_arrow().to_pylist()
    assert sorted((row["key"], row["namespace"], row["value"]) for row in rows) == [
        (key, window, key + window) for key in range(3) for window in (10, 20)
    ]
    assert state.get(1, namespace=20) == 21
    with pytest.raises(StateError, match="namespace="):
        state.get(1)


@pytest.mark.parametrize(
    ("key_type", "keys", "shown", "arrow_type"),
    [
        (None, ["a", "b"], ["a", "b"], pa.large_string()),
        (None, [b"a", (1, "b")], ["(1, 'b')", "b'a'"], pa.large_string()),
        (None, [1, "b"], ["'b'", "1"], pa.large_string()),
        (Types.SQL_DATE(), [date(2013, 1, 1)], [date(2013, 1, 1)], pa.date32()),
        (
            Types.TUPLE([Types.STRING(), Types.LONG()]),
            [("a", 1)],
            [{"f0": "a", "f1": 1}],
            pa.struct([("f0", pa.large_string()), ("f1", pa.int64())]),
        ),
        (Types.LONG(), [1, 1 << 70], ["1", "1180591620717411303424"], pa.large_string()),
    ],
)
def test_keys_are_decoded(tmp_path: Path, key_type: Any, keys: Any, shown: Any, arrow_type: Any) -> None:
    job = Job(tmp_path, parallelism=1, key_type=key_type)
    state = value_state(job, ValueStateDescriptor("v", Types.LONG()), dict.fromkeys(keys, 1))
    column = state.to_arrow()["key"]
    assert column.type == arrow_type
    assert sorted(column.to_pylist(), key=str) == sorted(shown, key=str)
    assert {entry.key for entry in state.entries()} == set(keys)
    assert all(state.get(key) == 1 for key in keys)


def test_a_declared_state_without_entries_has_its_columns_nevertheless(tmp_path: Path) -> None:
    job = Job(tmp_path, key_type=Types.STRING())
    state = value_state(job, TOTAL, {})
    table = state.to_arrow()
    assert table.num_rows == 0
    assert table.schema.field("key").type == pa.large_string()
    assert table.schema.field("value").type == pa.struct([("f0", pa.int64()), ("f1", pa.float64())])


def test_files_of_an_older_schema_and_name_are_read_as_the_newest(tmp_path: Path) -> None:
    before, after = Job(tmp_path / "before"), Job(tmp_path / "after")
    old = Types.ROW_NAMED(["a"], [Types.INT()])
    new = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    value_state(before, ValueStateDescriptor("old", old), {key: Row(a=key) for key in range(10)})
    after.restore(before.checkpoint())
    changed = {key: Row(a=key + (1 << 40), b="x") for key in (3, 4)}
    state = value_state(after, ValueStateDescriptor("new", new).renamed_from("old"), changed)
    assert state.arrow_schema.field("value").type == pa.struct([("a", pa.int64()), ("b", pa.large_string())])
    expected = {key: {"a": key, "b": None} for key in range(10)}
    expected |= {key: {"a": key + (1 << 40), "b": "x"} for key in (3, 4)}
    assert as_dict(state) == expected
    assert (state.get(0), state.get(3)) == (Row(a=0, b=None), changed[3])


# ---------------------------------------------------------------- pickles


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_nothing_is_unpickled_unless_trusted(tmp_path: Path) -> None:
    mark = tmp_path / "exploded"
    bomb: Any = Bomb(str(mark))
    job = Job(tmp_path / "job", parallelism=1)
    state = value_state(job, ValueStateDescriptor("v", None), {1: [1, 2], 2: bomb})
    table = state.to_arrow()
    state.to_pandas()
    list(state.iter_batches())
    opaque = state.get(2)
    assert isinstance(opaque, PickledValue)
    entries = {entry.key: entry.value for entry in state.entries()}
    assert entries[2] == opaque
    assert table.schema.field("value").type == pa.large_binary()
    assert not mark.exists()
    state.get(2, trusted=True)
    assert mark.exists()


def test_text_of_a_subclass_is_stored_as_the_text_it_equals(tmp_path: Path) -> None:
    mark = tmp_path / "exploded"
    job = Job(tmp_path / "job", parallelism=1)
    state = value_state(job, ValueStateDescriptor("v", Types.STRING()), {1: "five", 2: _BombText(str(mark))})
    assert {entry.key: entry.value for entry in state.entries()} == {1: "five", 2: "text"}
    assert state.get(2, trusted=True) == "text"
    assert not mark.exists()


class _BombText(str):
    def __new__(cls, path: str) -> _BombText:
        text = super().__new__(cls, "text")
        text.path = path  # type: ignore[attr-defined]
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)  # type: ignore[attr-defined]


def test_a_pickle_inside_a_typed_value_stays_closed_too(tmp_path: Path) -> None:
    mark = tmp_path / "exploded"
    bomb: Any = Bomb(str(mark))
    type_info = Types.TUPLE([Types.STRING(), Types.LIST(Types.PICKLED_BYTE_ARRAY())])
    state = value_state(Job(tmp_path / "job"), ValueStateDescriptor("v", type_info), {1: ("a", [bomb])})
    state.to_arrow()
    name, (inner,) = state.get(1)
    assert (name, type(inner)) == ("a", PickledValue)
    assert not mark.exists()
    state.get(1, trusted=True)
    assert mark.exists()


def test_trusted_readers_get_python_objects(tmp_path: Path) -> None:
    values = {1: {"a": {1, 2}}, 2: {"b": None}}
    state = value_state(Job(tmp_path), ValueStateDescriptor("v"), values)
    frame = state.to_pandas(trusted=True)
    assert dict(zip(frame["key"], frame["value"], strict=True)) == values
    assert {entry.key: entry.value for entry in state.entries(trusted=True)} == values


# ---------------------------------------------------------------- other libraries


def test_a_state_becomes_a_pandas_and_a_polars_frame(tmp_path: Path) -> None:
    values = {"a": Row(count=1, name="x"), "b": Row(count=2, name=None)}
    type_info = Types.ROW_NAMED(["count", "name"], [Types.LONG(), Types.STRING()])
    state = value_state(Job(tmp_path), ValueStateDescriptor("v", type_info), values)
    frame = state.to_pandas().sort_values("key")
    assert frame["value"].tolist() == [{"count": 1, "name": "x"}, {"count": 2, "name": None}]
    polars = state.to_polars().sort("key")
    assert polars["key"].to_list() == ["a", "b"]
    assert polars.unnest("value")["count"].to_list() == [1, 2]
    assert state.get("a") == values["a"]


def test_without_polars_the_error_says_what_to_install(tmp_path: Path) -> None:
    job = Job(tmp_path)
    totals(job, range(3))
    program = (
        "import sys\nsys.modules['polars'] = None\nfrom tidegate.state import read_snapshot\n"
        f"read_snapshot({job.checkpoint()!r}).state({UID!r}, 'total').to_polars()"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'tidegate[polars]'" in run.stderr


# ---------------------------------------------------------------- little at a time


def test_batches_are_bounded_and_complete(tmp_path: Path) -> None:
    job = Job(tmp_path)
    totals(job, range(5_000))
    state = read_snapshot(job.checkpoint()).state(UID, "total")
    batches = list(state.iter_batches(batch_rows=700))
    assert max(batch.num_rows for batch in batches) == 700
    keys = [key for batch in batches for key in batch["key"].to_pylist()]
    assert sorted(keys) == list(range(5_000))


def test_some_keys_are_read_without_the_rest(tmp_path: Path) -> None:
    job = Job(tmp_path, parallelism=2)
    totals(job, range(2_000))
    path = job.checkpoint()
    own, other = 0, next(key for key in range(100) if job.subtask_of(key) != job.subtask_of(0))
    for file in (tmp_path / "shared").rglob("*.parquet"):
        subtask = int(file.stem.split("-")[1])
        if subtask == job.subtask_of(other):
            file.unlink()
    state = read_snapshot(path).keyed_state(UID, "total")
    assert state.get(own) == (0, 0.0)
    assert state.filter([own]).to_arrow()["key"].to_pylist() == [own]
    with pytest.raises(CorruptCheckpointError, match="missing"):
        state.get(other)


def test_a_filter_takes_any_number_of_keys_of_any_type(tmp_path: Path) -> None:
    keys: list[Any] = [1, "1", b"1", (1, "1"), date(2013, 1, 1), 1 << 70, "\ud800"]
    job = Job(tmp_path)
    state = value_state(job, ValueStateDescriptor("v", Types.LONG()), dict(zip(keys, range(7), strict=True)))
    found = {entry.key: entry.value for entry in state.filter([1, b"1", "\ud800", 3]).entries()}
    assert found == {1: 0, b"1": 2, "\ud800": 6}
    assert state.filter([]).to_arrow().num_rows == 0
    with pytest.raises(TypeError, match="no deterministic encoding"):
        state.get(1.5)


# ---------------------------------------------------------------- operator state


def test_operator_states_are_read_item_by_item(tmp_path: Path) -> None:
    job = Job(tmp_path)
    totals(job, range(3))
    for index, backend in enumerate(job.operator_states):
        backend.get_list_state(ListStateDescriptor("offsets", Types.LONG())).update([index, 10 + index])
        backend.get_union_list_state(ListStateDescriptor("seen")).update([{"subtask": index}])
        rules = backend.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE()))
        rules.put("limit", 0.5)
    snapshot = read_snapshot(job.checkpoint())
    assert [(state.name, state.kind, state.stored_rows) for state in snapshot.operator(UID).states] == [
        ("total", "value", 3),
        ("offsets", "even-split", 4),
        ("rules", "broadcast", 1),
        ("seen", "union", 2),
    ]
    offsets = snapshot.state(UID, "offsets").to_arrow()
    assert offsets.to_pydict() == {"subtask": [0, 0, 1, 1], "value": [0, 10, 1, 11]}
    rules_row = {"subtask": 0, "map_key": "limit", "value": 0.5}
    assert snapshot.state(UID, "rules").to_arrow().to_pylist() == [rules_row]
    seen = snapshot.state(UID, "seen")
    assert [type(entry.value) for entry in seen.entries()] == [PickledValue] * 2
    assert [entry.value for entry in seen.entries(trusted=True)] == [{"subtask": 0}, {"subtask": 1}]
    with pytest.raises(StateError, match="is even-split state: it has no keys"):
        snapshot.keyed_state(UID, "offsets")
    snapshot.verify()


def test_raw_keyed_state_is_read_by_key_group(tmp_path: Path) -> None:
    job = Job(tmp_path)
    totals(job, range(3))
    snapshot = read_snapshot(job.checkpoint(raw={0: b"zero", 3: b"three", 127: b"last"}))
    state = snapshot.state(UID, "_raw_keyed")
    assert (state.kind, state.stored_rows) == ("raw-keyed", 3)
    assert state.to_pandas().to_dict("list") == {
        "key_group": [0, 3, 127],
        "value": [b"zero", b"three", b"last"],
    }
    assert state.to_arrow().schema == state.arrow_schema
    snapshot.verify()
    for file in (tmp_path / "shared").rglob("_raw_keyed*"):
        file.unlink()
    with pytest.raises(CorruptCheckpointError, match=r"state '_raw_keyed'.*missing"):
        state.to_arrow()
