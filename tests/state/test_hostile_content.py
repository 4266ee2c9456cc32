"""Whatever a checkpoint holds, under valid checksums, its readers fail with a clear error or not at all."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.common import Types
from tidegate.common.errors import CorruptCheckpointError, TidegateError
from tidegate.protocol.checkpoints.manifest import decode_manifest, encode_manifest
from tidegate.protocol.checkpoints.stored_path import state_file_problem
from tidegate.state import read_snapshot
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state.snapshots.segments import footer_sha256
from tidegate.state.snapshots.snapshot_states import KeyedSnapshotState

from .checkpoints import Job

TOTAL = ValueStateDescriptor("total", Types.TUPLE([Types.LONG(), Types.STRING()]))
SEEN = MapStateDescriptor("seen", Types.STRING(), Types.DOUBLE())
LAST = ListStateDescriptor("last", Types.LONG())
ANY = ValueStateDescriptor("any")
OFFSETS = ListStateDescriptor("offsets", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def checkpoint(directory: Path) -> Path:
    """One with states of every kind."""
    job = Job(directory, key_type=Types.LONG())
    keys = range(40)
    job.each(
        keys, lambda backend: backend.get_value_state(TOTAL), lambda state, key: state.update((key, "x"))
    )
    job.each(keys, lambda backend: backend.get_map_state(SEEN), lambda state, key: state.put(str(key), 0.5))
    job.each(keys, lambda backend: backend.get_list_state(LAST), lambda state, key: state.add(key))
    job.each(keys, lambda backend: backend.get_value_state(ANY), lambda state, key: state.update({key}))
    for number, backend in enumerate(job.operator_states):
        backend.get_list_state(OFFSETS).update([number, number + 1])
        backend.get_broadcast_state(RULES).put("a", 1)
    return Path(job.checkpoint({3: b"abc", 100: b"def"}))


def signed(body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"tidegate-checkpoint 1 {hashlib.sha256(data).hexdigest()}\n".encode() + data


def body_of(path: Path) -> Any:
    return json.loads((path / "MANIFEST").read_bytes().partition(b"\n")[2])


def read_everything(path: Path) -> None:
    """All that `inspect`, `diff`, the console and programs ask of a checkpoint; nothing is unpickled."""
    snapshot = read_snapshot(str(path))
    assert repr(snapshot)
    assert snapshot.size_bytes >= 0
    for operator in snapshot.operators.values():
        for state in operator.states:
            for read in (state.verify, lambda state=state: read_state(state)):
                with clear_errors():
                    read()


def read_state(state: Any) -> None:
    assert repr(state)
    assert state.arrow_schema is not None
    for batch in islice(state.iter_batches(), 10):
        batch.validate(full=True)
    if hasattr(state, "entries"):
        list(islice(state.entries(), 1_000))
    if isinstance(state, KeyedSnapshotState):
        state.get(7)


clear_errors = partial(suppress, TidegateError)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 0, 1, 2**31, 2**63 - 1, 2**63, 32_768, 10**400]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["", "..", "../x", "/etc/passwd", "http://x/y", "\ud800", "\x1b[2J", "ROW(", "LIST(LONG)", "LONG"]
    ),
    st.sampled_from([[], {}, [[]], [{}], {"path": "x"}, [0, 127], [5, 1], ["a", "b"]]),
)
OFTEN = settings(max_examples=200, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("whole"))


@OFTEN
@given(data=st.data())
def test_a_manifest_of_any_content_is_read_or_refused(whole: Path, data: st.DataObject) -> None:
    body = mutated(body_of(whole), data)
    with clear_errors():
        manifest = decode_manifest(signed(body), "here")
        assert decode_manifest(encode_manifest(manifest), "here") == manifest
        for file in manifest.files():
            assert state_file_problem(file.path, is_savepoint=manifest.kind.value == "savepoint") is None


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_refused(data: bytes, is_signed: bool) -> None:
    if is_signed:
        data = f"tidegate-checkpoint 1 {hashlib.sha256(data).hexdigest()}\n".encode() + data
    with pytest.raises(CorruptCheckpointError, match="here"):
        decode_manifest(data, "here")


def mutated(body: Any, data: st.DataObject) -> Any:
    body = copy.deepcopy(body)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(body))))
        if not path:
            return copy.deepcopy(data.draw(HOSTILE))
        parent = body
        for key in path[:-1]:
            parent = parent[key]
        if data.draw(st.booleans()):
            parent[path[-1]] = copy.deepcopy(data.draw(HOSTILE))
        else:
            del parent[path[-1]]
    return body


@settings(OFTEN, max_examples=60)
@given(data=st.data())
def test_a_checkpoint_with_any_manifest_is_read_or_refused(whole: Path, data: st.DataObject) -> None:
    other = whole.parent / "chk-2"
    other.mkdir(exist_ok=True)
    body = body_of(whole)
    body["checkpoint_id"] = 2
    (other / "MANIFEST").write_bytes(signed(mutated(body, data)))
    with clear_errors():
        read_everything(other)


# ---------------------------------------------------------------- files of state


def with_column(table: pa.Table, data: st.DataObject) -> pa.Table:
    """A column is gone, or of another type, or holds other values."""
    at = data.draw(st.integers(0, table.num_columns - 1))
    name = table.column_names[at]
    if data.draw(st.booleans()):
        return table.remove_column(at)
    rows = table.num_rows
    columns = [
        pa.nulls(rows),
        pa.array([-1] * rows, pa.int64()),
        pa.array([2**31 - 1] * rows, pa.int32()),
        pa.array([2**62] * rows, pa.timestamp("ms")),
        pa.array(["x"] * rows),
        pa.array([b"\xff\x00"] * rows, pa.large_binary()),
        pa.array([[1, None]] * rows, pa.list_(pa.int64())),
        pa.array([{"a": 1}] * rows),
        pa.array([{"f0": None, "f1": None}] * rows, pa.struct([("f0", pa.int64()), ("f1", pa.string())])),
        pa.array([float("nan")] * rows),
    ]
    return table.set_column(at, name, data.draw(st.sampled_from(columns)))


def with_metadata(table: pa.Table, data: st.DataObject) -> pa.Table:
    """What a file says about itself is another thing."""
    metadata = dict(table.schema.metadata or {})
    key = data.draw(st.sampled_from(sorted(metadata)))
    values = [
        b"",
        b"-1",
        b"1e9",
        b"\xff",
        b"LONG",
        b"LIST(LONG)",
        b"ROW(",
        b"MAP(STRING, LONG)",
        b"int64",
        b"encoded",
    ]
    if data.draw(st.booleans()):
        del metadata[key]
    else:
        metadata[key] = data.draw(st.sampled_from(values))
    return table.replace_schema_metadata(metadata)


def with_rows(table: pa.Table, data: st.DataObject) -> pa.Table:
    """In another order, more than once, or none."""
    rows = data.draw(st.lists(st.integers(0, max(0, table.num_rows - 1)), max_size=60))
    return table.take(pa.array(rows, pa.int64())) if table.num_rows else table


CHANGES: list[Callable[[pa.Table, st.DataObject], pa.Table]] = [with_column, with_metadata, with_rows]


def changed_file(content: bytes, data: st.DataObject) -> bytes:
    kind = data.draw(st.sampled_from(["bytes", "truncated", "other", "table", "table", "table"]))
    if kind == "truncated":
        return content[: data.draw(st.integers(0, len(content) - 1))]
    if kind == "other":
        return data.draw(st.binary(max_size=64)) + b"PAR1"
    if kind == "bytes":
        array = bytearray(content)
        for _ in range(data.draw(st.integers(1, 4))):
            array[data.draw(st.integers(0, len(array) - 1))] = data.draw(st.integers(0, 255))
        return bytes(array)
    table = pq.read_table(pa.BufferReader(content))
    for _ in range(data.draw(st.integers(1, 2))):
        table = data.draw(st.sampled_from(CHANGES))(table, data)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    return sink.getvalue().to_pybytes()


@pytest.mark.slow
@settings(OFTEN, max_examples=150)
@given(data=st.data())
def test_a_file_of_any_content_with_valid_checksums_is_read_or_refused(
    whole: Path, data: st.DataObject
) -> None:
    body = body_of(whole)
    body["checkpoint_id"] = 3
    handles = [
        value for path in places(body) if isinstance(value := at(body, path), dict) and "sha256" in value
    ]
    handle = data.draw(st.sampled_from(handles))
    content = stored(whole, handle)
    changed = changed_file(content, data)
    handle["size_bytes"], handle["sha256"] = len(changed), hashlib.sha256(changed).hexdigest()
    handle["data"] = base64.b64encode(changed).decode()
    with suppress(Exception):
        handle["entries"] = pq.ParquetFile(pa.BufferReader(changed)).metadata.num_rows
    if "footer_sha256" in handle and len(changed) > 12:
        with suppress(Exception):
            handle["footer_sha256"] = footer_sha256(pa.BufferReader(changed), len(changed))
    other = whole.parent / "chk-3"
    other.mkdir(exist_ok=True)
    (other / "MANIFEST").write_bytes(signed(body))
    with clear_errors():
        read_everything(other)


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def stored(checkpoint: Path, handle: dict[str, Any]) -> bytes:
    if "data" in handle:
        return base64.b64decode(handle["data"])
    return (checkpoint.parent / handle["path"]).read_bytes()
