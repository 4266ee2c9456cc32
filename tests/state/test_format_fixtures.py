"""Checkpoints of every released format version stay readable. `fixtures/make.py` wrote them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Instant, Row
from tidegate.state import read_snapshot
from tidegate.state.snapshot_reader import Snapshot

from .checkpoints import UID

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("format-*/chk-2"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.parent.name)
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    return read_snapshot(str(request.param))


def test_there_is_a_fixture_of_the_first_version() -> None:
    assert "format-1" in {path.parent.name for path in FIXTURES}


def entries(snapshot: Snapshot, state: str) -> dict[Any, Any]:
    return {entry.key: entry.value for entry in snapshot.keyed_state(UID, state).entries(trusted=True)}


def test_keyed_state_of_a_released_format_is_read(snapshot: Snapshot) -> None:
    snapshot.verify()
    values = {**{key: key for key in (0, 1, 2, 6, 7, 8, 9)}, 3: -3, 4: -4}
    assert entries(snapshot, "value") == values
    assert entries(snapshot, "pickled") == {1: {"any": {1}}}
    assert entries(snapshot, "list") == {key: [key, 7] for key in range(3)}
    assert entries(snapshot, "reducing") == entries(snapshot, "aggregating") == {1: 2, 2: 2}
    assert entries(snapshot, "any key") == dict.fromkeys(
        ["text", (1, "tuple"), b"bytes", date(2013, 1, 1), 1 << 70, -(1 << 70)], 1
    )
    maps = {(entry.key, entry.map_key): entry.value for entry in snapshot.keyed_state(UID, "map").entries()}
    assert maps == {(0, "a"): 0.5, (0, "b"): 0.0, (1, "a"): 0.5, (1, "b"): 0.5, (2, "b"): 1.0}
    windows = snapshot.keyed_state(UID, "windows")
    assert [windows.get(1, namespace) for namespace in (10, 20, 30)] == [10, 20, None]


def test_values_of_a_released_format_have_their_types(snapshot: Snapshot) -> None:
    assert snapshot.keyed_state(UID, "types").get(2) == (
        True, 2, 0.5, "text 2", b"\x02", 10**30 + 2, Decimal(2) / 8, date(2013, 1, 3), Instant(2, 5),
        {"a": 2}, Row(delays=[1.0, None], tail="N2"),
    )  # fmt: skip
    frame = snapshot.state(UID, "types").to_pandas().sort_values("key")
    assert frame["value"].iloc[1]["f3"] == "text 1"


def test_expiries_of_a_released_format_are_read(snapshot: Snapshot) -> None:
    state = snapshot.keyed_state(UID, "expiring")
    assert [entry.expiry_ms for entry in state.entries()] == [1_001_000]
    assert (state.get(1, now_ms=1_000_999), state.get(1, now_ms=1_001_000)) == (1, None)
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
    assert operator.raw_keyed_state is not None
    assert operator.raw_keyed_state.to_arrow().to_pydict() == {
        "key_group": [0, 127],
        "value": [b"zero", b"last"],
    }
