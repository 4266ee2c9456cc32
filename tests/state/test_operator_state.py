"""Operator state: what a list or a map holds, where its files go, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
import pytest
from pyarrow import BufferReader
from tidegate.common.errors import CorruptCheckpointError, KeyTypeError, StateError, StateMigrationError
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import OperatorListHandle, OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb.operator_state import LmdbOperatorStates
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.operator.growth import MemoryLimit
from tidegate.state.operator.list_files import read_list_file
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.state.ttl_config import StateTtlConfig

POSITIONS = ListStateDescriptor("positions", Types.TUPLE([Types.LONG(), Types.LONG()]))
ANYTHING = ListStateDescriptor("all")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


@pytest.fixture
def storage() -> CheckpointStorage:
    return MemoryCheckpointStorage()


class Opener(Protocol):
    """Opens the operator state of one subtask, with what is restored."""

    def __call__(
        self,
        storage: CheckpointStorage | None,
        handles: tuple[OperatorListHandle, ...] = (),
        subtask: int = 0,
        owned: bool = True,
    ) -> OperatorStateBackend: ...


@pytest.fixture(params=["hashmap", "lmdb", "on disk"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Of each backend; `on disk` is `lmdb` with state that moves to disk with its first item."""
    opened: list[OperatorStateBackend] = []

    def open_backend(
        storage: CheckpointStorage | None,
        handles: tuple[OperatorListHandle, ...] = (),
        subtask: int = 0,
        owned: bool = True,
    ) -> OperatorStateBackend:
        # Each call stands for a new attempt, whose files have names of their own.
        states = open_states(request.param, storage, str(tmp_path), subtask, attempt=len(opened))
        opened.append(states)
        states.restore(handles, owned)
        return states

    yield open_backend
    for states in opened:
        states.close()


def open_states(
    kind: str, storage: CheckpointStorage | None, local_dir: str, subtask: int = 0, attempt: int = 0
) -> OperatorStateBackend:
    params = OperatorStateBackendParameters(
        "uid", "source", subtask, attempt, storage, "shared/uid", local_dir
    )
    if kind == "on disk":
        return OperatorStateBackend(params, LmdbOperatorStates(params, 1 << 20, 1 << 20, MemoryLimit(0)))
    config = LmdbStateBackend() if kind == "lmdb" else HashMapStateBackend()
    return config.create_operator_backend(params)


def stored(states: OperatorStateBackend) -> tuple[OperatorListHandle, ...]:
    return states.snapshot().persist()


# ---------------------------------------------------------------- lists


def test_items_come_back_in_their_mode(backend: Opener, storage: CheckpointStorage) -> None:
    before = backend(storage)
    split, union = before.get_list_state(POSITIONS), before.get_union_list_state(ANYTHING)
    split.add((1, 2))
    split.add_all([(3, 4)])
    union.update([{"any": "thing"}])
    handles = stored(before)
    assert [(handle.state_name, handle.mode, handle.item_count) for handle in handles] == [
        ("positions", "even-split", 2),
        ("all", "union", 1),
    ]
    after = backend(storage, handles)
    assert list(after.get_list_state(POSITIONS)) == [(1, 2), (3, 4)]
    assert after.get_union_list_state(ANYTHING).get() == [{"any": "thing"}]


def test_a_snapshot_is_what_the_items_were_at_the_barrier(
    backend: Opener, storage: CheckpointStorage
) -> None:
    states = backend(storage)
    items = states.get_list_state(ANYTHING)
    mutable = {"count": 1}
    items.add(mutable)
    frozen = states.snapshot()
    mutable["count"] = 2
    items.add("later")
    assert backend(storage, frozen.persist()).get_list_state(ANYTHING).get() == [{"count": 1}]


def test_what_get_returns_is_not_the_state(backend: Opener, storage: CheckpointStorage) -> None:
    state = backend(storage).get_list_state(POSITIONS)
    state.get().append((1, 2))
    assert state.get() == []
    state.add((1, 2))
    state.clear()
    assert state.get() == []


def test_values_that_fit_no_column_come_back_too(backend: Opener, storage: CheckpointStorage) -> None:
    numbers = ListStateDescriptor("numbers", Types.LIST(Types.LONG()))
    before = backend(storage)
    before.get_list_state(numbers).update([[1], None, [2**70]])
    assert backend(storage, stored(before)).get_list_state(numbers).get() == [[1], None, [2**70]]


def test_a_rescaled_list_is_read_by_rows_from_the_files_of_the_old_subtasks(
    backend: Opener,
    storage: CheckpointStorage,
) -> None:
    snapshots = []
    for subtask in range(3):
        states = backend(storage, subtask=subtask)
        states.get_list_state(POSITIONS).update([(subtask, number) for number in range(5)])
        snapshots.append(OperatorSnapshot(lists=stored(states)))
    files = storage.list_files("")
    found: list[Any] = []
    for subtask, snapshot in enumerate(redistribute(snapshots, 4, 128)):
        found += backend(storage, snapshot.lists, subtask).get_list_state(POSITIONS).get()
    assert found == [(subtask, number) for subtask in range(3) for number in range(5)]
    assert storage.list_files("") == files, "nothing was rewritten"


# ---------------------------------------------------------------- broadcast


def test_broadcast_state_is_a_map_without_keys(backend: Opener, storage: CheckpointStorage) -> None:
    rules = backend(storage).get_broadcast_state(RULES)
    assert rules.is_empty()
    rules.put("a", 1)
    rules.put_all({"b": 2, "c": 3})
    rules.remove("a")
    rules.remove("nobody")
    assert (rules.get("b"), rules.get("a"), rules.contains("c"), rules.contains("a")) == (
        2,
        None,
        True,
        False,
    )
    assert sorted(rules) == sorted(rules.keys()) == ["b", "c"]
    assert dict(rules.items()) == {"b": 2, "c": 3}
    for key in rules.keys():  # noqa: SIM118  a copy: it may be changed meanwhile
        rules.remove(key)
    assert rules.is_empty()


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_subtask_gets_the_one_stored_copy(
    backend: Opener, storage: CheckpointStorage, parallelism: int
) -> None:
    snapshots = []
    for subtask in range(3):
        states = backend(storage, subtask=subtask)
        states.get_broadcast_state(RULES).put_all({"ü": 1, "b": 2})
        snapshots.append(OperatorSnapshot(lists=stored(states)))
    assert len(storage.list_files("")) == 1, "all copies are equal, so one is stored"
    for subtask, snapshot in enumerate(redistribute(snapshots, parallelism, 128)):
        restored = backend(storage, snapshot.lists, subtask).get_broadcast_state(RULES)
        assert dict(restored.items()) == {"ü": 1, "b": 2}


@pytest.mark.parametrize("keys", [[1, -5], [2**80, 1], ["a", "\ud800"], [(1, "x"), (2, "y")], [True, "t"]])
def test_map_keys_of_every_form_come_back(
    backend: Opener, storage: CheckpointStorage, keys: list[Any]
) -> None:
    descriptor = MapStateDescriptor("rules")
    before = backend(storage)
    before.get_broadcast_state(descriptor).put_all(dict.fromkeys(keys, "rule"))
    after = backend(storage, stored(before)).get_broadcast_state(descriptor)
    assert dict(after.items()) == dict.fromkeys(keys, "rule")


def test_a_map_key_without_an_encoding_is_refused_by_name(
    backend: Opener, storage: CheckpointStorage
) -> None:
    states = backend(storage, subtask=0)
    state = states.get_broadcast_state(MapStateDescriptor("rules"))

    def put_and_store() -> None:
        state.put(object(), 1)
        states.snapshot()

    with pytest.raises(KeyTypeError, match=r"source.*subtask 0.*'rules'.*object"):
        put_and_store()


# ---------------------------------------------------------------- state that nobody declares


def test_state_that_is_not_declared_again_is_carried_along(
    backend: Opener, storage: CheckpointStorage
) -> None:
    before = backend(storage)
    before.get_list_state(POSITIONS).add((1, 2))
    middle = backend(storage, stored(before))
    after = backend(storage, stored(middle))
    assert after.get_list_state(POSITIONS).get() == [(1, 2)]


@pytest.mark.parametrize("mode", ["union", "broadcast"])
def test_what_everybody_was_given_is_carried_along_once(
    backend: Opener, storage: CheckpointStorage, mode: str
) -> None:
    before = backend(storage)
    if mode == "union":
        before.get_union_list_state(ANYTHING).add("x")
    else:
        before.get_broadcast_state(RULES).put("x", 1)
    snapshots = [OperatorSnapshot(lists=stored(before))]
    for parallelism in (3, 2, 4):
        given = redistribute(snapshots, parallelism, 128)
        snapshots = [
            OperatorSnapshot(lists=stored(backend(storage, snapshot.lists, subtask)))
            for subtask, snapshot in enumerate(given)
        ]
    assert [sum(handle.item_count for handle in snapshot.lists) for snapshot in snapshots] == [1, 0, 0, 0]


def test_files_of_another_job_are_copied_before_they_are_carried_along(backend: Opener) -> None:
    theirs, ours = MemoryCheckpointStorage("operator-state-theirs"), MemoryCheckpointStorage()
    before = backend(theirs)
    before.get_list_state(POSITIONS).add((1, 2))
    (snapshot,) = [OperatorSnapshot(lists=stored(before))]
    foreign = snapshot.with_files(lambda file: file.within(theirs.uri))
    middle = backend(ours, foreign.lists, owned=False)
    carried = stored(middle)
    theirs.delete(theirs.list_files(""))
    assert backend(ours, carried).get_list_state(POSITIONS).get() == [(1, 2)]
    assert stored(middle) == carried, "it is copied once"


# ---------------------------------------------------------------- files


def test_an_empty_state_has_a_handle_but_no_file(backend: Opener, storage: CheckpointStorage) -> None:
    states = backend(storage)
    states.get_list_state(POSITIONS)
    (handle,) = stored(states)
    assert (handle.parts, handle.schema["value_type"]) == ((), "TUPLE(LONG, LONG)")
    assert storage.list_files("") == []


def test_large_files_go_to_storage_and_small_ones_travel_in_the_handle(
    backend: Opener, storage: CheckpointStorage
) -> None:
    states = backend(InlineStorage(storage, 20 << 10))
    items = states.get_list_state(ANYTHING)
    items.add("small")
    ((small,),) = (handle.parts for handle in stored(states))
    assert small.file.is_inline
    assert storage.list_files("") == []
    items.update([f"{number}" * 10 for number in range(10_000)])
    (handle,) = stored(states)
    large = {part.file.path for part in handle.parts if not part.file.is_inline}
    assert set(storage.list_files("")) == large != set()


def test_a_list_file_says_whose_items_it_holds(backend: Opener, storage: CheckpointStorage) -> None:
    states = backend(storage)
    states.get_broadcast_state(RULES).put("a", 1)
    (handle,) = stored(states)
    file = pq.ParquetFile(BufferReader(storage.read_file(handle.parts[0].file)))
    (row,) = file.read(["operator_uid", "state_name", "map_key", "value", "value_encoded"]).to_pylist()
    assert row == {
        "operator_uid": "uid",
        "state_name": "rules",
        "map_key": "a",
        "value": 1,
        "value_encoded": None,
    }
    metadata = file.schema_arrow.metadata
    assert metadata[b"tidegate.kind"] == b"map"
    assert metadata[b"tidegate.map_key_encoding"] == b"string"
    assert metadata[b"tidegate.value_encoding"] == b"typed"


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_list_file_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"shared/x\.parquet"):
        read_list_file(data, "shared/x.parquet")


def test_a_damaged_inline_file_is_noticed(backend: Opener, storage: CheckpointStorage) -> None:
    states = backend(InlineStorage(storage, 20 << 10))
    states.get_list_state(POSITIONS).add((1, 2))
    snapshot = OperatorSnapshot(lists=stored(states))
    damaged = snapshot.with_files(
        lambda file: type(file)(file.path, file.size_bytes, file.sha256, b"x" * file.size_bytes)
    )
    with pytest.raises(CorruptCheckpointError, match="SHA-256"):
        backend(storage, damaged.lists).get_list_state(POSITIONS)


def test_without_storage_state_lives_but_cannot_be_stored(backend: Opener) -> None:
    states = backend(None)
    states.get_list_state(POSITIONS).add((1, 2))
    with pytest.raises(StateError, match=r"source.*without a checkpoint storage"):
        stored(states)


# ---------------------------------------------------------------- mistakes


def test_one_name_means_one_mode_and_type(backend: Opener, storage: CheckpointStorage) -> None:
    states = backend(storage, subtask=3)
    states.get_list_state(POSITIONS)
    with pytest.raises(StateError, match=r"source.*subtask 3.*'positions'.*even-split"):
        states.get_union_list_state(POSITIONS)
    with pytest.raises(StateError, match="'positions'"):
        states.get_list_state(ListStateDescriptor("positions", Types.STRING()))


def test_a_changed_mode_is_refused_on_restore(backend: Opener, storage: CheckpointStorage) -> None:
    before = backend(storage)
    before.get_list_state(POSITIONS).add((1, 2))
    after = backend(storage, stored(before))
    with pytest.raises(
        StateMigrationError, match=r"source.*'positions' was stored as even-split.*now declared union"
    ):
        after.get_union_list_state(POSITIONS)


def test_a_changed_type_is_refused_on_restore(backend: Opener, storage: CheckpointStorage) -> None:
    before = backend(storage)
    before.get_list_state(POSITIONS).add((1, 2))
    after = backend(storage, stored(before))
    with pytest.raises(StateMigrationError, match=r"source.*'positions'.*TUPLE\(LONG, LONG\).*STRING"):
        after.get_list_state(ListStateDescriptor("positions", Types.STRING()))


def test_a_time_to_live_is_refused(backend: Opener, storage: CheckpointStorage) -> None:
    descriptor = ListStateDescriptor("positions", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(StateError, match=r"source.*'positions' cannot have a time to live"):
        backend(storage).get_list_state(descriptor)


def test_an_item_of_a_wrong_type_names_operator_and_state(
    backend: Opener, storage: CheckpointStorage
) -> None:
    states = backend(storage)
    state = states.get_list_state(POSITIONS)

    def add_and_store() -> None:
        state.add("text")
        states.snapshot()

    with pytest.raises(StateError, match=r"source.*'positions'.*TUPLE\(LONG, LONG\)"):
        add_and_store()


def test_restored_items_that_are_not_declared_by_the_end_of_open_are_reported(
    backend: Opener,
    storage: CheckpointStorage,
) -> None:
    first = backend(storage)
    first.get_list_state(POSITIONS).add((1, 2))
    first.get_union_list_state(ListStateDescriptor("empty", Types.LONG()))
    first.opened()
    first.get_broadcast_state(RULES).put("late", 1)
    handles = stored(first)
    marks = {handle.state_name: handle.schema["declared"] for handle in handles}
    assert marks == {POSITIONS.get_name(): "open", "empty": "open", "rules": "late"}
    again = backend(storage)
    again.restore(handles, owned=False)
    again.get_list_state(ListStateDescriptor("positions 2", Types.LONG()))
    again.opened()
    (found,) = again.unclaimed()
    assert (found.name, found.is_certain, found.similar) == (POSITIONS.get_name(), True, ("positions 2",))
    # What is ignored is kept, and does not count as declared.
    kept = next(handle for handle in stored(again) if handle.state_name == POSITIONS.get_name())
    assert kept.item_count == 1
    assert "declared" not in kept.schema
