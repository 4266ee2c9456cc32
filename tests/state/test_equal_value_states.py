"""The three kinds of value state give the same: over any table, and the two that write to it directly."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.common.typeinfo import Types
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.keyed.keyed_states import DirectValueState, ImmutableValueState, TableValueState
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

KEYS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.none() | st.integers(-2, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("value"), KEYS),
        st.tuples(st.just("update"), KEYS, NUMBERS),
        st.tuples(st.just("clear"), KEYS),
        st.tuples(st.just("get_many"), st.lists(KEYS, max_size=3)),
        st.tuples(st.just("put_many"), st.dictionaries(KEYS, NUMBERS, max_size=3)),
        st.tuples(st.just("freeze")),
        st.tuples(st.just("persist")),
        st.tuples(st.just("spill")),
    ),
    max_size=25,
)
# With these, LMDB has values that are in no buffer.
SPILLED = [("put_many", {"a": 1, "b": 2, "c": 2}), ("spill",), ("update", "b", 0), ("spill",)]
STEPS = st.tuples(st.sampled_from([[], SPILLED]), STEPS).map(lambda parts: [*parts[0], *parts[1]])
LMDB = LmdbStateBackend(memory_size_bytes=1, initial_map_size_bytes=1 << 16)


class Subject:
    """A backend with one state, whose handle is of a given kind; remembers what each snapshot held."""

    def __init__(
        self,
        config: StateBackend,
        kind: type[TableValueState],
        descriptor: ValueStateDescriptor,
        stores: bool,
        directory: str,
    ) -> None:
        self._config, self._descriptor, self._directory = config, descriptor, directory
        self.storage = MemoryCheckpointStorage() if stores else None
        self.backend = self._backend()
        state = self.backend.get_value_state(descriptor)
        assert isinstance(state, TableValueState)
        self.state = kind(state._context, state._table, descriptor)  # type: ignore[arg-type]
        self._frozen: list[Any] = []

    def _parameters(self, attempt: int, directory: str) -> KeyedStateBackendParameters:
        groups = KeyGroupRange(0, 127)
        return KeyedStateBackendParameters(
            "uid", "op", 0, attempt, 128, groups, Types.STRING(), directory, self.storage, f"p{attempt}"
        )

    def _backend(self) -> KeyedStateBackend:
        return self._config.create_keyed_backend(self._parameters(1, self._directory))

    def take(self, step: tuple[Any, ...]) -> Any:
        """Perform a step; what it gives."""
        name, *arguments = step
        self.backend.records_processed(1)
        if name in ("value", "update", "clear"):
            key, *rest = arguments
            self.backend.current_key = key
            return getattr(self.state, name)(*map(self.made, rest))
        if name == "get_many":
            return self.state.get_many(*arguments)
        if name == "put_many":
            (pairs,) = arguments
            return self.state.put_many(list(pairs), [self.made(number) for number in pairs.values()])
        if self.storage is None:
            return None
        if name == "spill":
            if not self._frozen and self.backend.needs_spill:
                self.backend.spill().persist()
            return None
        if name == "freeze":
            return self._frozen.append(self.backend.freeze())
        if not self._frozen:
            return None
        handle = self._frozen.pop(0).persist()
        restored = HashMapStateBackend().create_keyed_backend(self._parameters(2, "/nonexistent"))
        restored.restore(handle, False)
        return restored.get_value_state(self._descriptor).get_many(["a", "b", "c"])

    def made(self, number: int | None) -> Any:
        return number


class OfLists(Subject):
    """Its values are lists, which are changed in place after they were read or written."""

    def made(self, number: int | None) -> Any:
        return None if number is None else [number]

    def take(self, step: tuple[Any, ...]) -> Any:
        given = super().take(step)
        seen = repr(given)
        if step[0] == "value" and given is not None:
            given.append(len(given))
        return seen


@pytest.mark.parametrize("stores", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("default", [None, 7])
@pytest.mark.parametrize("config", [HashMapStateBackend(), LMDB], ids=["hashmap", "lmdb"])
@settings(max_examples=30)
@given(steps=STEPS)
def test_states_of_immutable_values_give_the_same(
    config: StateBackend, default: int | None, stores: bool, steps: list[tuple[Any, ...]]
) -> None:
    descriptor = ValueStateDescriptor("total", Types.LONG(), default)
    with tempfile.TemporaryDirectory() as directory:
        subjects = [
            Subject(config, kind, descriptor, stores, str(Path(directory, kind.__name__)))
            for kind in (TableValueState, DirectValueState, ImmutableValueState)
        ]
        for step in [*steps, ("freeze",), ("persist",), ("get_many", ["a", "b", "c"])]:
            expected, *found = [subject.take(step) for subject in subjects]
            assert found == [expected, expected], step
        for subject in subjects:
            subject.backend.close()


@pytest.mark.parametrize("stores", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("config", [HashMapStateBackend(), LMDB], ids=["hashmap", "lmdb"])
@settings(max_examples=30)
@given(steps=STEPS)
def test_states_of_values_that_are_changed_in_place_give_the_same(
    config: StateBackend, stores: bool, steps: list[tuple[Any, ...]]
) -> None:
    descriptor = ValueStateDescriptor("box")
    with tempfile.TemporaryDirectory() as directory:
        subjects = [
            OfLists(config, kind, descriptor, stores, str(Path(directory, kind.__name__)))
            for kind in (TableValueState, DirectValueState)
        ]
        for step in [*steps, ("freeze",), ("persist",), ("get_many", ["a", "b", "c"])]:
            expected, found = [subject.take(step) for subject in subjects]
            assert found == expected, step
        for subject in subjects:
            subject.backend.close()
