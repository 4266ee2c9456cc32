"""The files of keyed state: open to other tools, and compacted in the background."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import SegmentHandle
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.snapshots.segments import read_segment
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

NUMBER = ValueStateDescriptor("a number", Types.LONG())


class Bomb:
    """Shows that something was unpickled."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise AssertionError("unpickled")


def memory_backend(storage: CheckpointStorage, attempt: int = 0) -> KeyedStateBackend:
    params = KeyedStateBackendParameters(
        "uid-1", "counter", 0, attempt, 128, KeyGroupRange(0, 127), Types.LONG(), "", storage, "keyed"
    )
    return HashMapStateBackend().create_keyed_backend(params)


def test_integers_of_a_segment_are_stored_as_differences() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    kind = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    pair = backend.get_value_state(ValueStateDescriptor("pair", kind))
    for key in range(3_000):
        backend.current_key = key
        pair.update((1 << 40, 0.5))
    (segment,) = backend.freeze().persist().segments
    data = storage.read_file(segment.file)
    columns = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    encodings = {
        columns.column(at).path_in_schema: columns.column(at).encodings for at in range(columns.num_columns)
    }
    delta = {path for path, used in encodings.items() if "DELTA_BINARY_PACKED" in used}
    assert delta == {"key", "value.f0"}
    assert pq.read_table(io.BytesIO(data))["value"].to_pylist() == [{"f0": 1 << 40, "f1": 0.5}] * 3_000
    backend.close()


def test_a_segment_is_a_parquet_file_with_documented_columns() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    number = backend.get_value_state(NUMBER)
    entries = backend.get_map_state(MapStateDescriptor("entries", Types.STRING()))
    # So many that the second checkpoint stores only what changed.
    for key in range(300):
        backend.current_key = key
        number.update(key * 10)
    for key in (3, 4):
        backend.current_key = key
        entries.put("m", Bomb())
    backend.freeze().persist()
    backend.current_key = 4
    number.clear()
    handle = backend.freeze().persist()
    tables = [pq.read_table(io.BytesIO(storage.read_file(segment.file))) for segment in handle.segments]
    first, change, bombs = (
        sorted(tables, key=lambda table: (len(table), table.schema.names), reverse=True)[:1]
        + [table for table in tables if len(table) == 1]
        + [table for table in tables if b"map" in table.schema.metadata[b"tidegate.kind"]]
    )
    assert first.column_names == [
        "operator_uid",
        "state_name",
        "key_group",
        "key",
        "namespace",
        "map_key",
        "value",
        "value_encoded",
        "expiry",
        "deleted",
    ]
    rows = sorted(first.to_pylist(), key=lambda row: row["key"])[3:5]
    assert [(row["key"], row["value"], row["deleted"]) for row in rows] == [(3, 30, False), (4, 40, False)]
    assert {row["operator_uid"] for row in rows} == {"uid-1"}
    assert {row["state_name"] for row in rows} == {"a number"}
    assert [row["key_group"] for row in rows] == [key_group_of(3, 128), key_group_of(4, 128)]
    assert [(row["key"], row["value"], row["deleted"]) for row in change.to_pylist()] == [(4, None, True)]
    metadata = change.schema.metadata
    assert metadata[b"tidegate.format_version"] == b"2"
    assert metadata[b"tidegate.kind"] == b"value"
    assert metadata[b"tidegate.value_type"] == b"LONG"
    assert metadata[b"tidegate.key_type"] == b"LONG"
    # Pickled values stand marked as such, and were read above without being unpickled.
    assert bombs.schema.metadata[b"tidegate.value_encoding"] == b"pickle"
    assert bombs["map_key"].to_pylist() == ["m", "m"]


def test_increments_with_more_than_twice_the_entries_of_the_base_become_a_new_base() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    number = backend.get_value_state(NUMBER)
    segments = []
    # Few enough that the snapshot itself merges them, and no thread in the background.
    for round_number in range(6):
        for key in range(round_number * 1000, round_number * 1000 + 60_000):
            backend.current_key = key
            if (key + round_number) % 10:
                number.update(round_number)
            else:
                number.clear()
        segments.append(len(backend.freeze().persist().segments))
    # The second base has only the 56,700 entries that are left.
    assert segments == [1, 2, 3, 1, 2, 1]
    handle = backend.freeze().persist()
    assert handle.segments[0].is_base
    restored = memory_backend(storage, attempt=1)
    restored.restore(handle, owned=True)
    again = restored.get_value_state(NUMBER)
    for key in range(0, 66_000, 7):
        backend.current_key = restored.current_key = key
        assert again.value() == number.value()
    backend.close()
    restored.close()


def test_a_large_merge_runs_in_the_background_and_loses_nothing_written_meanwhile() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    number = backend.get_value_state(NUMBER)
    for round_number in range(4):
        for key in range(100_000):
            backend.current_key = key
            number.update(round_number)
        handle = backend.freeze().persist()
    assert len(handle.segments) == 4  # the merge of these has only just begun
    deadline = time.monotonic() + 30
    changed = 0
    while len(handle.segments) >= 4 + changed:
        assert time.monotonic() < deadline
        backend.current_key = changed
        number.update(-changed)
        changed += 1
        handle = backend.freeze().persist()
    assert handle.segments[0].entry_count == 100_000
    restored = memory_backend(storage, attempt=1)
    restored.restore(handle, owned=True)
    again = restored.get_value_state(NUMBER)
    for key in [*range(changed), *range(changed, 100_000, 97)]:
        restored.current_key = key
        assert again.value() == (-key if key < changed else 3)
    backend.close()
    restored.close()


@pytest.mark.parametrize(("count", "left"), [(18, 1), (64, 64), (65, 1)])
@pytest.mark.parametrize("is_base", [True, False])
def test_a_restore_reads_a_bounded_number_of_files(count: int, left: int, is_base: bool) -> None:
    """Many segments are merged by the snapshot itself, however large: a merge in the background may lag."""
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    backend.current_key = 1
    backend.get_value_state(NUMBER).update(7)
    handle = backend.freeze().persist()
    (written,) = handle.segments
    # More than a snapshot merges by itself otherwise.
    entries = 1 if count == 18 else 300_000
    many = tuple(replace(written, entry_count=entries, is_base=is_base) for _ in range(count))
    restored = memory_backend(storage, attempt=1)
    restored.restore(replace(handle, segments=many), owned=True)
    restored.current_key = 1
    assert restored.get_value_state(NUMBER).value() == 7
    assert len(restored.freeze().persist().segments) == left
    restored.close()


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_segment_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"keyed/x\.parquet"):
        read_segment(data, "keyed/x.parquet", KeyGroupRange(0, 127))


def test_a_segment_of_a_newer_format_is_refused() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    backend.get_value_state(NUMBER)
    backend.current_key = 1
    backend.get_value_state(NUMBER).update(1)
    segment = backend.freeze().persist().segments[0]
    table = pq.read_table(io.BytesIO(storage.read_file(segment.file)))
    newer = io.BytesIO()
    metadata = {**table.schema.metadata, b"tidegate.format_version": b"3"}
    pq.write_table(table.replace_schema_metadata(metadata), newer)
    with pytest.raises(CorruptCheckpointError, match=r"format version 3.*upgrade"):
        read_segment(newer.getvalue(), segment.file.path, segment.key_groups)


def test_what_travels_inline_of_one_state_stays_bounded() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(InlineStorage(storage, 20 << 10))
    number = backend.get_value_state(NUMBER)
    for round_number in range(60):
        for key in range(1_000):
            backend.current_key = key
            number.update(round_number * 1_000_003 + key * 7_919)
        handle = backend.freeze().persist()
        inline = [part.file.size_bytes for part in handle.segments if part.file.is_inline]
        assert sum(inline) <= 65_536
    assert storage.list_files("") == [], "a small state never needs a file"
    restored = memory_backend(storage, attempt=1)
    restored.restore(handle, owned=True)
    again = restored.get_value_state(NUMBER)
    for key in range(1_000):
        restored.current_key = key
        assert again.value() == 59 * 1_000_003 + key * 7_919
    backend.close()
    restored.close()


def test_a_tiny_state_is_one_segment_whatever_was_changed_and_a_larger_one_is_a_log() -> None:
    storage = MemoryCheckpointStorage()
    backend = memory_backend(storage)
    number = backend.get_value_state(NUMBER)

    def changed(keys: range, value: int | None) -> list[SegmentHandle]:
        for key in keys:
            backend.current_key = key
            number.update(value)
        return list(backend.freeze().persist().segments)

    for value in range(30):
        (segment,) = changed(range(20), value)
    assert segment.is_base
    assert segment.entry_count == 20
    (segment,) = changed(range(15), None)
    assert segment.entry_count == 5
    base, increment = changed(range(20, 500), 1)
    assert base == segment
    assert not increment.is_base
    assert len(changed(range(3), 2)) == 3
    restored = memory_backend(storage, 1)
    restored.restore(backend.freeze().persist(), owned=True)
    again = restored.get_value_state(NUMBER)
    found = {}
    for restored.current_key in range(500):
        found[restored.current_key] = again.value()
    assert found == {
        **dict.fromkeys(range(3), 2),
        **dict.fromkeys(range(3, 15)),
        **dict.fromkeys(range(15, 20), 29),
        **dict.fromkeys(range(20, 500), 1),
    }
