"""States under test and what they should hold: plain dicts with an expiry beside each value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.ttl_config import StateTtlConfig

TTL_MS = 100


class Log:
    """An accumulator that is changed in place, and a result of another type."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        return first + second


def expiring(descriptor: Any, choose: Callable[[StateTtlConfig.Builder], Any]) -> Any:
    """A descriptor with a time to live."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS))
    choose(builder)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


@dataclass(frozen=True)
class Slot:
    """One state."""

    descriptor: StateDescriptor
    is_namespaced: bool = False
    is_merged: bool = False
    refreshes: bool = False
    is_event_time: bool = False

    @property
    def name(self) -> str:
        return self.descriptor.get_name()

    @property
    def kind(self) -> str:
        return self.descriptor.kind

    def declare(self, backend: Any) -> Any:
        return getattr(backend, f"get_{self.kind}_state")(self.descriptor, self.is_namespaced)


PLAIN = [
    Slot(ValueStateDescriptor("total", Types.LONG())),
    Slot(ValueStateDescriptor("box")),
    Slot(ListStateDescriptor("items", Types.LONG())),
    Slot(MapStateDescriptor("entries")),
    Slot(AggregatingStateDescriptor("windows", Log()), is_namespaced=True, is_merged=True),
    Slot(MapStateDescriptor("timers", None, Types.LONG()), is_namespaced=True),
]
EXPIRING = [
    Slot(
        expiring(ValueStateDescriptor("seen", Types.LONG()), lambda b: b.update_ttl_on_read_and_write()),
        refreshes=True,
    ),
    Slot(
        expiring(ListStateDescriptor("recent", Types.LONG()), lambda b: b.cleanup_incrementally(2, True)),
        is_namespaced=True,
        is_merged=True,
    ),
    Slot(
        expiring(
            ListStateDescriptor("renewed"),
            lambda b: b.update_ttl_on_read_and_write().disable_cleanup_in_background(),
        ),
        refreshes=True,
    ),
    Slot(
        expiring(MapStateDescriptor("sessions"), lambda b: b.use_event_time()),
        is_event_time=True,
    ),
    Slot(
        expiring(ReducingStateDescriptor("largest", max, Types.LONG()), lambda b: b.cleanup_full_snapshot()),
        is_namespaced=True,
        is_merged=True,
    ),
]


@dataclass
class Contents:
    """What the states should hold, by state and (key, namespace)."""

    now_ms: int = 1_000
    watermark: int | None = None
    held: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def clock(self, slot: Slot) -> int | None:
        return self.watermark if slot.is_event_time else self.now_ms

    def expiry(self, slot: Slot) -> float:
        now = self.clock(slot)
        return float("inf") if slot.descriptor.ttl_config is None or now is None else now + TTL_MS

    def entries(self, slot: Slot, address: Any) -> list[tuple[float, Any]]:
        """The live (expiry, value) pairs of a key; those of a map have (map key, value) for value."""
        now = self.clock(slot)
        pairs = self.held.get(slot.name, {}).get(address, [])
        return [pair for pair in pairs if now is None or pair[0] > now]

    def store(self, slot: Slot, address: Any, pairs: list[tuple[float, Any]]) -> None:
        self.held.setdefault(slot.name, {})[address] = pairs

    def seen(self, slot: Slot, address: Any) -> list[Any]:
        """The live values of a key, which is thereby read."""
        pairs = self.entries(slot, address)
        if slot.refreshes:
            pairs = [(self.expiry(slot), value) for _, value in pairs]
            self.store(slot, address, pairs)
        return [value for _, value in pairs]

    def addresses(self, slot: Slot) -> list[Any]:
        return list(self.held.get(slot.name, {}))

    def write(self, slot: Slot, address: Any, map_key: Any, number: int) -> None:
        pairs, expiry = self.entries(slot, address), self.expiry(slot)
        values = [value for _, value in pairs]
        if slot.name == "box":
            self.store(slot, address, [(expiry, {"log": [*(values[0]["log"] if values else ()), number]})])
        elif slot.kind == "value":
            self.store(slot, address, [(expiry, number)])
        elif slot.kind == "list":
            self.store(slot, address, [*pairs, (expiry, number)])
        elif slot.kind == "reducing":
            self.store(slot, address, [(expiry, max([*values, number]))])
        elif slot.kind == "aggregating":
            self.store(slot, address, [(expiry, (*(values[0] if values else ()), number))])
        else:
            rest = [pair for pair in pairs if pair[1][0] != map_key]
            before = dict(values).get(map_key)
            value = number if slot.name == "timers" else [*(before or ()), number]
            self.store(slot, address, [*rest, (expiry, (map_key, value))])

    def merge(self, slot: Slot, key: Any, target: Any, sources: list[Any]) -> None:
        for source in sources:
            if source == target:
                continue
            taken = self.entries(slot, (key, source))
            self.store(slot, (key, source), [])
            before = self.entries(slot, (key, target))
            if slot.kind == "list":
                self.store(slot, (key, target), before + taken)
            elif taken and before:
                first, second = before[0][1], taken[0][1]
                merged = max(first, second) if slot.kind == "reducing" else first + second
                self.store(slot, (key, target), [(self.expiry(slot), merged)])
            elif taken:
                self.store(slot, (key, target), [(self.expiry(slot), taken[0][1])])


def write(slot: Slot, state: Any, map_key: Any, number: int) -> None:
    """The same change to the state itself; values are changed in place where they can be."""
    if slot.name == "box":
        box = state.value() or {"log": []}
        box["log"].append(number)
        state.update(box)
    elif slot.kind == "value":
        state.update(number)
    elif slot.name == "timers":
        state.put(map_key, number)
    elif slot.kind == "map":
        value = state.get(map_key) or []
        value.append(number)
        state.put(map_key, value)
    else:
        state.add(number)


def assert_shows(slot: Slot, state: Any, expected: list[Any]) -> None:
    """A state, whose key is set, shows what is expected."""
    if slot.kind == "value":
        assert state.value() == (expected[0] if expected else None)
    elif slot.kind == "list":
        assert state.get() == expected
    elif slot.kind != "map":
        assert state.get() == (expected[0] if expected else None)
    else:
        contents = dict(expected)
        assert sorted(state.items(), key=repr) == sorted(contents.items(), key=repr)
        assert set(state.keys()) == set(contents)
        assert state.is_empty() == (not contents)
        assert dict(state.sorted_items()) == contents
