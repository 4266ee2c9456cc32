"""The LMDB backend against plain dicts, driven by the same random steps.

Limits are tiny, so that nearly every step crosses a generation of the cache or a spill. A restore must
give what a deep copy held at the freeze, whatever was changed in place since.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tidegate.common.errors import CheckpointStorageError
from tidegate.common.typeinfo import Types
from tidegate.protocol.handles import FileHandle, KeyedStateHandle
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import FrozenKeyedState, HashMapStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.memory_storage import MemoryCheckpointStorage

# Few keys, so that steps meet; that every kind of key comes back is shown elsewhere.
KEYS = st.sampled_from([0, "a\0", "k" * 600])
MAP_KEYS = st.sampled_from([1, "m" * 600])
NUMBERS = st.integers(-(1 << 66), 1 << 66)
TOTAL = ValueStateDescriptor("total", Types.LONG())
BOX = ValueStateDescriptor("box")
ITEMS = ListStateDescriptor("items", Types.LONG())
ENTRIES = MapStateDescriptor("entries")

Model = dict[str, dict[Any, Any]]


class Unreliable(MemoryCheckpointStorage):
    """Fails the next `failures` writes."""

    failures = 0

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if self.failures:
            self.failures -= 1
            raise CheckpointStorageError("disk full")
        return super().write_file(path, data)


class KeyedStateMachine(RuleBasedStateMachine):
    config: Any = LmdbStateBackend(cache_entries=1, write_buffer_entries=2, initial_map_size_bytes=1 << 16)

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.storage = Unreliable()
        self.attempt = 0
        self.model: Model = {"total": {}, "box": {}, "items": {}, "entries": {}}
        self.waiting: list[tuple[FrozenKeyedState, Model]] = []
        self.checkpoint: tuple[KeyedStateHandle, Model] | None = None
        self.open()

    def open(self) -> None:
        self.backend = self.config.create_keyed_backend(
            KeyedStateBackendParameters(
                "uid",
                "op",
                0,
                self.attempt,
                16,
                KeyGroupRange(0, 15),
                None,
                self.directory,
                self.storage,
                "p",
            )
        )

    def declare(self) -> None:
        self.total = self.backend.get_value_state(TOTAL)
        self.box = self.backend.get_value_state(BOX)
        self.items = self.backend.get_list_state(ITEMS)
        self.entries = self.backend.get_map_state(ENTRIES)

    @initialize()
    def start(self) -> None:
        self.declare()

    @rule(key=KEYS, number=NUMBERS)
    def set_total(self, key: Any, number: int) -> None:
        self.backend.current_key = key
        self.total.update(number)
        self.model["total"][key] = number

    @rule(key=KEYS, number=NUMBERS)
    def change_box_in_place(self, key: Any, number: int) -> None:
        self.backend.current_key = key
        box = self.box.value()
        if box is None:
            box = {"log": []}
        box["log"].append(number)
        self.box.update(box)
        self.model["box"].setdefault(key, {"log": []})["log"].append(number)

    @rule(key=KEYS, number=NUMBERS)
    def add_item(self, key: Any, number: int) -> None:
        self.backend.current_key = key
        self.items.add(number)
        self.model["items"].setdefault(key, []).append(number)

    @rule(key=KEYS, map_key=MAP_KEYS, number=NUMBERS)
    def change_entry_in_place(self, key: Any, map_key: Any, number: int) -> None:
        self.backend.current_key = key
        entry = self.entries.get(map_key) or []
        entry.append(number)
        self.entries.put(map_key, entry)
        self.model["entries"].setdefault(key, {}).setdefault(map_key, []).append(number)

    @rule(key=KEYS, map_key=MAP_KEYS)
    def remove_entry(self, key: Any, map_key: Any) -> None:
        self.backend.current_key = key
        self.entries.remove(map_key)
        self.model["entries"].get(key, {}).pop(map_key, None)

    @rule(key=KEYS, name=st.sampled_from(["total", "box", "items", "entries"]))
    def clear(self, key: Any, name: str) -> None:
        self.backend.current_key = key
        getattr(self, name).clear()
        self.model[name].pop(key, None)

    @rule()
    def freeze(self) -> None:
        self.waiting.append((self.backend.freeze(), copy.deepcopy(self.model)))

    @precondition(lambda self: self.waiting)
    @rule(failures=st.sampled_from([0, 0, 0, 1, 2]))
    def persist(self, failures: int) -> None:
        frozen, model = self.waiting.pop(0)
        self.storage.failures = failures
        try:
            self.checkpoint = frozen.persist(), model
        except CheckpointStorageError:
            assert failures
        self.storage.failures = 0

    @precondition(lambda self: not self.waiting)
    @rule()
    def spill(self) -> None:
        if self.backend.needs_spill:
            self.backend.spill().persist()

    @precondition(lambda self: self.checkpoint is not None)
    @rule(owned=st.booleans())
    def crash_and_restore(self, owned: bool) -> None:
        assert self.checkpoint is not None
        handle, model = self.checkpoint
        self.backend.close()
        self.waiting.clear()
        self.attempt += 1
        self.open()
        self.backend.restore(handle, owned)
        self.declare()
        self.model = copy.deepcopy(model)
        self.everything_equals_the_model()

    @rule(key=KEYS)
    def one_key_equals_the_model(self, key: Any) -> None:
        self.backend.current_key = key
        total = self.model["total"].get(key)
        assert self.total.value() == total
        assert self.box.value() == self.model["box"].get(key)
        assert self.items.get() == self.model["items"].get(key, [])
        assert dict(self.entries.items()) == self.model["entries"].get(key, {})
        assert self.entries.is_empty() == (not self.model["entries"].get(key))

    def everything_equals_the_model(self) -> None:
        for key in {key for table in self.model.values() for key in table}:
            self.one_key_equals_the_model(key)

    def teardown(self) -> None:
        self.everything_equals_the_model()
        self.backend.close()
        shutil.rmtree(self.directory)


class MemoryStateMachine(KeyedStateMachine):
    config = HashMapStateBackend()


TestLmdb = KeyedStateMachine.TestCase
TestLmdb.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMemory = MemoryStateMachine.TestCase
TestMemory.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
