"""One behaviour for every backend."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import (
    StateError,
)
from tidegate.common.typeinfo import Types
from tidegate.common.types import Row
from tidegate.protocol.checkpoints.handles import KeyedStateHandle
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
VALUE = ValueStateDescriptor("total", PAIR)
MAP = MapStateDescriptor("by name", Types.STRING(), None)
LIST = ListStateDescriptor("seen", Types.STRING())
ANYTHING = ValueStateDescriptor("anything")


class Average:
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


with_and_without_storage = pytest.mark.parametrize(
    "options", [{}, {"storage": None}], ids=["checkpoints", "no checkpoints"]
)


@with_and_without_storage
def test_state_belongs_to_the_current_key(open_backend: Any, options: dict[str, Any]) -> None:
    backend = open_backend(**options)
    value, entries, elements = (
        backend.get_value_state(VALUE),
        backend.get_map_state(MAP),
        backend.get_list_state(LIST),
    )
    for key in (1, "one", (1, "one")):
        backend.current_key = key
        assert value.value() is None
        assert entries.is_empty()
        assert list(elements) == []
        value.update((len(str(key)), 0))
        entries.put("key", [key])
        elements.add_all([str(key), "x"])
    backend.current_key = "one"
    value.clear()
    entries.clear()
    elements.clear()
    backend.current_key = (1, "one")
    assert value.value() == (10, 0)
    assert list(entries.items()) == [("key", [(1, "one")])]
    assert elements.get() == ["(1, 'one')", "x"]
    backend.current_key = "one"
    assert (value.value(), list(entries.keys()), elements.get()) == (None, [], [])
    backend.current_key = (1, "one")
    value.update(None)
    assert value.value() is None


def test_map_entries_may_hold_none_and_are_removed_one_by_one(open_backend: Any) -> None:
    backend = open_backend()
    entries = backend.get_map_state(MAP)
    backend.current_key = 7
    entries.put_all({"a": None, "b": 2, "c": 3})
    backend.freeze().persist()
    entries.remove("b")
    entries.remove("never there")
    assert entries.contains("a")
    assert not entries.contains("b")
    assert entries.get("a") is None
    assert sorted(entries.keys()) == ["a", "c"]
    backend.freeze().persist()
    assert sorted(entries, key=str) == ["a", "c"]
    assert sorted(entries.values(), key=str) == [3, None]
    entries.clear()
    assert entries.is_empty()


def test_reducing_and_aggregating_state_fold_what_is_added(open_backend: Any) -> None:
    backend = open_backend()
    largest = backend.get_reducing_state(ReducingStateDescriptor("largest", max, Types.LONG()))
    average = backend.get_aggregating_state(AggregatingStateDescriptor("average", Average(), PAIR))
    backend.current_key = "k"
    assert (largest.get(), average.get()) == (None, None)
    for number in (3, 9, 6):
        largest.add(number)
        average.add(number)
        backend.freeze().persist()
    assert (largest.get(), average.get()) == (9, 6.0)


def test_a_reduce_function_may_be_an_object(open_backend: Any) -> None:
    class Sum:
        def reduce(self, first: int, second: int) -> int:
            return first + second

    backend = open_backend()
    total = backend.get_reducing_state(ReducingStateDescriptor("sum", Sum(), Types.LONG()))
    backend.current_key = 1
    total.add(2)
    total.add(3)
    assert total.get() == 5


@with_and_without_storage
def test_state_without_a_key_is_an_error_that_names_operator_and_state(
    open_backend: Any, options: dict[str, Any]
) -> None:
    backend = open_backend(**options)
    value, entries = backend.get_value_state(VALUE), backend.get_map_state(MAP)
    for use in (value.value, value.clear, lambda: value.update((1, 2)), entries.keys):
        with pytest.raises(StateError, match=r"running total.*(total|by name).*no key"):
            use()


def test_one_name_means_one_descriptor(open_backend: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(VALUE)
    backend.current_key = 1
    value.update((1, 2))
    assert backend.get_value_state(ValueStateDescriptor("total", PAIR)).value() == (1, 2)
    with pytest.raises(StateError, match="'total' is already declared"):
        backend.get_value_state(ValueStateDescriptor("total", Types.STRING()))
    with pytest.raises(StateError, match="'total' is already declared"):
        backend.get_list_state(ListStateDescriptor("total", PAIR))


def test_a_restored_backend_holds_what_was_frozen(open_backend: Any) -> None:
    backend = open_backend()
    value, entries, elements = (
        backend.get_value_state(VALUE),
        backend.get_map_state(MAP),
        backend.get_list_state(LIST),
    )
    keys = [*range(-50, 50), "text", "nul\0", b"bytes", (1, "x"), Row(1, "y"), 1 << 80]
    for key in keys:
        backend.current_key = key
        value.update((3, 4))
        entries.put("a", {"nested": key})
        entries.put("x" * 300, 1)
        elements.add("first")
    backend.freeze().persist()
    for key in keys[::2]:
        backend.current_key = key
        value.clear()
        entries.remove("a")
        elements.add("second")
    frozen = backend.freeze()
    for key in keys:
        backend.current_key = key
        value.update((0, 0))
        elements.clear()
    handle = frozen.persist()

    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    value, entries, elements = (
        restored.get_value_state(VALUE),
        restored.get_map_state(MAP),
        restored.get_list_state(LIST),
    )
    for index, key in enumerate(keys):
        restored.current_key = key
        assert value.value() == (None if index % 2 == 0 else (3, 4))
        assert entries.get("a") == (None if index % 2 == 0 else {"nested": key})
        assert sorted(entries.keys()) == (["x" * 300] if index % 2 == 0 else ["a", "x" * 300])
        assert entries.get("x" * 300) == 1
        assert elements.get() == (["first", "second"] if index % 2 == 0 else ["first"])


def test_keys_longer_than_lmdb_allows_stay_apart(open_backend: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(VALUE)
    long = "k" * 1000
    for number, key in enumerate((long, long + "1", long + "2")):
        backend.current_key = key
        value.update((number, number))
    backend.freeze().persist()
    for number, key in enumerate((long, long + "1", long + "2")):
        backend.current_key = key
        assert value.value() == (number, number)


def test_a_frozen_value_does_not_change_when_live_ones_are_changed_in_place(open_backend: Any) -> None:
    backend = open_backend()
    value, entries = backend.get_value_state(ANYTHING), backend.get_map_state(MAP)
    elements = backend.get_list_state(ListStateDescriptor("lists"))
    backend.current_key = 1
    value.update({"n": [1]})
    entries.put("a", [1])
    elements.add([1])
    frozen = backend.freeze()
    changed = value.value()
    changed["n"].append(2)
    value.update(changed)
    changed = entries.get("a")
    changed.append(2)
    entries.put("a", changed)
    elements.get()[0].append(2)
    elements.add([3])
    handle = frozen.persist()
    assert value.value() == {"n": [1, 2]}
    assert entries.get("a") == [1, 2]

    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    restored.current_key = 1
    assert restored.get_value_state(ANYTHING).value() == {"n": [1]}
    assert restored.get_map_state(MAP).get("a") == [1]
    assert restored.get_list_state(ListStateDescriptor("lists")).get() == [[1]]


def test_a_frozen_value_is_safe_when_it_comes_back_from_behind_the_cache(open_backend: Any) -> None:
    backend = open_backend()
    value, entries = backend.get_value_state(ANYTHING), backend.get_map_state(MAP)
    keys = range(12)
    for key in keys:
        backend.current_key = key
        value.update([key])
        entries.put("a", [key])
    frozen = backend.freeze()
    for key in keys:
        # Asking also turns the generations of the cache: tiny ones have forgotten this key by now.
        _ = backend.needs_spill
        backend.current_key = key
        value.value().append("later")
        entries.get("a").append("later")
    handle = frozen.persist()
    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    value, entries = restored.get_value_state(ANYTHING), restored.get_map_state(MAP)
    for key in keys:
        restored.current_key = key
        assert value.value() == [key]
        assert entries.get("a") == [key]


def rescaled(open_backend: Any, handles: list[KeyedStateHandle], parallelism: int, attempt: int) -> list[Any]:
    together = KeyedStateHandle.concatenated(handles)
    backends = []
    for subtask in range(parallelism):
        backend = open_backend(subtask, parallelism, attempt)
        backend.restore(
            together.restricted_to(key_group_range_of_subtask(subtask, 128, parallelism)), owned=True
        )
        backends.append(backend)
    return backends


def test_a_subtask_may_own_nothing_of_what_several_checkpoints_stored(open_backend: Any) -> None:
    number = ValueStateDescriptor("number", Types.LONG())
    backend = open_backend()
    for value in (1, 2):
        backend.current_key = 7
        backend.get_value_state(number).update(value)
        handle = backend.freeze().persist()
    shown = []
    for part in rescaled(open_backend, [handle], 3, attempt=1):
        part.current_key = 7
        shown.append(part.get_value_state(number).value())
    assert sorted(shown, key=str) == [2, None, None]


def test_state_follows_its_key_groups_when_the_parallelism_changes(open_backend: Any) -> None:
    expected: dict[Any, tuple[int, int]] = {}
    backends = [open_backend()]
    for step, parallelism in enumerate((1, 3, 2, 1)):
        if step:
            backends = rescaled(open_backend, [b.freeze().persist() for b in backends], parallelism, step)
        for backend, key_range in [
            (backend, key_group_range_of_subtask(subtask, 128, parallelism))
            for subtask, backend in enumerate(backends)
        ]:
            value = backend.get_value_state(VALUE)
            owned = [
                key
                for key in [*range(300), *map(str, range(100))]
                if key_range.contains(key_group_of(key, 128))
            ]
            for key in owned:
                backend.current_key = key
                assert value.value() == expected.get(key)
                if (step + key_group_of(key, 128)) % 3 == 0:
                    value.clear()
                    expected.pop(key, None)
                else:
                    value.update((step, key_group_of(key, 128)))
                    expected[key] = (step, key_group_of(key, 128))


def test_what_another_job_owns_is_copied_by_the_first_snapshot(
    open_backend: Any, storage: MemoryCheckpointStorage
) -> None:
    backend = open_backend(file_prefix="old-job")
    value = backend.get_value_state(VALUE)
    backend.get_map_state(MAP)
    backend.current_key = 1
    value.update((1, 1))
    handle = backend.freeze().persist()

    restored = open_backend(attempt=1, file_prefix="new-job")
    restored.restore(handle, owned=False)
    # The state is not even declared, and must not get lost.
    copied = restored.freeze().persist()
    assert copied.segments
    assert all(segment.file.path.startswith("new-job/") for segment in copied.segments)
    storage.delete(storage.list_files("old-job"))

    again = open_backend(attempt=2)
    again.restore(copied, owned=True)
    again.current_key = 1
    assert again.get_value_state(VALUE).value() == (1, 1)


def test_many_small_increments_are_compacted(open_backend: Any) -> None:
    backend = open_backend()
    value, entries = backend.get_value_state(VALUE), backend.get_map_state(MAP)
    handle = KeyedStateHandle()
    for round_number in range(60):
        for key in range(round_number % 7, 40, 7):
            backend.current_key = key
            value.update((round_number, key))
            if round_number % 3:
                entries.put(str(round_number % 5), round_number)
            else:
                entries.clear()
        handle = backend.freeze().persist()
    assert len(handle.segments) < 40
    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    for key in range(40):
        restored.current_key = backend.current_key = key
        assert restored.get_value_state(VALUE).value() == value.value()
        assert dict(restored.get_map_state(MAP).items()) == dict(entries.items())


def test_files_of_compacted_segments_are_left_to_their_owner(
    open_backend: Any, storage: MemoryCheckpointStorage
) -> None:
    backend = open_backend()
    value = backend.get_value_state(VALUE)
    handles = []
    for round_number in range(40):
        backend.current_key = round_number
        value.update((round_number, 0))
        handles.append(backend.freeze().persist())
    # Every handle ever returned can still be read: deleting is the coordinator's business.
    for handle in handles:
        for segment in handle.segments:
            storage.read_file(segment.file)


def test_without_storage_state_still_works(open_backend: Any) -> None:
    backend = open_backend(storage=None)
    value, entries = backend.get_value_state(ANYTHING), backend.get_map_state(MAP)
    expected = {}
    for number in range(200):
        backend.current_key = key = number % 20
        before = value.value()
        value.update([number] if before is None else [*before, number])
        expected[key] = copy.deepcopy(value.value())
        entries.put("n", number)
        if number % 5 == 0:
            value.clear()
            expected.pop(key)
            entries.remove("n")
        if backend.needs_spill:
            backend.spill().persist()
    for key in range(20):
        backend.current_key = key
        assert value.value() == expected.get(key)
        assert entries.get("n") == (None if (180 + key) % 5 == 0 else 180 + key)


def test_a_tiny_write_buffer_asks_to_be_spilled(config: Any, open_backend: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(VALUE)
    is_tiny = getattr(config, "memory_size_bytes", None) == 1
    for key in range(10):
        backend.current_key = key
        value.update((key, key))
        assert backend.needs_spill == is_tiny


def test_closing_removes_local_files(open_backend: Any, tmp_path: Path) -> None:
    backend = open_backend()
    backend.get_value_state(VALUE)
    backend.close()
    backend.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_lmdb_map_grows_by_itself(open_backend: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(ANYTHING)
    for key in range(400):
        backend.current_key = key
        value.update(bytes(5000))
        if backend.needs_spill:
            backend.spill().persist()
    backend.freeze().persist()
    for key in range(400):
        backend.current_key = key
        assert value.value() == bytes(5000)


def test_restored_state_that_is_not_declared_by_the_end_of_open_is_reported(open_backend: Any) -> None:
    first = open_backend(key_type=Types.LONG())
    states = [
        first.get_value_state(ValueStateDescriptor(name, Types.LONG()))
        for name in ("kept", "gone", "cleared")
    ]
    first.opened()
    first.current_key = 1
    for state in states:
        state.update(1)
    first.freeze().persist()
    states[2].clear()
    handle = first.freeze().persist()
    assert {name: schema["declared"] for name, schema in handle.descriptors.items()} == dict.fromkeys(
        ("kept", "gone", "cleared"), "open"
    )
    again = open_backend(key_type=Types.LONG(), attempt=1)
    again.restore(handle, owned=False)
    again.get_value_state(ValueStateDescriptor("kept", Types.LONG()))
    again.get_value_state(ValueStateDescriptor("gone 2", Types.LONG()))
    again.opened()
    (found,) = again.unclaimed()
    assert (found.name, found.is_certain, found.similar) == ("gone", True, ("gone 2",))
    schemas = again.freeze().persist().descriptors
    assert "declared" not in schemas["gone"]
    assert schemas["gone 2"]["declared"] == "open"
