"""Snapshots: synchronous and asynchronous part, size of increments, restore, rescale, LMDB's file."""

from __future__ import annotations

import gc
import sys
import time
from statistics import median

import numpy as np
from tidegate.protocol.checkpoints.handles import KeyedStateHandle
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import StateBackend
from tidegate.state.keyed.keyed_backend import TableKeyedStateBackend
from tidegate.state.keyed.memory_budget import MemoryBudget
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb.store import LmdbStore
from tidegate.state.lmdb_backend import LmdbStateBackend

from benchmarks.parts import row
from benchmarks.state.common import (
    BATCH,
    DESCRIPTOR,
    Subtask,
    parameters,
    prepare_process,
    random_batches,
    scratch,
    sequential,
)

ROUNDS = 3


def filled(config: StateBackend, directory: str, keys: int) -> Subtask:
    subtask = Subtask(config.create_keyed_backend(parameters(directory)))
    for batch in sequential(keys):
        subtask.process(batch)
    subtask.checkpoint()
    subtask.handle()
    # As in a task's process: a full collection of a million live tuples takes half a second.
    gc.freeze()
    return subtask


def sync_part(sizes: list[int], changed: int) -> None:
    """The longest freezes of a number of changed keys, by keys in state."""
    p99 = {}
    for keys in sizes:
        with scratch() as directory:
            subtask = filled(LmdbStateBackend(memory_size_bytes=4 << 30), directory, keys)
            for _ in range(10):
                for batch in sequential(min(changed, keys)):
                    subtask.process(batch)
                subtask.checkpoint()
                subtask.handle()
            p99[keys] = float(np.percentile(subtask.freeze_ms[1:], 99))
            subtask.close()
    text = ", ".join(f"{keys:,}: {ms:.2f} ms" for keys, ms in p99.items())
    row(f"synchronous part, {changed:,} changed: <= 20 ms p99, flat", text, max(p99.values()) <= 20)


def async_part(keys: int, seconds: float) -> None:
    """Entries stored per second, alone and beside a loop that never pauses."""
    for name, config in (("memory", HashMapStateBackend()), ("LMDB", LmdbStateBackend())):
        with scratch() as directory:
            subtask = filled(config, directory, keys)
            alone = []
            for _ in range(ROUNDS):
                for batch in sequential(keys):
                    subtask.process(batch)
                subtask.checkpoint()
                subtask.handle()
                alone.append(keys / subtask.persist_s[-1])
            free = subtask.run(random_batches(keys), seconds)
            beside, rates = [], []
            for _ in range(ROUNDS):
                for batch in sequential(keys):
                    subtask.process(batch)
                subtask.checkpoint()
                start, done = time.perf_counter(), 0
                subtask.stall_ms.clear()
                batches = random_batches(keys, 256)
                while subtask.is_checkpointing:
                    subtask.process(batches[done % 256])
                    done += 1
                rates.append(done * BATCH / (time.perf_counter() - start))
                beside.append(keys / subtask.persist_s[-1])
            stall = float(np.percentile(subtask.stall_ms, 99)) if subtask.stall_ms else 0.0
            row(
                f"asynchronous part, {name}: >= 1 M entries/s",
                f"alone {median(alone) / 1e6:.2f} M/s, beside a busy loop {median(beside) / 1e6:.2f} M/s, "
                f"which goes on at {median(rates) / free:.2f} x its speed, pausing {stall:.0f} ms at p99",
                median(beside) >= 1e6,
            )
            subtask.close()


def increments(keys: int) -> None:
    """Bytes of an increment with 1 % of the keys changed."""
    with scratch() as directory:
        subtask = filled(LmdbStateBackend(), directory, keys)
        full = sum(segment.file.size_bytes for segment in subtask.handle().segments)
        chosen = np.random.default_rng(1).choice(keys, keys // 100, replace=False).tolist()
        before = set(subtask.handle().segments)
        for start in range(0, len(chosen), BATCH):
            subtask.process(chosen[start : start + BATCH])
        subtask.checkpoint()
        new = sum(segment.file.size_bytes for segment in subtask.handle().segments if segment not in before)
        subtask.close()
    share = new / full
    row("increment with 1 % changed <= 3 % of a full snapshot's bytes", f"{share:.2%}", share <= 0.03)


def restores(keys: int) -> None:
    """Restore, and rescale from two subtasks to four."""
    for name, config in (("memory", HashMapStateBackend()), ("LMDB", LmdbStateBackend())):
        with scratch() as directory:
            subtask = filled(config, directory, keys)
            handle = subtask.handle()
            subtask.close()
            times = [restored(config, directory, handle, 1, attempt) for attempt in range(1, 1 + ROUNDS)]
            seconds = median(times)
            row(f"restore of {keys:,} keys from files, {name}: <= 2 s", f"{seconds:.2f} s", seconds <= 2)
            row(
                f"restore of {keys:,} keys from local disk, {name}: <= 0.5 s",
                "no local copy of its own; the files above are on local disk",
                None,
            )
            handles = []
            for index in range(2):
                backend = config.create_keyed_backend(parameters(directory, 10, index, 2))
                own = key_group_range_of_subtask(index, 128, 2)
                backend.restore(handle.restricted_to(own), owned=False)
                backend.get_value_state(DESCRIPTOR)
                handles.append(backend.freeze().persist())
                backend.close()
            both = KeyedStateHandle.concatenated(handles)
            times = [restored(config, directory, both, 4, 20 + number) for number in range(ROUNDS)]
            row(
                f"rescale 2 to 4, {keys:,} keys, {name}: <= 4 s",
                f"{median(times):.2f} s, one after the other",
                median(times) <= 4,
            )


def restored(
    config: StateBackend, directory: str, handle: KeyedStateHandle, parallelism: int, attempt: int
) -> float:
    """Seconds until all subtasks have the state, one after the other."""
    start = time.perf_counter()
    backends = []
    for index in range(parallelism):
        backend = config.create_keyed_backend(parameters(directory, attempt, index, parallelism))
        own = key_group_range_of_subtask(index, 128, parallelism)
        backend.restore(handle.restricted_to(own), owned=True)
        backend.get_value_state(DESCRIPTOR)
        backends.append(backend)
    seconds = time.perf_counter() - start
    for backend in backends:
        backend.close()
    return seconds


def file_growth(keys: int, overwrites: int) -> None:
    """Random overwrites with a checkpoint each second: LMDB's file against the pages in use."""
    with scratch() as directory:
        place = parameters(directory)
        store = LmdbStore(f"{directory}/store", 256 << 20, "bench")
        subtask = Subtask(TableKeyedStateBackend(place, store, MemoryBudget(512 << 20)))
        batches = random_batches(keys)
        start = checkpointed = time.perf_counter()
        worst = 0.0
        for done in range(overwrites // BATCH):
            subtask.process(batches[done % len(batches)])
            now = time.perf_counter()
            if now - checkpointed >= 1 and not subtask.is_checkpointing:
                size = store.size()
                worst = max(worst, size.file_bytes / size.live_bytes)
                subtask.checkpoint()
                checkpointed = now
        subtask.handle()
        size = store.size()
        worst = max(worst, size.file_bytes / size.live_bytes)
        seconds = time.perf_counter() - start
        subtask.close()
    row(
        f"LMDB's file <= 2 x the pages in use after {overwrites:,} random overwrites of {keys:,} keys",
        f"at most {worst:.2f} x ({size.file_bytes >> 20} MiB; {len(subtask.freeze_ms)} checkpoints in "
        f"{seconds:.0f} s)",
        worst <= 2,
    )


def main() -> None:
    """All of it."""
    prepare_process()
    is_quick = "--quick" in sys.argv
    keys = 100_000 if is_quick else 1_000_000
    sync_part([10_000, keys] if is_quick else [100_000, keys, 10_000_000], keys)
    async_part(keys, 1.0)
    increments(keys)
    restores(keys)
    file_growth(keys, 20 * keys)


if __name__ == "__main__":
    main()
