"""A time to live, of every kind of state and on every backend."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.state.ttl_config import StateTtlConfig

from .ttl_states import TTL_MS, builder, persist, value_of, with_ttl


class Concatenation:
    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: str, accumulator: list[str]) -> list[str]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[str]) -> str:
        return "".join(accumulator)

    def merge(self, first: list[str], second: list[str]) -> list[str]:
        return first + second


class OneOfEach:
    """A value of some kind per key: how to set it, and what is seen then."""

    def __init__(self, backend: Any, kind: str, config: StateTtlConfig.Builder) -> None:
        self.kind = kind
        if kind == "value":
            self.state = backend.get_value_state(with_ttl(ValueStateDescriptor(kind, Types.STRING()), config))
        elif kind == "pickled value":
            self.state = backend.get_value_state(with_ttl(ValueStateDescriptor(kind), config))
        elif kind == "list":
            self.state = backend.get_list_state(with_ttl(ListStateDescriptor(kind, Types.STRING()), config))
        elif kind == "pickled list":
            self.state = backend.get_list_state(with_ttl(ListStateDescriptor(kind), config))
        elif kind == "map":
            self.state = backend.get_map_state(
                with_ttl(MapStateDescriptor(kind, Types.LONG(), Types.STRING()), config)
            )
        elif kind == "reducing":
            self.state = backend.get_reducing_state(
                with_ttl(ReducingStateDescriptor(kind, str.__add__, Types.STRING()), config)
            )
        elif kind == "aggregating":
            self.state = backend.get_aggregating_state(
                with_ttl(AggregatingStateDescriptor(kind, Concatenation()), config)
            )
        else:
            with pytest.warns(DeprecationWarning, match="use AggregatingState"):
                folding = FoldingStateDescriptor(kind, "", str.__add__, Types.STRING())
            self.state = backend.get_folding_state(with_ttl(folding, config))

    def set(self, text: str) -> None:
        if "value" in self.kind:
            self.state.update(text)
        elif self.kind == "map":
            self.state.put(1, text)
        else:
            self.state.add(text)

    def get(self) -> Any:
        if "value" in self.kind:
            return self.state.value()
        if self.kind == "map":
            return self.state.get(1)
        if "list" in self.kind:
            return "".join(self.state.get()) or None
        return self.state.get()


KINDS = ["value", "pickled value", "list", "pickled list", "map", "reducing", "aggregating", "folding"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_written_again_is_gone_after_its_time(open_backend: Any, clock: Any, kind: str) -> None:
    backend = open_backend()
    state = OneOfEach(backend, kind, builder())
    for backend.current_key in range(8):
        state.set(f"a{backend.current_key}")
    persist(backend)
    clock.now_ms += TTL_MS // 2
    for backend.current_key in range(4):
        state.state.clear()
        state.set("b")
    clock.now_ms += TTL_MS - TTL_MS // 2 - 1
    for backend.current_key in range(8):
        assert state.get() == ("b" if backend.current_key < 4 else f"a{backend.current_key}")
    clock.now_ms += 1
    for backend.current_key in range(8):
        assert state.get() == ("b" if backend.current_key < 4 else None)
    clock.now_ms += TTL_MS
    for backend.current_key in range(8):
        assert state.get() is None
    for backend.current_key in range(8):
        state.set("c")
        assert state.get() == "c"


@pytest.mark.parametrize("kind", KINDS)
def test_reading_prolongs_life_only_where_asked_for(open_backend: Any, clock: Any, kind: str) -> None:
    backend = open_backend()
    states = {
        False: OneOfEach(backend, kind, builder()),
    }
    other = open_backend(attempt=1)
    states[True] = OneOfEach(other, kind, builder().update_ttl_on_read_and_write())
    for backend.current_key in range(8):
        other.current_key = backend.current_key
        for state in states.values():
            state.set("a")
    for _ in range(3):
        clock.now_ms += TTL_MS - 1
        for backend.current_key in range(8):
            other.current_key = backend.current_key
            assert states[True].get() == "a"
            states[False].get()
        persist(other)
    assert states[False].get() is None
    clock.now_ms += TTL_MS
    assert states[True].get() is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_value_may_be_returned_once_more(open_backend: Any, clock: Any, kind: str) -> None:
    backend = open_backend()
    state = OneOfEach(backend, kind, builder().return_expired_if_not_cleaned_up())
    backend.current_key = 1
    state.set("a")
    persist(backend)
    clock.now_ms += TTL_MS
    assert [state.get(), state.get()] == ["a", None]


@pytest.mark.parametrize("kind", KINDS)
def test_expiry_is_part_of_the_snapshot(open_backend: Any, clock: Any, kind: str) -> None:
    backend = open_backend()
    state = OneOfEach(backend, kind, builder())
    for backend.current_key in range(6):
        state.set(str(backend.current_key))
        clock.now_ms += 100
    handle = persist(backend)
    clock.now_ms += TTL_MS - 400  # keys 0, 1 and 2 were written 800 to 1000 ms before this
    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    state = OneOfEach(restored, kind, builder(ttl_ms=5))
    for restored.current_key in range(6):
        expected = None if restored.current_key < 3 else str(restored.current_key)
        assert state.get() == expected
    # Another length counts from the next write on.
    restored.current_key = 9
    state.set("new")
    clock.now_ms += 5
    assert state.get() is None
    restored.current_key = 5
    assert state.get() == "5"


@pytest.mark.parametrize("known", [True, False])
def test_an_element_of_a_list_expires_alone(open_backend: Any, clock: Any, known: bool) -> None:
    backend = open_backend()
    seen = backend.get_list_state(with_ttl(ListStateDescriptor("seen", Types.LONG() if known else None)))
    for number in range(5):
        for backend.current_key in range(4):
            seen.add(number)
        clock.now_ms += 300
        persist(backend)
    backend.current_key = 1
    assert seen.get() == [2, 3, 4]
    seen.add_all([5, None])
    handle = persist(backend)
    clock.now_ms += 300
    assert seen.get() == [3, 4, 5, None]
    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    seen = restored.get_list_state(with_ttl(ListStateDescriptor("seen", Types.LONG() if known else None)))
    restored.current_key = 1
    assert seen.get() == [3, 4, 5, None]
    restored.current_key = 2
    assert seen.get() == [3, 4]


def test_an_entry_of_a_map_expires_alone_and_may_be_none(open_backend: Any, clock: Any) -> None:
    backend = open_backend()
    by_name = backend.get_map_state(with_ttl(MapStateDescriptor("by name", Types.STRING())))
    for backend.current_key in range(4):
        by_name.put_all({"old": 1, "x" * 600: None, "later": 2})
    persist(backend)
    clock.now_ms += TTL_MS - 1
    for backend.current_key in range(4):
        by_name.put("later", None)
    clock.now_ms += 1
    for backend.current_key in range(4):
        assert by_name.contains("later")
        assert by_name.get("later") is None
        assert not by_name.contains("old")
        assert list(by_name.items()) == [("later", None)]
        assert list(by_name.sorted_items()) == [("later", None)]
        assert (list(by_name), by_name.is_empty()) == (["later"], False)
    clock.now_ms += TTL_MS
    for backend.current_key in range(4):
        assert by_name.is_empty()
        assert list(by_name.keys()) == []


def test_adding_to_an_accumulator_starts_its_life_anew(open_backend: Any, clock: Any) -> None:
    backend = open_backend()
    text = backend.get_aggregating_state(with_ttl(AggregatingStateDescriptor("text", Concatenation())))
    backend.current_key = 1
    for letter in "abc":
        text.add(letter)
        clock.now_ms += TTL_MS - 1
    assert text.get() == "abc"
    clock.now_ms += 1
    text.add("d")
    assert text.get() == "d"


def test_namespaces_expire_and_merge(open_backend: Any, clock: Any) -> None:
    backend = open_backend()
    text = backend.get_aggregating_state(
        with_ttl(AggregatingStateDescriptor("text", Concatenation())), namespaced=True
    )
    seen = backend.get_list_state(with_ttl(ListStateDescriptor("seen")), namespaced=True)
    backend.current_key = "k"
    for backend.current_namespace in (1, 2, 3):
        text.add(str(backend.current_namespace))
        seen.add(backend.current_namespace)
        clock.now_ms += 400
        persist(backend)
    for state in (text, seen):
        backend.merge_namespaces(state, 9, [1, 2, 3])
    backend.current_namespace = 9
    assert (text.get(), seen.get()) == ("23", [2, 3])
    clock.now_ms += 400
    assert (text.get(), seen.get()) == ("23", [3])


@pytest.mark.parametrize("start", [-TTL_MS, 0, 1_700_000_000_000])
def test_event_time_is_the_watermark_of_the_operator(open_backend: Any, clock: Any, start: int) -> None:
    backend = open_backend()
    value = backend.get_value_state(value_of(builder().use_event_time()))
    backend.current_key = 0
    value.update(0)
    clock.now_ms += 10 * TTL_MS
    assert value.value() == 0
    backend.current_watermark = start
    for backend.current_key in range(1, 6):
        value.update(backend.current_key)
    persist(backend)
    backend.current_watermark = start + TTL_MS - 1
    assert [value.value() for backend.current_key in range(6)] == [0, 1, 2, 3, 4, 5]
    # An expiry of zero, which stands for never, is put off by a millisecond.
    backend.current_watermark = start + TTL_MS + (start == -TTL_MS)
    # What was written before the first watermark waits for its next write.
    assert [value.value() for backend.current_key in range(6)] == [0, None, None, None, None, None]
    backend.current_key = 0
    value.update(7)
    backend.current_watermark += TTL_MS
    assert value.value() is None


def test_a_life_beyond_the_calendar_never_ends(open_backend: Any, clock: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(value_of(StateTtlConfig.new_builder(Time.milliseconds((1 << 63) - 1))))
    backend.current_key = 1
    value.update(1)
    persist(backend)
    clock.now_ms = 1 << 60
    assert value.value() == 1


def test_expiries_stand_in_their_column_of_the_segments(
    open_backend: Any, storage: MemoryCheckpointStorage, clock: Any
) -> None:
    backend = open_backend()
    value = backend.get_value_state(value_of())
    seen = backend.get_list_state(with_ttl(ListStateDescriptor("seen", Types.LONG())))
    backend.current_key = 1
    value.update(5)
    seen.add(6)
    clock.now_ms += 1
    seen.add(7)
    tables = {
        segment.state_name: pq.read_table(io.BytesIO(storage.read_file(segment.file)))
        for segment in persist(backend).segments
    }
    epoch = datetime(1970, 1, 1)
    written = epoch + timedelta(milliseconds=clock.now_ms - 1 + TTL_MS)
    assert tables["value"].select(["value", "expiry"]).to_pylist() == [{"value": 5, "expiry": written}]
    assert tables["seen"].select(["value", "expiry"]).to_pylist() == [
        {"value": [6, 7], "expiry": [written, written + timedelta(milliseconds=1)]}
    ]
    assert tables["value"].schema.metadata[b"tidegate.ttl"] == b"processing-time"


def live_rows(storage: MemoryCheckpointStorage, handle: Any) -> set[int]:
    """The keys of all rows in all segments that are not marked as removed."""
    keys = set()
    for segment in handle.segments:
        for row in pq.read_table(io.BytesIO(storage.read_file(segment.file))).to_pylist():
            if not row["deleted"]:
                keys.add(row["key"])
    return keys


@pytest.mark.parametrize("is_wanted", [True, False])
def test_full_snapshots_leave_out_what_is_expired(
    open_backend: Any, storage: MemoryCheckpointStorage, clock: Any, is_wanted: bool
) -> None:
    config = builder().cleanup_full_snapshot() if is_wanted else builder()
    backend = open_backend()
    value = backend.get_value_state(value_of(config))
    for backend.current_key in range(10):
        value.update(1)
        clock.now_ms += 100
    handle = persist(backend)
    # The first snapshot of another job is a base of its own.
    restored = open_backend(attempt=1, file_prefix="new-job")
    restored.restore(handle, owned=False)
    restored.get_value_state(value_of(config))
    assert live_rows(storage, persist(restored)) == set(range(1 if is_wanted else 0, 10))


def test_full_snapshots_go_by_the_watermark_of_their_freeze(
    open_backend: Any, storage: MemoryCheckpointStorage
) -> None:
    backend = open_backend()
    descriptor = value_of(StateTtlConfig.new_builder(Time.seconds(1)).use_event_time())
    value = backend.get_value_state(descriptor)
    for backend.current_key, backend.current_watermark in ((0, None), (1, 1000), (2, 2000), (3, 3000)):
        value.update(1)
    handle = persist(backend)
    restored = open_backend(attempt=1, file_prefix="new-job")
    restored.restore(handle, owned=False)
    value = restored.get_value_state(descriptor)
    restored.current_watermark = 2000
    frozen = restored.freeze()
    restored.current_watermark = 4000
    assert live_rows(storage, frozen.persist()) == {0, 2, 3}


@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize("for_every_record", [True, False])
def test_incremental_clean_up_removes_what_nobody_reads(
    open_backend: Any, clock: Any, storage: MemoryCheckpointStorage, kind: str, for_every_record: bool
) -> None:
    backend = open_backend()
    state = OneOfEach(backend, kind, builder().cleanup_incrementally(3, for_every_record))
    # So many that the second checkpoint stores only what changed.
    for backend.current_key in range(300):
        state.set("a")
    persist(backend)
    clock.now_ms += TTL_MS
    backend.current_key = 1000
    for _ in range(150):
        if for_every_record:
            backend.current_key = None
            backend.records_processed(1)
        else:
            state.get()
    removed = {}
    for segment in persist(backend).segments:
        for row in pq.read_table(io.BytesIO(storage.read_file(segment.file))).to_pylist():
            removed[row["key"]] = row["deleted"]
    assert removed == dict.fromkeys(range(300), True)


@pytest.mark.parametrize("kind", KINDS)
def test_incremental_clean_up_spares_what_was_written_again(open_backend: Any, clock: Any, kind: str) -> None:
    backend = open_backend()
    config = builder().cleanup_incrementally(3, True).return_expired_if_not_cleaned_up()
    state = OneOfEach(backend, kind, config)
    for backend.current_key in range(20):
        state.set("old")
    persist(backend)
    clock.now_ms += TTL_MS
    for backend.current_key in range(10):
        state.state.clear()
        state.set("new")
    for _ in range(2):
        backend.records_processed(20)
    for backend.current_key in reversed(range(20)):
        assert state.get() == ("new" if backend.current_key < 10 else None)


def test_incremental_clean_up_takes_expired_elements_out_of_lists(open_backend: Any, clock: Any) -> None:
    backend = open_backend()
    config = builder().cleanup_incrementally(3, True).return_expired_if_not_cleaned_up()
    seen = backend.get_list_state(with_ttl(ListStateDescriptor("seen", Types.LONG()), config))
    for backend.current_key in range(8):
        seen.add(0)
    clock.now_ms += TTL_MS
    for backend.current_key in range(8):
        seen.add(1)
    for _ in range(2):
        backend.records_processed(20)
    for backend.current_key in range(8):
        assert seen.get() == [1]
