"""What the benchmarks of keyed state share: backends, key streams, checkpoints, rows of the table."""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import KeyedStateHandle
from tidegate.protocol.key_groups import KeyGroupRange, key_group_range_of_subtask
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.storage.checkpoint_storage import open_storage

BATCH = 4096
DESCRIPTOR = ValueStateDescriptor("total", Types.TUPLE([Types.LONG(), Types.LONG()]))
MAX_PARALLELISM = 128


def prepare_process() -> None:
    """Collector thresholds and switch interval as in a task's process."""
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.001)


@contextmanager
def scratch() -> Iterator[str]:
    """A directory for the length of a case."""
    directory = tempfile.mkdtemp(prefix="tidegate-bench-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def parameters(
    directory: str, attempt: int = 0, subtask: int = 0, parallelism: int = 1, stored: bool = True
) -> KeyedStateBackendParameters:
    """The place of a subtask; `stored` is whether there are checkpoints."""
    key_groups: KeyGroupRange = key_group_range_of_subtask(subtask, MAX_PARALLELISM, parallelism)
    return KeyedStateBackendParameters(
        operator_uid="bench",
        operator_name="bench",
        subtask_index=subtask,
        attempt=attempt,
        max_parallelism=MAX_PARALLELISM,
        key_groups=key_groups,
        key_type=Types.LONG(),
        local_dir=f"{directory}/local",
        storage=open_storage(f"{directory}/checkpoints") if stored else None,
        file_prefix="bench",
    )


def sequential(key_count: int) -> Iterator[list[int]]:
    """Every key once, in batches."""
    for start in range(0, key_count, BATCH):
        yield list(range(start, min(key_count, start + BATCH)))


def random_batches(key_count: int, batches: int = 1024, seed: int = 7) -> list[list[int]]:
    """Uniformly random keys."""
    numbers = np.random.default_rng(seed).integers(0, key_count, batches * BATCH)
    return [numbers[at : at + BATCH].tolist() for at in range(0, len(numbers), BATCH)]


def update(backend: KeyedStateBackend, state: Any, batch: list[int]) -> None:
    """One batch of a running (count, sum)."""
    for key in batch:
        backend.current_key = key
        before = state.value()
        state.update((1, key) if before is None else (before[0] + 1, before[1] + key))


class Subtask:
    """A backend driven as a task drives it: readiness, spills, and checkpoints on another thread."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self.backend = backend
        self.state = backend.get_value_state(DESCRIPTOR)
        self.freeze_ms: list[float] = []
        self.persist_s: list[float] = []
        self.stall_ms: list[float] = []
        self._executor = ThreadPoolExecutor(1)
        self._last: Future[KeyedStateHandle] | None = None

    def process(self, batch: list[int]) -> None:
        """One batch, as soon as the backend is ready, and a spill where it asks for one."""
        start = time.perf_counter()
        while not self.backend.is_ready:
            time.sleep(0.002)
        self.stall_ms.append((time.perf_counter() - start) * 1e3)
        self.backend.prefetch(batch)
        update(self.backend, self.state, batch)
        if self.backend.needs_spill:
            self._executor.submit(self.backend.spill().persist)

    @property
    def is_checkpointing(self) -> bool:
        """Whether the last checkpoint is still being stored."""
        return self._last is not None and not self._last.done()

    def checkpoint(self) -> None:
        """Freeze, and store on the other thread."""
        start = time.perf_counter()
        frozen = self.backend.freeze()
        self.freeze_ms.append((time.perf_counter() - start) * 1e3)

        def persist() -> KeyedStateHandle:
            begun = time.perf_counter()
            handle = frozen.persist()
            self.persist_s.append(time.perf_counter() - begun)
            return handle

        self._last = self._executor.submit(persist)

    def handle(self) -> KeyedStateHandle:
        """Wait for the last checkpoint."""
        assert self._last is not None
        return self._last.result()

    def run(self, batches: list[list[int]], seconds: float, interval_s: float = 0) -> float:
        """Updates per second over some seconds, with a checkpoint each `interval_s` (0: none)."""
        start = now = checkpointed = time.perf_counter()
        done = 0
        while now - start < seconds:
            self.process(batches[done % len(batches)])
            done += 1
            now = time.perf_counter()
            if interval_s and now - checkpointed >= interval_s and not self.is_checkpointing:
                self.checkpoint()
                checkpointed = now
        return done * BATCH / (now - start)

    def close(self) -> None:
        """Wait for what is under way, and close the backend."""
        self._executor.shutdown(wait=True)
        self.backend.close()
