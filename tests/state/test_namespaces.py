"""States with namespaces: something of their own per key and namespace, for windows and timers."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq
import pytest
from tidegate.common.errors import StateError, StateMigrationError
from tidegate.common.typeinfo import Types
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

TOTAL = ValueStateDescriptor("total", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.STRING())
BY_NAME = MapStateDescriptor("by name", Types.STRING(), None)
LARGEST = ReducingStateDescriptor("largest", max, Types.LONG())


class Distinct:
    """Counts distinct values: the accumulator is a set, changed in place."""

    def create_accumulator(self) -> set[str]:
        return set()

    def add(self, value: str, accumulator: set[str]) -> set[str]:
        accumulator.add(value)
        return accumulator

    def get_result(self, accumulator: set[str]) -> int:
        return len(accumulator)

    def merge(self, first: set[str], second: set[str]) -> set[str]:
        return first | second


DISTINCT = AggregatingStateDescriptor("distinct", Distinct())

# Windows, counters, and a namespace and keys longer than LMDB takes.
NAMESPACES = [(0, 10), (10, 20), 7, "n" * 700]
KEYS = [1, -5, "text", "k" * 700, (1, "pair")]


class Namespaced:
    """All kinds of state of one backend."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.total = backend.get_value_state(TOTAL, namespaced=True)
        self.seen = backend.get_list_state(SEEN, namespaced=True)
        self.by_name = backend.get_map_state(BY_NAME, namespaced=True)
        self.largest = backend.get_reducing_state(LARGEST, namespaced=True)
        self.distinct = backend.get_aggregating_state(DISTINCT, namespaced=True)

    def at(self, key: Any, namespace: Any) -> None:
        self.backend.current_key, self.backend.current_namespace = key, namespace

    def add(self, number: int) -> None:
        self.total.update(number)
        self.seen.add(str(number))
        self.by_name.put("last", number)
        self.by_name.put("x" * 700 + str(number), None)
        self.largest.add(number)
        self.distinct.add(str(number))

    def contents(self) -> Any:
        return (
            self.total.value(),
            self.seen.get(),
            dict(self.by_name.items()),
            self.largest.get(),
            self.distinct.get(),
        )


EMPTY = (None, [], {}, None, None)


def filled(backend: Any, keys: list[Any]) -> Namespaced:
    states = Namespaced(backend)
    for index, (key, namespace) in enumerate((k, n) for k in keys for n in NAMESPACES):
        states.at(key, namespace)
        assert states.contents() == EMPTY
        states.add(index)
        states.add(index)
    return states


def expected(index: int) -> Any:
    return (
        index,
        [str(index)] * 2,
        {"last": index, "x" * 700 + str(index): None},
        index,
        1,
    )


def test_each_namespace_of_a_key_holds_something_of_its_own(open_backend: Any) -> None:
    states = filled(open_backend(), KEYS)
    for _ in range(2):
        for index, (key, namespace) in enumerate((k, n) for k in KEYS for n in NAMESPACES):
            states.at(key, namespace)
            assert states.contents() == expected(index)
        states.backend.freeze().persist()
    states.at(KEYS[0], NAMESPACES[0])
    for state in (states.total, states.seen, states.by_name, states.largest, states.distinct):
        state.clear()
    assert states.contents() == EMPTY
    states.at(KEYS[0], NAMESPACES[1])
    assert states.contents() == expected(1)


def test_namespaces_are_restored_and_follow_the_key_group_of_their_key(open_backend: Any) -> None:
    keys = [*KEYS, *range(100, 120)]
    handle = filled(open_backend(), keys).backend.freeze().persist()
    for parallelism in (2, 3):
        backends = []
        for subtask in range(parallelism):
            key_range = key_group_range_of_subtask(subtask, 128, parallelism)
            backend = open_backend(subtask, parallelism, attempt=parallelism)
            backend.restore(handle.restricted_to(key_range), owned=True)
            states = Namespaced(backend)
            backends.append(backend)
            for index, (key, namespace) in enumerate((k, n) for k in keys for n in NAMESPACES):
                states.at(key, namespace)
                is_owned = key_range.contains(key_group_of(key, 128))
                assert states.contents() == (expected(index) if is_owned else EMPTY)
        handle = KeyedStateHandle.concatenated([backend.freeze().persist() for backend in backends])


def test_namespaces_stand_in_their_column_of_the_segments(
    open_backend: Any, storage: MemoryCheckpointStorage
) -> None:
    backend = open_backend()
    total = backend.get_value_state(TOTAL, namespaced=True)
    plain = backend.get_value_state(ValueStateDescriptor("plain", Types.LONG()))
    backend.current_key = "k"
    for backend.current_namespace in (3, 4):
        total.update(backend.current_namespace * 10)
    plain.update(1)
    handle = backend.freeze().persist()
    tables = {
        segment.state_name: pq.read_table(io.BytesIO(storage.read_file(segment.file)))
        for segment in handle.segments
    }
    rows = sorted((row["key"], row["namespace"], row["value"]) for row in tables["total"].to_pylist())
    assert rows == [("k", 3, 30), ("k", 4, 40)]
    assert tables["total"].schema.metadata[b"tidegate.namespace_encoding"] == b"int64"
    assert tables["plain"]["namespace"].to_pylist() == [None]
    assert tables["plain"].schema.metadata[b"tidegate.namespace_encoding"] == b"none"


def test_merging_namespaces_moves_everything_into_the_target(open_backend: Any) -> None:
    backend = open_backend()
    seen = backend.get_list_state(SEEN, namespaced=True)
    largest = backend.get_reducing_state(LARGEST, namespaced=True)
    distinct = backend.get_aggregating_state(DISTINCT, namespaced=True)
    for backend.current_key in ("a", "b"):
        for backend.current_namespace in (1, 2, 3):
            seen.add(f"{backend.current_key}{backend.current_namespace}")
            largest.add(10 - backend.current_namespace)
            distinct.add("same")
            distinct.add(str(backend.current_namespace))
        if backend.current_key == "a":
            backend.freeze().persist()
    backend.current_key, backend.current_namespace = "a", 9
    for state in (seen, largest, distinct):
        backend.merge_namespaces(state, 2, [1, 2, 3])
        backend.merge_namespaces(state, 4, [2, 5])
        assert backend.current_namespace == 9
    for key, namespace, contents in [
        ("a", 1, ([], None, None)),
        ("a", 2, ([], None, None)),
        ("a", 3, ([], None, None)),
        ("a", 4, (["a2", "a1", "a3"], 9, 4)),
        ("a", 5, ([], None, None)),
        ("b", 2, (["b2"], 8, 2)),
    ]:
        backend.current_key, backend.current_namespace = key, namespace
        assert (seen.get(), largest.get(), distinct.get()) == contents


def test_what_cannot_be_merged_says_so(open_backend: Any) -> None:
    class Count:
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: int, accumulator: int) -> int:
            return accumulator + 1

        def get_result(self, accumulator: int) -> int:
            return accumulator

    backend = open_backend()
    backend.current_key = 1
    plain = backend.get_list_state(SEEN)
    value = backend.get_value_state(TOTAL, namespaced=True)
    for state in (plain, value):
        with pytest.raises(StateError, match=r"running total.*declared with namespaces can be merged"):
            backend.merge_namespaces(state, 1, [2])
    count = backend.get_aggregating_state(AggregatingStateDescriptor("count", Count()), namespaced=True)
    for backend.current_namespace in (1, 2):
        count.add(1)
    with pytest.raises(StateError, match=r"Count of state 'count' has no method merge"):
        backend.merge_namespaces(count, 1, [2])


def test_a_namespaced_state_without_key_or_namespace_is_an_error(open_backend: Any) -> None:
    backend = open_backend()
    total = backend.get_value_state(TOTAL, namespaced=True)
    backend.current_namespace = (0, 10)
    with pytest.raises(StateError, match=r"running total.*'total'.*no key"):
        total.value()
    backend.current_key, backend.current_namespace = 1, None
    with pytest.raises(StateError, match=r"running total.*no namespace is set"):
        total.update(1)


def test_a_state_cannot_change_between_with_and_without_namespaces(open_backend: Any) -> None:
    backend = open_backend()
    total = backend.get_value_state(TOTAL, namespaced=True)
    with pytest.raises(StateError, match="already declared"):
        backend.get_value_state(TOTAL)
    backend.current_key = backend.current_namespace = 1
    total.update(1)
    restored = open_backend(attempt=1)
    restored.restore(backend.freeze().persist(), owned=True)
    with pytest.raises(StateMigrationError, match="namespaced: True"):
        restored.get_value_state(TOTAL)
