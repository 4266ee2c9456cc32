"""Savepoints hold no expired state: of every kind, on every backend, in both formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.common.time import Time
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import SavepointFormatType, SavepointTarget
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state.snapshots.savepoint_writer import SavepointWriter
from tidegate.state.snapshots.segments import read_segment
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, open_storage
from tidegate.state.ttl_config import StateTtlConfig

TTL_MS = 1000
ALL = KeyGroupRange(0, 127)


def expiring(descriptor: Any, event_time: bool = False) -> Any:
    # No clean-up of its own removes anything: the savepoint must.
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).disable_cleanup_in_background()
    builder = builder.return_expired_if_not_cleaned_up()
    descriptor.enable_time_to_live((builder.use_event_time() if event_time else builder).build())
    return descriptor


@pytest.fixture(params=list(SavepointFormatType), ids=lambda each: each.name.lower())
def format_type(request: pytest.FixtureRequest) -> SavepointFormatType:
    kind: SavepointFormatType = request.param
    return kind


class Savepoint:
    """A savepoint of a backend, and the stored rows of its states."""

    def __init__(self, backend: Any, source: CheckpointStorage, directory: Path, kind: SavepointFormatType):
        frozen = backend.freeze()
        keyed = frozen.persist()
        target = SavepointTarget(str(directory), kind, inline_threshold_bytes=0)
        writer = SavepointWriter(target, source)
        snapshot = OperatorSnapshot(keyed)
        self.keyed = writer.write(snapshot, "uid", 0, ALL, frozen.expiration).keyed
        self.storage = open_storage(str(directory))

    def rows(self, name: str) -> list[Any]:
        """Every stored row that is not a tombstone, whether a later one replaces it or not."""
        tables = [
            read_segment(self.storage.read_file(segment.file), segment.file.path, segment.key_groups)[0]
            for segment in self.keyed.segments
            if segment.state_name == name
        ]
        live = [row for table in tables for row in table.to_pylist() if not row["deleted"]]
        assert sum(s.entry_count for s in self.keyed.segments if s.state_name == name) == sum(
            map(len, tables)
        )
        return live


def put(backend: Any, state: Any, keys: range, base: int = 0) -> None:
    for key in keys:
        backend.current_key = key
        state.update(base + key)


def test_expired_values_are_left_out(
    open_backend: Any, clock: Any, storage: CheckpointStorage, tmp_path: Path, format_type: Any
) -> None:
    backend = open_backend(key_type=Types.LONG())
    state = backend.get_value_state(expiring(ValueStateDescriptor("value", Types.LONG())))
    put(backend, state, range(500))
    backend.freeze().persist()
    clock.now_ms += TTL_MS
    put(backend, state, range(500, 520))
    backend.freeze().persist()
    savepoint = Savepoint(backend, storage, tmp_path, format_type)
    assert sorted(row["key"] for row in savepoint.rows("value")) == list(range(500, 520))


def test_an_expired_change_does_not_bring_back_the_older_value(
    open_backend: Any, clock: Any, storage: CheckpointStorage, tmp_path: Path, format_type: Any
) -> None:
    backend = open_backend(key_type=Types.LONG())
    state = backend.get_value_state(expiring(ValueStateDescriptor("value", Types.LONG()), event_time=True))
    # Before the first watermark nothing gets an expiry.
    put(backend, state, range(300))
    backend.freeze().persist()
    backend.current_watermark = 5_000
    put(backend, state, range(10), base=1_000)
    backend.freeze().persist()
    backend.current_watermark = 5_000 + TTL_MS
    savepoint = Savepoint(backend, storage, tmp_path, format_type)
    restored = open_backend(key_type=Types.LONG(), storage=savepoint.storage, attempt=1)
    restored.restore(savepoint.keyed, owned=False)
    again = restored.get_value_state(expiring(ValueStateDescriptor("value", Types.LONG()), event_time=True))
    seen = {}
    for key in range(300):
        restored.current_key = key
        seen[key] = again.value()
    assert {key for key, value in seen.items() if value is None} == set(range(10))


@pytest.mark.parametrize("element", [Types.LONG(), Types.STRING(), None], ids=["long", "string", "pickled"])
def test_lists_lose_their_expired_elements(
    open_backend: Any,
    clock: Any,
    storage: CheckpointStorage,
    tmp_path: Path,
    format_type: Any,
    element: TypeInformation | None,
) -> None:
    backend = open_backend(key_type=Types.LONG())
    state = backend.get_list_state(expiring(ListStateDescriptor("list", element)))
    text = element == Types.STRING()

    def value(number: int) -> Any:
        return f"{number}" if text else number

    def add(keys: range, number: int) -> None:
        for key in keys:
            backend.current_key = key
            state.add(value(number))

    add(range(20), 1)
    clock.now_ms += TTL_MS // 2
    add(range(10), 2)
    # Neither fits the typed column: the list is encoded as a whole.
    odd = 2**70 if not text else "\ud800"
    backend.current_key = 0
    state.add(odd)
    backend.freeze().persist()
    clock.now_ms += TTL_MS // 2
    add(range(5), 3)
    savepoint = Savepoint(backend, storage, tmp_path, format_type)
    assert {row["key"] for row in savepoint.rows("list")} <= set(range(10))
    assert all(len(row["expiry"]) in (1, 2, 3) for row in savepoint.rows("list"))

    restored = open_backend(key_type=Types.LONG(), storage=savepoint.storage, attempt=1)
    restored.restore(savepoint.keyed, owned=False)
    again = restored.get_list_state(expiring(ListStateDescriptor("list", element)))
    seen: dict[int, Any] = {}
    # An expired element that the savepoint held would now be seen.
    clock.now_ms -= TTL_MS
    for key in range(20):
        restored.current_key = key
        seen[key] = list(again.get() or [])
    assert seen[0] == [value(2), odd if text else 2**70, value(3)]
    assert seen[1] == [value(2), value(3)]
    assert seen[7] == [value(2)]
    assert seen[15] == []


def test_maps_lose_their_expired_entries(
    open_backend: Any, clock: Any, storage: CheckpointStorage, tmp_path: Path, format_type: Any
) -> None:
    backend = open_backend(key_type=Types.LONG())
    state = backend.get_map_state(expiring(MapStateDescriptor("map", Types.STRING(), Types.LONG())))
    for key in range(20):
        backend.current_key = key
        state.put("old", key)
    clock.now_ms += TTL_MS
    for key in range(5):
        backend.current_key = key
        state.put("new", key)
    savepoint = Savepoint(backend, storage, tmp_path, format_type)
    assert sorted((row["key"], row["map_key"]) for row in savepoint.rows("map")) == [
        (key, "new") for key in range(5)
    ]


def test_state_that_the_job_does_not_declare_expires_too(
    open_backend: Any, clock: Any, storage: CheckpointStorage, tmp_path: Path, format_type: Any
) -> None:
    first = open_backend(key_type=Types.LONG())
    put(first, first.get_value_state(expiring(ValueStateDescriptor("value", Types.LONG()))), range(20))
    handle = first.freeze().persist()
    clock.now_ms += TTL_MS
    second = open_backend(key_type=Types.LONG(), attempt=1)
    second.restore(handle, owned=True)
    savepoint = Savepoint(second, storage, tmp_path, format_type)
    assert savepoint.rows("value") == []


def test_state_without_a_time_to_live_is_copied_as_it_is(
    open_backend: Any, clock: Any, storage: CheckpointStorage, tmp_path: Path, format_type: Any
) -> None:
    backend = open_backend(key_type=Types.LONG())
    put(backend, backend.get_value_state(ValueStateDescriptor("value", Types.LONG())), range(20))
    clock.now_ms += 10**9
    savepoint = Savepoint(backend, storage, tmp_path, format_type)
    assert sorted(row["value"] for row in savepoint.rows("value")) == list(range(20))
