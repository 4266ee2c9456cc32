"""Operator state that has outgrown memory: what a snapshot writes, what memory holds, and what comes back."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import ListPart, OperatorListHandle, OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor
from tidegate.state.lmdb.operator_state import LmdbOperatorStates
from tidegate.state.operator.growth import MemoryLimit
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.snapshots.snapshot_files import CheckedFiles, StateLocation
from tidegate.state.snapshots.snapshot_states import OperatorSnapshotState
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .test_operator_state import open_states

pytestmark = pytest.mark.slow

NUMBERS = ListStateDescriptor("numbers", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
ANY_RULES = MapStateDescriptor("any rules")
LIMIT = MemoryLimit().entries
KINDS = ["hashmap", "lmdb", "on disk"]

Handles = tuple[OperatorListHandle, ...]


class Attempts:
    """Opens backends, each as a new attempt, and closes them in the end."""

    def __init__(self, local_dir: str) -> None:
        self._local_dir = local_dir
        self._opened: list[OperatorStateBackend] = []

    def __call__(
        self,
        storage: CheckpointStorage,
        handles: Handles = (),
        kind: str = "lmdb",
        subtask: int = 0,
        owned: bool = True,
    ) -> OperatorStateBackend:
        states = open_states(kind, storage, self._local_dir, subtask, attempt=len(self._opened))
        return self._restored(states, handles, owned)

    def small_memory(self, storage: CheckpointStorage, subtask: int, size_bytes: int) -> OperatorStateBackend:
        """A backend that has this much memory for the map of each large broadcast state."""
        params = OperatorStateBackendParameters(
            "uid", "source", subtask, len(self._opened), storage, "shared/uid", self._local_dir
        )
        on_disk = LmdbOperatorStates(params, size_bytes, 1 << 20, MemoryLimit())
        return self._restored(OperatorStateBackend(params, on_disk), (), True)

    def _restored(self, states: OperatorStateBackend, handles: Handles, owned: bool) -> OperatorStateBackend:
        self._opened.append(states)
        states.restore(handles, owned)
        return states

    def close(self) -> None:
        for states in self._opened:
            states.close()


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempts]:
    attempts = Attempts(str(tmp_path))
    yield attempts
    attempts.close()


@pytest.fixture
def storage() -> CheckpointStorage:
    return MemoryCheckpointStorage()


def stored(states: OperatorStateBackend) -> Handles:
    return states.snapshot().persist()


def spill(states: OperatorStateBackend) -> None:
    """What the task's loop does between two batches."""
    for backend in () if states.on_disk is None else states.on_disk.backends:
        if backend.needs_spill:
            backend.spill().persist()


def rows_of_new_files(before: Handles, after: Handles) -> int:
    old = {part.file.path for handle in before for part in handle.parts}
    return sum(part.item_count for handle in after for part in handle.parts if part.file.path not in old)


def counts(handles: Handles) -> dict[str, int]:
    return {handle.state_name: handle.item_count for handle in handles}


# ---------------------------------------------------------------- what a snapshot writes


@pytest.mark.parametrize("mode", ["even-split", "union"])
def test_adding_to_a_large_list_writes_what_was_added(
    attempt: Attempts, storage: CheckpointStorage, mode: str
) -> None:
    states = attempt(storage)
    items = states.get_list_state(NUMBERS) if mode == "even-split" else states.get_union_list_state(NUMBERS)
    items.add_all(range(20_000))
    before = stored(states)
    items.add(20_000)
    after = stored(states)
    assert [handle.item_count for handle in (*before, *after)] == [20_000, 20_001]
    assert rows_of_new_files(before, after) <= LIMIT + 1, "the tail"


def test_a_change_of_a_large_broadcast_state_writes_the_changed_entries(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage)
    rules = states.get_broadcast_state(RULES)
    rules.put_all({f"rule {number}": number for number in range(20_000)})
    before = stored(states)
    rules.put("rule 7", -7)
    rules.put("new", 1)
    rules.remove("rule 8")
    after = stored(states)
    assert rows_of_new_files(before, after) == 3
    expected = {f"rule {number}": number for number in range(20_000)} | {"rule 7": -7, "new": 1}
    del expected["rule 8"]
    for kind in KINDS:
        for subtask in (0, 1):
            restored = attempt(storage, after, kind, subtask).get_broadcast_state(RULES)
            assert dict(restored.items()) == expected


def test_only_the_first_subtask_stores_a_large_broadcast_state(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage, subtask=1)
    states.get_broadcast_state(RULES).put_all({str(number): number for number in range(5_000)})
    (handle,) = stored(states)
    assert (handle.parts, storage.list_files("")) == ((), [])


@pytest.mark.parametrize("inline_bytes", [0, 20 << 10])
def test_a_list_that_grows_for_long_stays_in_few_files(
    attempt: Attempts, storage: CheckpointStorage, inline_bytes: int
) -> None:
    states = attempt(InlineStorage(storage, inline_bytes), kind="on disk")
    items = states.get_list_state(NUMBERS)
    written: dict[str, int] = {}
    for checkpoint in range(200):
        items.add_all([2 * checkpoint, 2 * checkpoint + 1])
        (handle,) = stored(states)
        written |= {part.file.path: part.item_count for part in handle.parts}
        assert len(handle.parts) <= 20
    assert sum(written.values()) < 10 * 400, "each item is written again only a few times"
    assert list(attempt(storage, (handle,)).get_list_state(NUMBERS)) == list(range(400))


def test_what_is_cleared_or_replaced_is_not_stored_again(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage)
    items = states.get_list_state(NUMBERS)
    items.update(list(range(5_000)))
    assert stored(states)[0].item_count == 5_000
    items.update([number + 1 for number in items])
    assert items.get() == list(range(1, 5_001))
    items.update([7])
    assert stored(states)[0].item_count == 1
    items.clear()
    assert stored(states)[0].parts == ()


# ---------------------------------------------------------------- snapshots under way


def test_a_snapshot_that_is_stored_later_holds_what_there_was(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage)
    items, rules = states.get_list_state(NUMBERS), states.get_broadcast_state(ANY_RULES)
    items.add_all(range(3_000))
    limits = {"count": 1}
    rules.put_all(dict.fromkeys(range(3000), limits))
    first = states.snapshot()
    limits["count"] = 2
    items.add_all(range(3_000, 6_000))
    rules.remove(0)
    second = states.snapshot()
    items.clear()
    rules.clear()
    # Pieces of a cleared list are removed with the next one, but not while a snapshot needs them.
    items.add_all(range(3_000))
    for frozen, count, entries in ((first, 3_000, 3_000), (second, 6_000, 2_999)):
        restored = attempt(storage, frozen.persist(), "hashmap")
        assert restored.get_list_state(NUMBERS).get() == list(range(count))
        found = dict(restored.get_broadcast_state(ANY_RULES).items())
        assert (len(found), found[1]) == (entries, {"count": 1})


def test_a_snapshot_that_is_overtaken_by_a_newer_one_holds_its_own_items(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage, kind="on disk")
    items = states.get_list_state(NUMBERS)
    items.add_all(range(5))
    first = states.snapshot()
    items.add_all(range(5, 9))
    newer, older = states.snapshot().persist(), first.persist()
    assert attempt(storage, newer).get_list_state(NUMBERS).get() == list(range(9))
    assert attempt(storage, older).get_list_state(NUMBERS).get() == list(range(5))


def test_an_iterator_gives_what_there_was_when_it_was_made(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    items = attempt(storage).get_list_state(NUMBERS)
    items.add_all(range(5_000))
    before = iter(items)
    items.clear()
    items.add_all([-1] * 5_000)
    assert list(before) == list(range(5_000))


# ---------------------------------------------------------------- memory


@dataclass
class Item:
    """Counted by the test."""

    number: int


def live_items() -> int:
    gc.collect()
    return sum(type(each) is Item for each in gc.get_objects())


def test_memory_holds_the_tail_of_a_list(attempt: Attempts, storage: CheckpointStorage) -> None:
    items = attempt(storage).get_list_state(ListStateDescriptor("items"))
    for number in range(20_000):
        items.add(Item(number))
    assert live_items() <= LIMIT
    assert [item.number for item in items] == list(range(20_000))
    items.update([])
    for number in range(300):
        items.add(Item(number))
        items.add(bytes(100_000))
    assert live_items() <= 100, "few large items are moved to disk as well"


@pytest.mark.parametrize("subtask", [0, 1])
def test_memory_holds_a_part_of_a_broadcast_state(
    attempt: Attempts, storage: CheckpointStorage, subtask: int
) -> None:
    states = attempt.small_memory(storage, subtask, size_bytes=1 << 20)
    rules = states.get_broadcast_state(ANY_RULES)
    for number in range(20_000):
        rules.put(number, Item(number))
        if number % 500 == 0:
            spill(states)
    handles = stored(states)
    stored(states)  # waits until LMDB has what the one before stored
    spill(states)
    assert live_items() < 10_000
    assert [rules.get(number).number for number in range(0, 20_000, 7)] == list(range(0, 20_000, 7))
    assert sum(1 for _ in rules.items()) == 20_000
    restored = attempt(storage, handles, "hashmap").get_broadcast_state(ANY_RULES)
    assert restored.get(19_999) == (Item(19_999) if subtask == 0 else None)


def test_pieces_of_a_replaced_list_are_removed_from_disk(
    attempt: Attempts, storage: CheckpointStorage, tmp_path: Path
) -> None:
    states = attempt(storage)
    items = states.get_list_state(ListStateDescriptor("texts", Types.STRING()))
    for round_number in range(40):
        items.update([f"{round_number} {number}".ljust(100) for number in range(3_000)])
        stored(states)
    size_bytes = sum(path.stat().st_size for path in tmp_path.rglob("data.mdb"))
    assert 300_000 < size_bytes < 2_000_000, "of 12 MB that were written"


def test_small_state_opens_no_environment(
    attempt: Attempts, storage: CheckpointStorage, tmp_path: Path
) -> None:
    states = attempt(storage)
    states.get_list_state(NUMBERS).update(list(range(100)))
    states.get_broadcast_state(RULES).put("a", 1)
    stored(states)
    assert list(tmp_path.iterdir()) == []
    states.get_list_state(NUMBERS).add_all(range(LIMIT))
    assert list(tmp_path.iterdir()) != []
    states.close()
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_large_lists_are_redistributed_and_no_file_is_rewritten(
    attempt: Attempts, storage: CheckpointStorage, parallelism: int
) -> None:
    everything = ListStateDescriptor("everything", Types.LONG())
    snapshots = []
    for subtask in range(3):
        states = attempt(storage, subtask=subtask)
        share = range(subtask * 4_000, (subtask + 1) * 4_000)
        states.get_list_state(NUMBERS).add_all(share)
        states.get_union_list_state(everything).add_all(share)
        snapshots.append(OperatorSnapshot(lists=stored(states)))
    found: list[int] = []
    for subtask, snapshot in enumerate(redistribute(snapshots, parallelism, 128)):
        before = set(storage.list_files(""))
        states = attempt(storage, snapshot.lists, subtask=subtask)
        found += states.get_list_state(NUMBERS).get()
        assert states.get_union_list_state(everything).get() == list(range(12_000))
        assert counts(stored(states)) == counts(snapshot.lists)
        assert set(storage.list_files("")) == before, "snapshots refer to the files that were restored"
    assert found == list(range(12_000))


@pytest.mark.parametrize("kind", ["lmdb", "on disk"])
def test_files_of_another_job_are_not_referred_to(attempt: Attempts, kind: str) -> None:
    theirs, ours = MemoryCheckpointStorage("large-state-theirs"), MemoryCheckpointStorage()
    states = attempt(theirs)
    states.get_list_state(NUMBERS).add_all(range(3_000))
    states.get_broadcast_state(RULES).put_all({str(number): number for number in range(3_000)})
    undeclared = MapStateDescriptor("undeclared", Types.LONG(), Types.LONG())
    states.get_broadcast_state(undeclared).put_all({number: number for number in range(3_000)})
    (snapshot,) = [OperatorSnapshot(lists=stored(states))]
    foreign = snapshot.with_files(lambda file: file.within(theirs.uri)).lists
    middle = attempt(ours, foreign, kind, owned=False)
    middle.get_list_state(NUMBERS)
    middle.get_broadcast_state(RULES)
    carried = stored(middle)
    theirs.delete(theirs.list_files(""))
    after = attempt(ours, carried)
    assert after.get_list_state(NUMBERS).get() == list(range(3_000))
    assert len(list(after.get_broadcast_state(RULES).keys())) == 3_000
    assert len(list(after.get_broadcast_state(undeclared).keys())) == 3_000


@pytest.mark.parametrize("kind", KINDS)
def test_large_state_of_a_narrower_type_under_another_name_comes_back(
    attempt: Attempts, storage: CheckpointStorage, kind: str
) -> None:
    states = attempt(storage)
    states.get_list_state(ListStateDescriptor("old", Types.INT())).add_all(range(3_000))
    old_rules = MapStateDescriptor("old rules", Types.INT(), Types.INT())
    states.get_broadcast_state(old_rules).put_all({number: number for number in range(3_000)})
    handles = stored(states)
    for _ in range(2):
        states = attempt(storage, handles, kind)
        items = states.get_list_state(ListStateDescriptor("new", Types.LONG()).renamed_from("old"))
        new_rules = MapStateDescriptor("new rules", Types.INT(), Types.LONG()).renamed_from("old rules")
        rules = states.get_broadcast_state(new_rules)
        assert items.get() == list(range(3_000))
        assert dict(rules.items()) == {number: number for number in range(3_000)}
        handles = stored(states)
        assert [handle.schema["value_type"] for handle in handles] == ["LONG", "LONG"]


def test_an_emptied_broadcast_state_need_not_be_declared(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage)
    rules = states.get_broadcast_state(RULES)
    rules.put_all({str(number): number for number in range(3_000)})
    states.opened()
    full = stored(states)
    rules.clear()
    assert rules.is_empty()
    for handles, expected in ((full, ["rules"]), (stored(states), [])):
        after = attempt(storage, handles)
        after.opened()
        assert [each.name for each in after.unclaimed()] == expected


def test_a_large_broadcast_state_can_be_read_without_the_job(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage)
    rules = states.get_broadcast_state(RULES)
    rules.put_all({str(number): number for number in range(3_000)})
    stored(states)
    rules.remove("0")
    rules.put("1", -1)
    (handle,) = stored(states)
    parts: list[tuple[int, ListPart]] = [(0, part) for part in handle.parts]
    where = StateLocation("uid", "source", "rules")
    state = OperatorSnapshotState(where, handle.mode, handle.schema, CheckedFiles(storage), parts)
    state.verify()
    found = {entry.map_key: entry.value for entry in state.entries()}
    assert found == {str(number): number for number in range(2, 3_000)} | {"1": -1}
    assert sum(len(batch) for batch in state.iter_batches()) == 2_999


@pytest.mark.parametrize("seed", range(6))
def test_every_backend_restores_what_any_backend_stored(
    attempt: Attempts, storage: CheckpointStorage, seed: int
) -> None:
    chance = random.Random(seed)
    numbers: list[int] = []
    rules: dict[Any, Any] = {}
    handles: Handles = ()
    for _ in range(8):
        states = attempt(storage, handles, chance.choice(KINDS))
        items, entries = states.get_list_state(NUMBERS), states.get_broadcast_state(ANY_RULES)
        assert items.get() == numbers
        assert dict(entries.items()) == rules
        for _ in range(chance.randrange(4)):
            if chance.random() < 0.15:
                items.clear()
                numbers = []
            if chance.random() < 0.1:
                entries.clear()
                rules = {}
            for _ in range(chance.choice([3, 700])):
                number = chance.randrange(2_000)
                items.add(number)
                numbers.append(number)
                if chance.random() < 0.3:
                    entries.remove(number)
                    rules.pop(number, None)
                else:
                    entries.put(number, [number])
                    rules[number] = [number]
            handles = stored(states)
        spill(states)
        assert items.get() == numbers
        assert dict(entries.items()) == rules
        handles = stored(states)


def test_what_a_declined_checkpoint_did_not_write_is_written_by_the_next(
    attempt: Attempts, storage: CheckpointStorage
) -> None:
    states = attempt(storage)
    items = states.get_list_state(NUMBERS)
    items.add_all(range(3_000))
    frozen = states.snapshot()
    del frozen  # its checkpoint was declined before anything was written
    assert attempt(storage, stored(states)).get_list_state(NUMBERS).get() == list(range(3_000))
