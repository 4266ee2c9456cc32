"""States of declared types never unpickle: neither what old releases wrote, nor what an attacker did."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import FileHandle, KeyedStateHandle
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state.lmdb.operator_state import LmdbOperatorStates
from tidegate.state.operator.growth import MemoryLimit
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.snapshots.segments import footer_sha256
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage


class Bomb:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def with_bomb(storage: Any, file: FileHandle, version: int, payload: bytes) -> tuple[FileHandle, str]:
    """A copy of a file with a payload in the place of its first value, and the checksum of its footer."""
    table = pq.read_table(io.BytesIO(storage.read_file(file)))
    name = {1: "value_pickled", 2: "value_encoded"}[version]
    at = next(i for i, column in enumerate(table.column_names) if column.startswith("value_"))
    column = pa.array([payload] + [None] * (len(table) - 1), pa.large_binary())
    value = pa.array([None, *table["value"].to_pylist()[1:]], table["value"].type)
    metadata = {**table.schema.metadata, b"tidegate.format_version": str(version).encode()}
    table = table.set_column(at, name, column).set_column(table.column_names.index("value"), "value", value)
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink, write_page_checksum=True)
    data = sink.getvalue()
    written = storage.write_file(f"hostile-{hashlib.sha256(data).hexdigest()}", data)
    return written, footer_sha256(io.BytesIO(data), len(data))


VALUE = ValueStateDescriptor("value", Types.LONG())
PAIR = ValueStateDescriptor("value", Types.TUPLE([Types.LONG(), Types.STRING()]))
LIST = ListStateDescriptor("value", Types.LONG())
MAP = MapStateDescriptor("value", Types.STRING(), Types.LONG())


def handle_of(backend: Any, descriptor: Any) -> Any:
    if isinstance(descriptor, MapStateDescriptor):
        return backend.get_map_state(descriptor)
    if isinstance(descriptor, ListStateDescriptor):
        return backend.get_list_state(descriptor)
    return backend.get_value_state(descriptor)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("descriptor", [VALUE, PAIR, LIST, MAP], ids=["long", "tuple", "list", "map"])
def test_a_payload_in_a_declared_keyed_state_never_runs(
    open_backend: Any, storage: Any, tmp_path: Path, descriptor: Any, version: int
) -> None:
    backend = open_backend(key_type=Types.LONG())
    state = handle_of(backend, descriptor)
    for key in range(5):
        backend.current_key = key
        if descriptor is MAP:
            state.put("a", key)
        elif descriptor is LIST:
            state.add(key)
        else:
            state.update(key if descriptor is VALUE else (key, "x"))
    (segment,) = backend.freeze().persist().segments
    payload = pickle.dumps(Bomb(tmp_path / "exploded"))
    file, footer = with_bomb(storage, segment.file, version, payload)
    hostile = replace(segment, file=file, footer_sha256=footer)
    again = open_backend(key_type=Types.LONG(), attempt=1)
    schemas = {"value": {**descriptor.schema(), "key_type": "LONG"}}
    again.restore(KeyedStateHandle((hostile,), schemas), owned=False)
    with pytest.raises(
        CorruptCheckpointError, match=r"operator 'running total'.*state 'value'.*declared type"
    ):
        handle_of(again, descriptor)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("version", [1, 2])
def test_a_payload_in_timers_never_runs(
    open_backend: Any, storage: Any, tmp_path: Path, version: int
) -> None:
    backend = open_backend(key_type=Types.LONG())
    timers = backend.get_timers("_timers_user_event")
    timers.add(1, 100)
    handle = backend.freeze().persist()
    (segment,) = handle.segments
    payload = pickle.dumps(Bomb(tmp_path / "exploded"))
    file, footer = with_bomb(storage, segment.file, version, payload)
    again = open_backend(key_type=Types.LONG(), attempt=1)
    again.restore(replace(handle, segments=(replace(segment, file=file, footer_sha256=footer),)), owned=False)
    with pytest.raises(CorruptCheckpointError, match="declared type"):
        again.get_timers("_timers_user_event")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["list", "union", "broadcast"])
@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_payload_in_a_declared_operator_state_never_runs(
    tmp_path: Path, kind: str, version: int, place: str
) -> None:
    storage = MemoryCheckpointStorage()
    parameters = OperatorStateBackendParameters("uid", "name", 0, 1, storage, "shared/uid", str(tmp_path))

    def opened() -> OperatorStateBackend:
        if place == "memory":
            return OperatorStateBackend(parameters)
        on_disk = LmdbOperatorStates(parameters, 1 << 20, 1 << 20, MemoryLimit(0))
        return OperatorStateBackend(parameters, on_disk)

    def declared(backend: OperatorStateBackend) -> Any:
        if kind == "list":
            return backend.get_list_state(LIST)
        return backend.get_union_list_state(LIST) if kind == "union" else backend.get_broadcast_state(MAP)

    backend = opened()
    if kind == "broadcast":
        declared(backend).put_all({"a": 1, "b": 2})
    else:
        declared(backend).update([1, 2])
    (handle,) = backend.snapshot().persist()
    part = handle.parts[0]
    file, _ = with_bomb(storage, part.file, version, pickle.dumps(Bomb(tmp_path / "exploded")))
    backend.close()
    again = opened()
    again.restore((replace(handle, parts=(replace(part, file=file),)),), owned=False)
    with pytest.raises(CorruptCheckpointError, match=r"operator 'name'.*state 'value'.*declared type"):
        list(declared(again))
    again.close()
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "kind",
    [Types.LONG(), Types.LIST(Types.LONG()), Types.TUPLE([Types.LONG(), Types.DOUBLE()])],
    ids=["long", "list", "tuple"],
)
def test_a_big_integer_is_stored_without_a_pickle(open_backend: Any, storage: Any, kind: Any) -> None:
    value: Any = {"LONG": 2**70, "LIST(LONG)": [1, -(2**70)]}.get(str(kind._text()), (2**70, 0.5))
    backend = open_backend(key_type=Types.LONG())
    state = backend.get_value_state(ValueStateDescriptor("value", kind))
    backend.current_key = 1
    state.update(value)
    handle = backend.freeze().persist()
    data = storage.read_file(handle.segments[0].file)
    assert b"\x80\x05" not in data
    (encoded,) = pq.read_table(io.BytesIO(data))["value_encoded"].to_pylist()
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(encoded)
    again = open_backend(key_type=Types.LONG(), attempt=1)
    again.restore(handle, owned=False)
    restored = again.get_value_state(ValueStateDescriptor("value", kind))
    again.current_key = 1
    assert restored.value() == value
