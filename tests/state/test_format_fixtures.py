"""Checkpoints of every released format version stay readable. `fixtures/make.py` wrote them."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tidegate.common import Instant, Row, Types
from tidegate.protocol.checkpoints.manifest import FORMAT_VERSION as MANIFEST_VERSION
from tidegate.protocol.checkpoints.manifest import decode_manifest
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.state import read_snapshot
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state.keyed.raw_state import RAW_OPERATOR
from tidegate.state.snapshots.segments import FORMAT_VERSION
from tidegate.state.snapshots.snapshot_reader import Snapshot
from tidegate.state.storage.checkpoint_storage import open_storage
from tidegate.state.storage.stored_checkpoint import MANIFEST_NAME

from .checkpoints import UID, Job
from .test_operator_state import open_states

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("format-*/chk-2"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.parent.name)
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    return read_snapshot(str(request.param))


def test_there_are_fixtures_of_all_versions() -> None:
    names = {path.parent.name for path in FIXTURES}
    # Segments of format 1 pickled what did not fit their column.
    # Manifests of format 2 have broadcast state as changes.
    assert {"format-1", "format-1-2", f"format-{MANIFEST_VERSION}-{FORMAT_VERSION}"} <= names


def test_a_job_starts_from_a_released_format(snapshot: Snapshot, tmp_path: Path) -> None:
    job = Job(tmp_path, key_type=None)
    job.restore(snapshot.path)
    descriptor = ValueStateDescriptor("large", Types.LONG())
    found = {}
    for key in (0, 1):
        backend = job.backends[job.subtask_of(key)]
        state = backend.get_value_state(descriptor)
        backend.current_key = key
        found[key] = state.value()
    assert found == {0: 1 << 62, 1: 1 << 63}


def entries(snapshot: Snapshot, state: str) -> dict[Any, Any]:
    return {entry.key: entry.value for entry in snapshot.keyed_state(UID, state).entries(trusted=True)}


def test_keyed_state_of_a_released_format_is_read(snapshot: Snapshot) -> None:
    snapshot.verify()
    values = {**{key: key for key in (0, 1, 2, 6, 7, 8, 9)}, 3: -3, 4: -4}
    assert entries(snapshot, "value") == values
    assert entries(snapshot, "pickled") == {1: {"any": {1}}}
    assert entries(snapshot, "list") == {key: [key, 7] for key in range(3)}
    assert entries(snapshot, "reducing") == entries(snapshot, "aggregating") == {1: 2, 2: 2}
    assert entries(snapshot, "folding") == {1: "11", 2: "2"}
    maps = {(entry.key, entry.map_key): entry.value for entry in snapshot.keyed_state(UID, "map").entries()}
    assert maps == {(0, "a"): 0.5, (0, "b"): 0.0, (1, "a"): 0.5, (1, "b"): 0.5, (2, "b"): 1.0}
    windows = snapshot.keyed_state(UID, "windows")
    assert [windows.get(1, namespace) for namespace in (10, 20, 30)] == [10, 20, None]


NOON = datetime(2013, 1, 1, 12, 30)


def test_keys_of_a_released_format_come_back(snapshot: Snapshot) -> None:
    keys: list[Any] = [
        "text", "nul\0", (1, "tuple"), b"bytes\0", date(2013, 1, 1), NOON, NOON.replace(tzinfo=timezone.utc),
        time(1, 2, 3, 4), UUID(int=7), Row(a=1, b="x"), Row(1, "x"), 7, 1 << 70, -(1 << 70),
    ]  # fmt: skip
    state = snapshot.keyed_state(UID, "any key")
    assert sorted(repr(entry.key) for entry in state.entries()) == sorted(map(repr, keys))
    assert [state.get(key) for key in keys] == [1] * len(keys)
    numbers = snapshot.keyed_state(UID, "numbers").entries()
    assert {entry.map_key: entry.value for entry in numbers} == {0.5: 1, -0.5: 2, Decimal("2.5"): 3}
    flights = snapshot.keyed_state(UID, "flights")
    assert flights.filter(["N24211"]).to_arrow()["key"].to_pylist() == ["N24211"]


def test_values_of_a_released_format_have_their_types(snapshot: Snapshot) -> None:
    (value,) = [
        entry.value for entry in snapshot.keyed_state(UID, "types").entries(trusted=True) if entry.key == 2
    ]
    assert value == (
        True, 2, 0.5, "text 2", b"\x02", 10**30 + 2, Decimal(2) / 8, date(2013, 1, 3), Instant(2, 5),
        {"a": 2}, Row(delays=[1.0, None], tail="N2"), 0.1, time(1, 2, 3, 2), NOON,
        NOON.replace(tzinfo=timezone.utc), UUID(int=2).bytes, {2},
    )  # fmt: skip
    # A class that readers do not know comes as a row, its enum as a name.
    flight = snapshot.keyed_state(UID, "flights").get("N14228")
    assert flight.as_dict() == {"number": 1545, "carrier": "UA", "stops": ["EWR", "IAH"]}
    # One value was too large for its column.
    assert entries(snapshot, "large") == {0: 1 << 62, 1: 1 << 63}
    # The first file has integers of 32 bits, the second of 64.
    assert entries(snapshot, "grown") == {0: 0, 1: 1 << 40, 2: 1 << 40, 3: 3}
    frame = snapshot.state(UID, "types").to_pandas().sort_values("key")
    assert frame["value"].iloc[1]["f3"] == "text 1"


def test_expiries_of_a_released_format_are_read(snapshot: Snapshot) -> None:
    state = snapshot.keyed_state(UID, "expiring")
    assert [entry.expiry_ms for entry in state.entries()] == [1_001_000]
    assert (state.get(1, now_ms=1_000_999), state.get(1, now_ms=1_001_000)) == (1, None)
    by_watermark = snapshot.keyed_state(UID, "event time")
    assert by_watermark.schema["ttl"] == "event-time"
    assert [entry.expiry_ms for entry in by_watermark.entries()] == [6_000]
    in_map = snapshot.keyed_state(UID, "expiring map").entries()
    assert {entry.map_key: (entry.value, entry.expiry_ms) for entry in in_map} == {
        "a": (1, 1_001_000),
        "b": (None, 1_001_000),
    }
    elements = snapshot.keyed_state(UID, "expiring list")
    assert elements.get(1) == [1, 2]
    assert elements.get(1, now_ms=1_001_000) is None


def test_operator_and_raw_state_of_a_released_format_are_read(snapshot: Snapshot) -> None:
    operator = snapshot.operator(UID)
    split, union = operator.operator_states["split"], operator.operator_states["union"]
    assert [(entry.subtask, entry.value) for entry in split.entries()] == [(0, 0), (0, 10), (1, 1), (1, 10)]
    assert [entry.value for entry in union.entries(trusted=True)] == [{"subtask": 0}, {"subtask": 1}]
    rules = operator.operator_states["rules"]
    assert [(entry.map_key, entry.value) for entry in rules.entries()] == [("limit", 0.5)]
    partitions = [entry.value for entry in operator.operator_states["_raw_operator"].entries()]
    assert partitions == [b"partition", b"of 0", b"partition", b"of 1"]
    assert operator.raw_keyed_state is not None
    assert operator.raw_keyed_state.to_arrow().to_pydict() == {
        "key_group": [0, 127],
        "value": [b"zero", b"last"],
    }


@pytest.mark.parametrize("kind", ["hashmap", "lmdb", "on disk"])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.parent.name)
def test_a_job_starts_with_operator_state_of_a_released_format(path: Path, kind: str, tmp_path: Path) -> None:
    storage = open_storage(str(path.parent))
    subtasks = decode_manifest((path / MANIFEST_NAME).read_bytes(), str(path)).operators[UID].subtasks
    split, partitions = [], []
    for subtask, snapshot in enumerate(redistribute(subtasks, 3, 128)):
        states = open_states(kind, storage, str(tmp_path), subtask)
        states.restore(snapshot.lists, owned=True)
        split += states.get_list_state(ListStateDescriptor("split", Types.LONG())).get()
        partitions += states.get_list_state(RAW_OPERATOR).get()
        union = states.get_union_list_state(ListStateDescriptor("union"))
        assert union.get() == [{"subtask": 0}, {"subtask": 1}]
        rules = states.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE()))
        assert dict(rules.items()) == {"limit": 0.5}
        states.close()
    assert (split, partitions) == ([0, 10, 1, 10], [b"partition", b"of 0", b"partition", b"of 1"])
