"""Savepoints as DataFrames and back: Spark reads what Python reads, and writes what a job starts from."""

from __future__ import annotations

import shutil
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tidegate.common import Duration, Instant, Row, Types
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError, StateError
from tidegate.common.typeinfo import TypeInformation
from tidegate.spark_bridge import SavepointReader, SavepointWriter, read_savepoint
from tidegate.state import read_snapshot
from tidegate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.ttl_config import StateTtlConfig

from ..state.checkpoints import NAME, UID, Job

# One long test writes seven states, which takes minutes where other processes keep all cores busy.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

NOW_MS = 1_700_000_000_000
WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
FIELDS: dict[str, tuple[TypeInformation, Any]] = {
    "whole": (Types.INT(), -7),
    "real": (Types.FLOAT(), 0.1),
    "text": (Types.STRING(), "é"),
    "raw": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    "day": (Types.SQL_DATE(), date(1969, 7, 20)),
    "clock": (Types.SQL_TIME(), time(23, 59, 59, 999_999)),
    "at": (Types.SQL_TIMESTAMP(), datetime(1955, 11, 5, 6, 15, 0, 1)),
    "zoned": (Types.SQL_TIMESTAMP_LTZ(), datetime(2024, 2, 29, 12, tzinfo=timezone.utc)),
    "instant": (Types.INSTANT(), Instant(1, 1)),
    "big": (Types.BIG_INT(), 2**70),
    "amount": (Types.BIG_DEC(), Decimal("1.20")),
    "tags": (Types.LIST(Types.STRING()), ["a", None]),
    "sizes": (Types.MAP(Types.STRING(), Types.LONG()), {"k": 1}),
}
EVERYTHING = Types.ROW_NAMED(list(FIELDS), [kind for kind, _ in FIELDS.values()])
FULL = Row(**{name: value for name, (_, value) in FIELDS.items()})

ROWS = ValueStateDescriptor("rows", EVERYTHING)
COUNT = ValueStateDescriptor("count", Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())
SEEN = ListStateDescriptor("seen", Types.LONG())
BY_DAY = MapStateDescriptor("by-day", Types.SQL_DATE(), Types.DOUBLE())
ANYTHING = ValueStateDescriptor("anything", None)
SEEN.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_hours(1)).build())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OFFSETS = ListStateDescriptor("offsets", WINDOW)


class Stored(NamedTuple):
    """A checkpoint as files, and as DataFrames."""

    path: str
    frames: SavepointReader


def keyed(job: Job) -> None:
    """States of all kinds, some with overwritten and removed entries."""

    def each(keys: Any, descriptor: StateDescriptor, method: str, act: Any) -> None:
        job.each(keys, lambda backend: getattr(backend, method)(descriptor), act)

    each(range(200), COUNT, "get_value_state", lambda state, key: state.update(key))
    each([1], ROWS, "get_value_state", lambda state, _: state.update(FULL))
    each([3, 4], NAMES, "get_list_state", lambda state, key: state.update(["b", None, "a"] * (key - 2)))
    each([5, 6], SEEN, "get_list_state", lambda state, key: state.update([key, -key]))
    each(
        [7],
        BY_DAY,
        "get_map_state",
        lambda state, _: state.put_all({date(2024, 1, day): 0.5 for day in (1, 2)}),
    )
    each([8], ANYTHING, "get_value_state", lambda state, _: state.update({1, 2}))
    job.checkpoint()
    each(range(150, 250), COUNT, "get_value_state", lambda state, key: state.update(-key))
    each(range(10), COUNT, "get_value_state", lambda state, _: state.clear())
    # Too large for its column, so it is pickled beside it.
    each([11], COUNT, "get_value_state", lambda state, _: state.update(2**70))


def namespaced(job: Job) -> None:
    for backend in job.backends:
        sums = backend.get_value_state(ValueStateDescriptor("sums", Types.DOUBLE()), namespaced=True)
        timers = backend.get_timers("_timers_user_event")
        for key in (20, 21, 22):
            if job.backends[job.subtask_of(key)] is backend:
                backend.current_key = key
                for start in (0, 10):
                    backend.current_namespace = (start, start + 10)
                    sums.update(key + start / 2)
                backend.current_namespace = None
                timers.add(key, 1_000 + key)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, spark_session: Any) -> Stored:
    job = Job(tmp_path_factory.mktemp("job"), key_type=Types.LONG(), now_ms=lambda: NOW_MS)
    keyed(job)
    namespaced(job)
    for subtask, states in enumerate(job.operator_states):
        states.get_union_list_state(OFFSETS).update([(subtask, 5), (subtask, 6)])
        states.get_broadcast_state(RULES).put_all({"a": 1, "b": 2})
    path = job.checkpoint({3: b"three", 70: b""})
    return Stored(path, read_savepoint(spark_session, path))


def entries(path: str) -> dict[str, set[Any]]:
    """All keyed state of a checkpoint as Python sees it, in a form that can be compared."""
    operator = read_snapshot(path).operator(UID)
    return {
        name: {repr(entry) for entry in state.entries(trusted=True)}
        for name, state in operator.keyed_states.items()
    }


def operator_items(path: str) -> dict[str, list[str]]:
    operator = read_snapshot(path).operator(UID)
    return {name: sorted(map(repr, state.entries())) for name, state in operator.operator_states.items()}


# ---------------------------------------------------------------- reading


def test_values_have_types_and_overwritten_and_removed_entries_are_gone(stored: Stored) -> None:
    frame = stored.frames.keyed_state(UID, "count")
    assert frame.dtypes == [
        ("key_group", "int"),
        ("key", "bigint"),
        ("value", "bigint"),
        ("value_encoded", "binary"),
    ]
    expected = {key: key if key < 150 else -key for key in range(10, 250)} | {11: None}
    rows = frame.collect()
    assert {row.key: row.value for row in rows} == expected
    assert len(rows) == len(expected)
    assert {row.key for row in rows if row.value_encoded is not None} == {11}


def test_every_type_of_value_has_a_column(stored: Stored) -> None:
    (full,) = stored.frames.keyed_state(UID, "rows").collect()
    at = datetime(1955, 11, 5, 6, 15, 0, 1)
    assert full.value[:7] == (-7, 0.1, "é", b"\x00\xff", date(1969, 7, 20), 86_399_999_999, at)
    assert full.value[8:] == (1_000_000_001, str(2**70), "1.20", ["a", None], {"k": 1})


def test_lists_have_a_row_per_element_and_maps_one_per_entry(stored: Stored) -> None:
    names = stored.frames.keyed_state(UID, "names").select("key", "position", "value").collect()
    expected = [(3, 0, "b"), (3, 1, None), (3, 2, "a")]
    assert sorted(map(tuple, names))[:3] == expected
    assert len(names) == 9
    arrays = stored.frames.keyed_state(UID, "names", keys=[3], explode=False).select("value").collect()
    assert [row.value for row in arrays] == [["b", None, "a"]]
    days = stored.frames.keyed_state(UID, "by-day").select("key", "map_key", "value").collect()
    assert sorted(map(tuple, days)) == [(7, date(2024, 1, 1), 0.5), (7, date(2024, 1, 2), 0.5)]


def test_expiries_are_instants(stored: Stored) -> None:
    seen = (
        stored.frames.keyed_state(UID, "seen")
        .selectExpr("key", "value", "unix_millis(expiry) as at")
        .collect()
    )
    at = NOW_MS + 3_600_000
    assert sorted(map(tuple, seen)) == [(5, -5, at), (5, 5, at), (6, -6, at), (6, 6, at)]


def test_windows_and_timers_keep_their_namespaces(stored: Stored) -> None:
    typed = stored.frames.keyed_state(UID, "sums", namespace_type=WINDOW)
    rows = typed.selectExpr("key", "namespace.f0", "namespace.f1", "value").collect()
    assert sorted(map(tuple, rows))[:2] == [(20, 0, 10, 20.0), (20, 10, 20, 25.0)]
    timers = stored.frames.timers(UID).collect()
    assert sorted(tuple(row)[1:] for row in timers) == [
        (key, 1_000 + key, None, "user", "event") for key in (20, 21, 22)
    ]


def test_operator_state_and_raw_state_are_there(stored: Stored) -> None:
    offsets = stored.frames.operator_state(UID, "offsets").selectExpr("subtask", "value.f1").collect()
    assert sorted(map(tuple, offsets)) == [(0, 5), (0, 6), (1, 5), (1, 6)]
    rules = stored.frames.operator_state(UID, "rules").select("map_key", "value").collect()
    assert sorted(map(tuple, rules)) == [("a", 1), ("b", 2)]
    raw = stored.frames.raw_keyed_state(UID).collect()
    assert [(row.key_group, bytes(row.value)) for row in raw] == [(3, b"three"), (70, b"")]
    listed = {row.state: row for row in stored.frames.states().collect()}
    assert listed["by-day"].map_key_type == "SQL_DATE"
    assert (listed["offsets"].kind, listed["offsets"].operator) == ("union", NAME)


def test_only_the_key_groups_asked_for_are_read(stored: Stored, tmp_path: Path, spark_session: Any) -> None:
    job = Path(stored.path.removeprefix("file://")).parent
    shutil.copytree(job, tmp_path / "damaged")
    for segment in (tmp_path / "damaged" / "shared").glob("**/count-1-*"):
        data = bytearray(segment.read_bytes())
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        data[4:footer] = bytes(footer - 4)
        segment.write_bytes(data)
    damaged = read_savepoint(spark_session, str(tmp_path / "damaged" / "chk-2"))
    first_half = damaged.keyed_state(UID, "count", key_groups=(0, 63)).collect()
    assert {row.key_group // 64 for row in first_half} == {0}
    key = first_half[0].key
    assert [row.key for row in damaged.keyed_state(UID, "count", keys=[key]).collect()] == [key]
    with pytest.raises(Exception, match=r"CorruptCheckpointError.*state 'count'"):
        damaged.keyed_state(UID, "count").collect()


# ---------------------------------------------------------------- writing


def test_a_savepoint_written_back_from_its_data_frames_is_the_same(
    stored: Stored, tmp_path: Path, spark_session: Any
) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark_session, stored.path)
    frames = stored.frames
    for state in ("count", "rows", "seen", "by-day"):
        writer.with_keyed_state(UID, state, frames.keyed_state(UID, state))
    sums = frames.keyed_state(UID, "sums", namespace_type=WINDOW)
    writer.with_keyed_state(UID, "sums", sums, namespace_type=WINDOW)
    writer.with_timers(UID, frames.timers(UID).select("key", "timestamp_ms"))
    for state in ("offsets", "rules"):
        writer.with_operator_state(UID, state, frames.operator_state(UID, state))
    path = writer.write(str(tmp_path / "again"), now_ms=NOW_MS)
    assert entries(path) == entries(stored.path)
    assert operator_items(path) == operator_items(stored.path)
    snapshot = read_snapshot(path)
    snapshot.verify()
    assert snapshot.kind == "savepoint"
    assert all(snapshot.keyed_state(UID, "count").get(key) == -key for key in range(150, 250))
    # Nothing outside of its directory, and nothing in it that it does not need.
    shutil.move(path, tmp_path / "moved")
    assert entries(str(tmp_path / "moved")) == entries(stored.path)
    named = {file.path.removeprefix(f"{path}/") for file in snapshot.manifest.files()}
    found = {str(file.relative_to(tmp_path / "moved")) for file in (tmp_path / "moved").glob("**/*.parquet")}
    assert found == named


def test_states_that_are_not_edited_are_copied(stored: Stored, tmp_path: Path, spark_session: Any) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark_session, stored.path)
    writer.remove_state(UID, "names").change_operator_identifier(UID, "renamed")
    doubled = stored.frames.keyed_state(UID, "count", keys=[20]).selectExpr("key", "value * 2 as value")
    writer.with_keyed_state("renamed", COUNT, doubled)
    snapshot = read_snapshot(writer.write(str(tmp_path / "edited")))
    snapshot.verify()
    operator = snapshot.operator("renamed")
    # Written by the clock of this machine, at which it has expired.
    assert [*operator.keyed_state("seen").entries()] == []
    assert "names" not in operator.keyed_states
    assert [entry.value for entry in operator.keyed_state("count").entries()] == [40]
    assert {repr(entry) for entry in operator.keyed_state("rows").entries()} == entries(stored.path)["rows"]


# ---------------------------------------------------------------- refusals; none of them starts a Spark job


def test_what_is_no_savepoint_is_refused(tmp_path: Path, spark_session: Any) -> None:
    with pytest.raises(CheckpointStorageError, match=r"there is no checkpoint at .*nowhere"):
        read_savepoint(spark_session, str(tmp_path / "nowhere"))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "_metadata").write_bytes(b"\x49\x60\x67\x24")
    with pytest.raises(CheckpointStorageError, match="Apache Flink"):
        read_savepoint(spark_session, str(tmp_path / "foreign"))
    (tmp_path / "foreign" / "MANIFEST").write_bytes(b"hello\n")
    with pytest.raises(CorruptCheckpointError, match="is not a checkpoint manifest"):
        read_savepoint(spark_session, str(tmp_path / "foreign"))


def test_a_state_that_is_not_there_is_an_error_that_says_what_is(stored: Stored) -> None:
    with pytest.raises(StateError, match=r"has no state 'total'.*'by-day'"):
        stored.frames.keyed_state(UID, "total")
    with pytest.raises(StateError, match="no operator state 'x'; there is: 'offsets', 'rules'"):
        stored.frames.operator_state(UID, "x")
    with pytest.raises(StateError, match="no operator with uid 'y'"):
        stored.frames.in_flight("y")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select 1L as key", "lacks value"),
        ("select 1L as key, 2L as value, 3 as note", "has no note"),
        ("select 1L as key, 'two' as value", "column value of the DataFrame is string.*int64"),
        ("select 'one' as key, 2L as value", "column key of the DataFrame is string.*int64"),
        ("select 1L as key, 2L as value, current_timestamp() as expiry", "no time to live"),
    ],
)
def test_a_data_frame_that_does_not_fit_is_refused(
    stored: Stored, spark_session: Any, query: str, words: str
) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark_session, stored.path)
    with pytest.raises(StateError, match=f"state 'count'.*{words}"):
        writer.with_keyed_state(UID, "count", spark_session.sql(query))


def test_keys_that_were_shown_as_text_are_not_written_as_text(stored: Stored, spark_session: Any) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark_session, stored.path)
    with pytest.raises(StateError, match=r"declared no type for its namespaces.*namespace_type="):
        writer.with_keyed_state(UID, "sums", stored.frames.keyed_state(UID, "sums"))


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path, spark_session: Any) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(CheckpointStorageError, match="is not empty: it holds 'mine'"):
        SavepointWriter.new_savepoint(spark_session).write(str(tmp_path))
    assert (tmp_path / "mine").read_text() == "precious"
