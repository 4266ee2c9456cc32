"""Two checkpoints are compared entry by entry, with their old and new values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import StateError
from tidegate.state import diff, read_snapshot
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

from .checkpoints import UID, Job


def put(job: Job, values: dict[Any, Any], type_info: Any = None, name: str = "v") -> None:
    descriptor = ValueStateDescriptor(name, type_info)
    job.each(
        values,
        lambda backend: backend.get_value_state(descriptor),
        lambda state, key: state.update(values[key]),
    )


def as_dict(table: Any, column: str = "value") -> dict[Any, Any]:
    return dict(zip(table["key"].to_pylist(), table[column].to_pylist(), strict=True))


def test_added_removed_and_changed_keys_are_found(tmp_path: Path) -> None:
    job = Job(tmp_path)
    put(job, {key: key for key in range(1_000)}, Types.LONG())
    old = job.checkpoint()
    put(
        job,
        {**dict.fromkeys(range(10)), **{key: -key for key in range(500, 520)}, 2_000: 7},
        Types.LONG(),
    )
    put(job, {600: 600}, Types.LONG())
    new = job.checkpoint()
    (state,) = diff(old, new).states
    changes = state.changes()
    assert (state.operator_uid, state.state_name) == (UID, "v")
    assert as_dict(changes.added) == {2_000: 7}
    assert as_dict(changes.removed) == {key: key for key in range(10)}
    assert as_dict(changes.changed, "old_value") == {key: key for key in range(500, 520)}
    assert as_dict(changes.changed, "new_value") == {key: -key for key in range(500, 520)}
    assert state.added.equals(changes.added)
    assert diff(new, old).state(UID, "v").removed["key"].to_pylist() == [2_000]
    assert diff(new, read_snapshot(new)).states[0].changes().is_empty


NAN = float("nan")


@pytest.mark.parametrize(
    ("type_info", "same", "other"),
    [
        (Types.DOUBLE(), NAN, 1.0),
        (Types.STRING(), "a", "b"),
        (Types.TUPLE([Types.LONG(), Types.DOUBLE()]), (1, NAN), (2, NAN)),
        (Types.LIST(Types.DOUBLE()), [1.0, NAN], [1.0, 2.0]),
        (Types.LIST(Types.DOUBLE()), [], [1.0]),
        (Types.LIST(Types.STRING()), ["a", None], ["a", "b"]),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1, "b": 2}, {"a": 1}),
        (None, {"any": "object"}, {"any": "thing"}),
    ],
)
def test_values_are_compared_by_their_type(tmp_path: Path, type_info: Any, same: Any, other: Any) -> None:
    job = Job(tmp_path)
    put(job, dict.fromkeys(range(20), same), type_info)
    old = job.checkpoint()
    put(job, {**dict.fromkeys(range(20), same), 3: other}, type_info)
    new = job.checkpoint()
    (state,) = diff(old, new).states
    assert state.changed["key"].to_pylist() == [3]
    assert state.added.num_rows == state.removed.num_rows == 0


def test_the_order_of_a_map_value_means_nothing(tmp_path: Path) -> None:
    type_info = Types.MAP(Types.STRING(), Types.LONG())
    job = Job(tmp_path)
    put(job, {1: {"a": 1, "b": 2}}, type_info)
    old = job.checkpoint()
    put(job, {1: {"b": 2, "a": 1}}, type_info)
    assert diff(old, job.checkpoint()).states[0].changes().is_empty


def test_map_states_are_compared_entry_by_entry(tmp_path: Path) -> None:
    job = Job(tmp_path)
    descriptor = MapStateDescriptor("m", Types.STRING(), Types.LIST(Types.LONG()))
    job.each(range(3), lambda b: b.get_map_state(descriptor), lambda s, key: s.put_all({"a": [1], "b": [2]}))
    old = job.checkpoint()

    def change(state: Any, key: int) -> None:
        state.put("c", [3])
        state.remove("a")
        state.put("b", [2, key])

    job.each([1], lambda b: b.get_map_state(descriptor), change)
    changes = diff(old, job.checkpoint()).state(UID, "m").changes()
    assert changes.added.select(["key", "map_key"]).to_pylist() == [{"key": 1, "map_key": "c"}]
    assert changes.removed.select(["key", "map_key"]).to_pylist() == [{"key": 1, "map_key": "a"}]
    row = {"key": 1, "map_key": "b", "old_value": [2], "new_value": [2, 1]}
    assert changes.changed.to_pylist() == [row]


def test_keys_stored_in_different_forms_are_the_same_keys(tmp_path: Path) -> None:
    job = Job(tmp_path)
    put(job, {1: 1, 2: 2}, Types.LONG())
    old = job.checkpoint()
    put(job, {2: 3, "text": 4}, Types.LONG())
    state = diff(old, job.checkpoint()).state(UID, "v")
    assert as_dict(state.added) == {"'text'": 4}
    assert as_dict(state.changed, "new_value") == {"2": 3}
    assert state.removed.num_rows == 0


def test_a_state_that_only_one_has_is_all_added_or_removed(tmp_path: Path) -> None:
    job = Job(tmp_path)
    put(job, {1: 1}, Types.LONG())
    old = job.checkpoint()
    put(job, {1: 2.0}, Types.DOUBLE(), name="new")
    new = job.checkpoint()
    assert as_dict(diff(old, new).state(UID, "new").added) == {1: 2.0}
    assert as_dict(diff(new, old).state(UID, "new").removed) == {1: 2.0}
    with pytest.raises(StateError, match=r"neither checkpoint has .*there is: totals-uid/new, totals-uid/v"):
        diff(old, new).state(UID, "other")


def test_states_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    one, other = Job(tmp_path / "one"), Job(tmp_path / "other")
    put(one, {1: 1}, Types.LONG())
    descriptor = ListStateDescriptor("v", Types.LONG())
    other.each([1], lambda b: b.get_list_state(descriptor), lambda s, key: s.add(1))
    with pytest.raises(StateError, match="a value state cannot be compared with a list state"):
        diff(one.checkpoint(), other.checkpoint())


def test_the_parallelism_may_differ(tmp_path: Path) -> None:
    one, other = Job(tmp_path / "one", parallelism=2), Job(tmp_path / "other", parallelism=3)
    put(one, {key: key for key in range(300)}, Types.LONG())
    put(other, {key: key for key in range(1, 301)}, Types.LONG())
    changes = diff(one.checkpoint(), other.checkpoint()).states[0].changes()
    assert (as_dict(changes.removed), as_dict(changes.added)) == ({0: 0}, {300: 300})
    assert changes.changed.num_rows == 0
