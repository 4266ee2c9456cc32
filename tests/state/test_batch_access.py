"""Many keys at once: `get_many` and `put_many` mean exactly what `value` and `update` mean one by one."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common.errors import KeyTypeError, StateError
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.ttl_config import StateTtlConfig

PAIR = ValueStateDescriptor("pair", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
KEYS = [1, 2, 3, "four", (5, "six")]
VALUES = [(number, number / 2) for number in range(5)]


def one_by_one(backend: Any, state: Any, keys: list[Any]) -> list[Any]:
    values = []
    for backend.current_key in keys:
        values.append(state.value())
    backend.current_key = None
    return values


def test_what_is_put_is_read_at_once_and_after_a_restore(open_backend: Any) -> None:
    backend = open_backend()
    state = backend.get_value_state(PAIR)
    state.put_many(KEYS, VALUES)
    assert state.get_many([*KEYS, 99]) == [*VALUES, None]
    assert one_by_one(backend, state, KEYS) == VALUES
    handle = backend.freeze().persist()
    state.put_many(KEYS[:1], [(7, 7.0)])
    again = open_backend(attempt=1)
    again.restore(handle, True)
    assert again.get_value_state(PAIR).get_many(KEYS) == VALUES


def test_reads_reach_behind_the_cache(open_backend: Any) -> None:
    backend = open_backend()
    state = backend.get_value_state(PAIR)
    keys = list(range(3_000))
    for start in range(0, 3_000, 500):
        part = keys[start : start + 500]
        state.put_many(part, [(key, 0.5) for key in part])
        if backend.needs_spill:
            backend.spill().persist()
    backend.freeze().persist()
    assert backend.needs_spill in (False, True)
    assert state.get_many(keys) == [(key, 0.5) for key in keys]


def test_none_clears_and_mixes_with_values(open_backend: Any) -> None:
    backend = open_backend()
    state = backend.get_value_state(PAIR)
    state.put_many(KEYS, VALUES)
    state.put_many(KEYS[:2], [None, (9, 9.0)])
    assert state.get_many(KEYS[:3]) == [None, (9, 9.0), VALUES[2]]


def test_a_default_is_given_where_nothing_is_stored(open_backend: Any) -> None:
    state = open_backend().get_value_state(ValueStateDescriptor("seen", default_value=[]))
    first, second = state.get_many([1, 2])
    assert first == second == []
    assert first is not second


def test_values_that_are_read_are_private_after_a_freeze(open_backend: Any) -> None:
    backend = open_backend()
    state = backend.get_value_state(ValueStateDescriptor("seen"))
    state.put_many([1], [["a"]])
    frozen = backend.freeze()
    state.get_many([1])[0].append("b")
    handle = frozen.persist()
    again = open_backend(attempt=1)
    again.restore(handle, True)
    assert again.get_value_state(ValueStateDescriptor("seen")).get_many([1]) == [["a"]]


def test_namespaces_are_kept_apart(open_backend: Any) -> None:
    backend = open_backend()
    state = backend.get_value_state(PAIR, namespaced=True)
    backend.current_namespace = (0, 10)
    state.put_many(KEYS, VALUES)
    backend.current_namespace = (10, 20)
    assert state.get_many(KEYS) == [None] * len(KEYS)
    backend.current_namespace = None
    with pytest.raises(StateError, match="no namespace is set"):
        state.get_many(KEYS)


def test_a_time_to_live_holds_for_each_key(open_backend: Any, clock: Any) -> None:
    descriptor = ValueStateDescriptor("short", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
    state = open_backend().get_value_state(descriptor)
    state.put_many([1], [1])
    clock.now_ms += 6
    state.put_many([2], [2])
    clock.now_ms += 6
    assert state.get_many([1, 2]) == [None, 2]


def test_keys_of_other_subtasks_are_refused(open_backend: Any) -> None:
    state = open_backend(subtask_index=0, parallelism=2).get_value_state(PAIR)
    foreign = next(key for key in range(1_000) if key_group_of(key, 128) >= 64)
    with pytest.raises(StateError, match=f"key {foreign} belongs to another subtask"):
        state.put_many([foreign], [(1, 1.0)])
    assert state.get_many([foreign]) == [None]


def test_what_cannot_be_a_key_or_has_no_value_is_refused(open_backend: Any) -> None:
    state = open_backend().get_value_state(PAIR)
    with pytest.raises(KeyTypeError):
        state.put_many([1.5], [(1, 1.0)])
    with pytest.raises(StateError, match="2 keys and 1 values"):
        state.put_many([1, 2], [(1, 1.0)])
