"""The LMDB backend against plain dicts, driven by the same random steps.

Limits are tiny, so that nearly every step crosses a generation of the cache or a spill. A restore, to the
same parallelism or another, must give what a deep copy held at the freeze, whatever was changed in place
since. Clocks jump, storage fails, and namespaces merge.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tidegate.common.errors import CheckpointStorageError
from tidegate.protocol.checkpoints.handles import FileHandle, KeyedStateHandle
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import (
    FrozenKeyedState,
    KeyedStateBackend,
    KeyedStateBackendParameters,
    StateBackend,
)
from tidegate.state.keyed.keyed_backend import TableKeyedStateBackend
from tidegate.state.keyed.memory_budget import MemoryBudget
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb.store import LmdbStore
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .keyed_model import EXPIRING, PLAIN, TTL_MS, Contents, Slot, assert_shows, write

pytestmark = pytest.mark.slow

MAX_PARALLELISM = 16
# Few keys, so that steps meet; that every kind of key comes back is shown elsewhere. With two subtasks, the
# first belongs to another than the others.
KEYS = st.sampled_from([2, "a\0", "k" * 600])
NAMESPACES = st.sampled_from([(0, 10), "n" * 600])
MAP_KEYS = st.sampled_from([1, "m" * 600])
WHICH = st.integers(0, 29)
NUMBERS = st.integers(-3, 3) | st.sampled_from([1 << 66, -(1 << 66)])


class Unreliable(MemoryCheckpointStorage):
    """Fails the next `failures` writes."""

    failures = 0

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if self.failures:
            self.failures -= 1
            raise CheckpointStorageError("disk full")
        return super().write_file(path, data)


class KeyedStateMachine(RuleBasedStateMachine):
    config: Any = LmdbStateBackend(memory_size_bytes=1, initial_map_size_bytes=1 << 16)
    slots: list[Slot]
    has_storage = True

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.storage = Unreliable()
        self.attempt = 0
        self.has_failed = False
        self.model = Contents()
        self.waiting: list[tuple[list[FrozenKeyedState], Contents]] = []
        self.checkpoint: tuple[KeyedStateHandle, Contents] | None = None
        self.open(1)

    def open(self, parallelism: int) -> None:
        self.ranges = [
            key_group_range_of_subtask(subtask, MAX_PARALLELISM, parallelism)
            for subtask in range(parallelism)
        ]
        self.backends = [
            self.config.create_keyed_backend(
                KeyedStateBackendParameters(
                    operator_uid="uid",
                    operator_name="op",
                    subtask_index=subtask,
                    attempt=self.attempt,
                    max_parallelism=MAX_PARALLELISM,
                    key_groups=key_groups,
                    key_type=None,
                    local_dir=self.directory,
                    storage=self.storage if self.has_storage else None,
                    file_prefix="p",
                    now_ms=lambda: self.model.now_ms,
                )
            )
            for subtask, key_groups in enumerate(self.ranges)
        ]

    def close(self) -> None:
        for backend in self.backends:
            backend.close()

    @initialize()
    def declare(self) -> None:
        self.states = [{slot.name: slot.declare(backend) for slot in self.slots} for backend in self.backends]
        for backend in self.backends:
            backend.current_watermark = self.model.watermark

    def at(self, slot: Slot, key: Any, namespace: Any) -> tuple[Any, Any]:
        """Set the key; the state of the subtask that owns it, and its address in the model."""
        group = key_group_of(key, MAX_PARALLELISM)
        subtask = next(i for i, key_groups in enumerate(self.ranges) if key_groups.contains(group))
        backend = self.backends[subtask]
        backend.current_key, backend.current_namespace = key, namespace
        return self.states[subtask][slot.name], (key, namespace if slot.is_namespaced else None)

    def shows_the_model(self, slot: Slot, key: Any, namespace: Any) -> None:
        state, address = self.at(slot, key, namespace)
        assert_shows(slot, state, self.model.seen(slot, address))

    def everything_shows_the_model(self) -> None:
        for slot in self.slots:
            for key, namespace in self.model.addresses(slot):
                self.shows_the_model(slot, key, namespace)

    @rule(
        which=WHICH,
        key=KEYS,
        namespace=NAMESPACES,
        map_key=MAP_KEYS,
        numbers=st.lists(NUMBERS, min_size=1, max_size=2),
    )
    def change(self, which: int, key: Any, namespace: Any, map_key: Any, numbers: list[int]) -> None:
        slot = self.slots[which % len(self.slots)]
        state, address = self.at(slot, key, namespace)
        for number in numbers:
            write(slot, state, map_key, number)
            self.model.write(slot, address, map_key, number)

    @rule(which=WHICH, key=KEYS, namespace=NAMESPACES, map_key=st.none() | MAP_KEYS)
    def remove(self, which: int, key: Any, namespace: Any, map_key: Any) -> None:
        slot = self.slots[which % len(self.slots)]
        state, address = self.at(slot, key, namespace)
        if slot.kind == "map" and map_key is not None:
            state.remove(map_key)
            rest = [pair for pair in self.model.entries(slot, address) if pair[1][0] != map_key]
            self.model.store(slot, address, rest)
        else:
            state.clear()
            self.model.store(slot, address, [])

    @rule(which=WHICH, key=KEYS, into=NAMESPACES, sources=st.lists(NAMESPACES, max_size=2))
    def merge(self, which: int, key: Any, into: Any, sources: list[Any]) -> None:
        mergeable = [slot for slot in self.slots if slot.is_merged]
        slot = mergeable[which % len(mergeable)]
        state, _ = self.at(slot, key, into)
        for backend, states in zip(self.backends, self.states, strict=True):
            if states[slot.name] is state:
                backend.merge_namespaces(state, into, sources)
        self.model.merge(slot, key, into, sources)

    @rule(which=WHICH, key=KEYS, namespace=NAMESPACES)
    def read(self, which: int, key: Any, namespace: Any) -> None:
        self.shows_the_model(self.slots[which % len(self.slots)], key, namespace)

    @rule(count=st.integers(1, 3))
    def process(self, count: int) -> None:
        for backend in self.backends:
            backend.records_processed(count)

    @rule(keys=st.lists(KEYS, max_size=3))
    def prefetch(self, keys: list[Any]) -> None:
        for backend in self.backends:
            backend.prefetch(keys)

    @rule()
    def freeze(self) -> None:
        self.waiting.append(([backend.freeze() for backend in self.backends], copy.deepcopy(self.model)))

    @precondition(lambda self: self.waiting)
    @rule(failures=st.sampled_from([0, 0, 0, 1, 2]))
    def persist(self, failures: int) -> None:
        frozen, model = self.waiting.pop(0)
        self.storage.failures = failures
        self.has_failed = False
        try:
            handles = [part.persist() for part in frozen]
            if self.has_storage:
                self.checkpoint = KeyedStateHandle.concatenated(handles), model
        except CheckpointStorageError:
            assert failures
            self.has_failed = True
        self.storage.failures = 0

    @precondition(lambda self: not self.waiting)
    @rule()
    def spill(self) -> None:
        for backend in self.backends:
            try:
                is_due = backend.needs_spill
            except CheckpointStorageError:
                # What failed stays in memory, and that is more than the one byte it may have.
                assert self.has_failed
                is_due = False
            if is_due:
                backend.spill().persist()

    @precondition(lambda self: self.checkpoint is not None)
    @rule(owned=st.booleans(), parallelism=st.sampled_from([1, 2]))
    def crash_and_restore(self, owned: bool, parallelism: int) -> None:
        assert self.checkpoint is not None
        handle, model = self.checkpoint
        self.close()
        self.waiting.clear()
        self.attempt += 1
        self.open(parallelism)
        for backend, key_groups in zip(self.backends, self.ranges, strict=True):
            backend.restore(handle.restricted_to(key_groups), owned)
        # Time goes on whatever happens to the job.
        self.model = Contents(self.model.now_ms, self.model.watermark, copy.deepcopy(model.held))
        self.declare()
        self.everything_shows_the_model()

    def teardown(self) -> None:
        self.everything_shows_the_model()
        self.close()
        shutil.rmtree(self.directory)


class PlainMachine(KeyedStateMachine):
    slots = PLAIN


class ExpiringMachine(KeyedStateMachine):
    slots = EXPIRING

    @rule(
        jump_ms=st.sampled_from([1, TTL_MS // 2, TTL_MS - 1, TTL_MS, 5 * TTL_MS]), is_event_time=st.booleans()
    )
    def jump(self, jump_ms: int, is_event_time: bool) -> None:
        if not is_event_time:
            self.model.now_ms += jump_ms
            return
        self.model.watermark = (self.model.watermark or 0) + jump_ms
        for backend in self.backends:
            backend.current_watermark = self.model.watermark


@dataclass(frozen=True)
class Draining(StateBackend):
    """Makes columns of all changes after each batch, and a segment of each of these.

    In memory, or in LMDB once there is more than a page.
    """

    is_lmdb: bool

    def create_keyed_backend(self, params: KeyedStateBackendParameters) -> KeyedStateBackend:
        if not self.is_lmdb:
            return TableKeyedStateBackend(params, drain_entries=1, tiny_entries=0)
        store = LmdbStore(f"{params.local_dir}/{params.subtask_index}-{params.attempt}", 1 << 16, "op")
        return TableKeyedStateBackend(params, store, MemoryBudget(4_096), drain_entries=1, tiny_entries=0)

    def create_operator_backend(self, params: OperatorStateBackendParameters) -> OperatorStateBackend:
        return OperatorStateBackend(params)


class PlainMachineDraining(PlainMachine):
    config = Draining(is_lmdb=False)


class ExpiringMachineDraining(ExpiringMachine):
    config = Draining(is_lmdb=False)


class PlainMachineDrainingToLmdb(PlainMachine):
    config = Draining(is_lmdb=True)


class ExpiringMachineDrainingToLmdb(ExpiringMachine):
    config = Draining(is_lmdb=True)


class PlainMachineInMemory(PlainMachine):
    config = HashMapStateBackend()


class ExpiringMachineInMemory(ExpiringMachine):
    config = HashMapStateBackend()


class PlainMachineWithoutStorage(PlainMachine):
    config = LmdbStateBackend(memory_size_bytes=4_096, initial_map_size_bytes=1 << 16)
    has_storage = False


class ExpiringMachineWithoutStorage(ExpiringMachine):
    config = LmdbStateBackend(memory_size_bytes=4_096, initial_map_size_bytes=1 << 16)
    has_storage = False


class PlainMachineInMemoryWithoutStorage(PlainMachine):
    config = HashMapStateBackend()
    has_storage = False


def run_with(machine: Any, max_examples: int) -> Any:
    machine.TestCase.settings = settings(max_examples=max_examples, stateful_step_count=18)
    return machine.TestCase


TestPlainLmdb = run_with(PlainMachine, 120)
TestExpiringLmdb = run_with(ExpiringMachine, 120)
TestPlainMemory = run_with(PlainMachineInMemory, 60)
TestExpiringMemory = run_with(ExpiringMachineInMemory, 60)
TestPlainDraining = run_with(PlainMachineDraining, 90)
TestExpiringDraining = run_with(ExpiringMachineDraining, 90)
TestPlainDrainingToLmdb = run_with(PlainMachineDrainingToLmdb, 90)
TestExpiringDrainingToLmdb = run_with(ExpiringMachineDrainingToLmdb, 90)
TestPlainWithoutStorage = run_with(PlainMachineWithoutStorage, 120)
TestExpiringWithoutStorage = run_with(ExpiringMachineWithoutStorage, 120)
TestPlainMemoryWithoutStorage = run_with(PlainMachineInMemoryWithoutStorage, 60)
