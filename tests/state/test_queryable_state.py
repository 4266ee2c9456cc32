"""A backend can be asked for one key from outside, and nothing changes by it."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common import Time, Types
from tidegate.common.errors import KeyTypeError, StateError
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state.ttl_config import StateTtlConfig

from .checkpoints import Job


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def job(clock: Any = Clock()) -> Any:  # noqa: B008 (never changed)
    return Job("memory://peek", parallelism=1, now_ms=clock)


def test_a_look_refreshes_no_time_to_live_and_shows_nothing_expired() -> None:
    clock = Clock()
    (backend,) = job(clock).backends
    builder = StateTtlConfig.new_builder(Time.milliseconds(100))
    config = builder.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build()
    descriptors: list[Any] = [
        ValueStateDescriptor("v", Types.LONG()),
        ListStateDescriptor("l", Types.LONG()),
        MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    ]
    for descriptor in descriptors:
        descriptor.enable_time_to_live(config)
    value, elements, entries = descriptors
    backend.current_key = "key"
    backend.get_value_state(value).update(1)
    backend.get_list_state(elements).add(1)
    backend.get_map_state(entries).put("a", 1)
    clock.now_ms += 60
    backend.get_list_state(elements).add(2)
    assert [backend.query(name, "key") for name in "vlm"] == [1, [1, 2], {"a": 1}]
    clock.now_ms += 60
    assert [backend.query(name, "key") for name in "vm"] == [None, None]
    assert backend.query("l", "other") is None
    clock.now_ms += 1_000
    assert backend.query("l", "key") is None


def test_a_look_leaves_the_current_key_and_namespace_alone() -> None:
    (backend,) = job().backends
    state = backend.get_value_state(ValueStateDescriptor("v", Types.LONG()), namespaced=True)
    backend.current_key, backend.current_namespace = "one", 10
    state.update(1)
    backend.current_key, backend.current_namespace = "two", 20
    assert backend.query("v", "one", 10) == 1
    assert backend.query("v", "one", 20) is None
    assert (backend.current_key, backend.current_namespace) == ("two", 20)
    with pytest.raises(StateError, match="state 'v' has namespaces"):
        backend.query("v", "one")
    with pytest.raises(StateError, match="there is no keyed state 'x'; there is: 'v'"):
        backend.query("x", "one")
    with pytest.raises(KeyTypeError):
        backend.query("v", 0.5, 10)
