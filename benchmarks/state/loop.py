"""Keyed state under load: a read-modify-write loop, a freeze each second, persisting on another thread.

    python benchmarks/state/loop.py [--seconds 6] [--json] [--switch-interval-ms 1]

Prints updates per second against a bare dict loop, the synchronous part (freeze) in milliseconds, the
asynchronous part (persist) in seconds per million entries alone and beside the loop, and restore time.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import KeyedStateHandle
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.serializers.key_hashing import key_groups_of
from tidegate.state.storage.checkpoint_storage import open_storage

BATCH = 4096
DESCRIPTOR = ValueStateDescriptor("total", Types.TUPLE([Types.LONG(), Types.LONG()]))


def key_batches(key_count: int) -> list[list[int]]:
    """Two million keys in batches, spread by a multiplicative hash as in workload W2."""
    numbers = np.arange(max(key_count, 2_000_000), dtype=np.int64) * 2654435761 % key_count
    return [numbers[at : at + BATCH].tolist() for at in range(0, len(numbers), BATCH)]


def update(backend: KeyedStateBackend, state: Any, batch: list[int]) -> None:
    """One batch of a running (count, sum)."""
    for key in batch:
        backend.current_key = key
        before = state.value()
        state.update((1, key) if before is None else (before[0] + 1, before[1] + key))


def bare_dict(batches: list[list[int]], seconds: float) -> float:
    """Updates per second of the same loop on a dict."""
    values: dict[int, tuple[int, int]] = {}
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for key in batches[done % len(batches)]:
            before = values.get(key)
            values[key] = (1, key) if before is None else (before[0] + 1, before[1] + key)
        done += 1
    return done * BATCH / (time.perf_counter() - start)


def parameters(directory: str, attempt: int) -> KeyedStateBackendParameters:
    """A backend that owns all key groups."""
    return KeyedStateBackendParameters(
        operator_uid="bench",
        operator_name="bench",
        subtask_index=0,
        attempt=attempt,
        max_parallelism=128,
        key_groups=KeyGroupRange(0, 127),
        key_type=Types.LONG(),
        local_dir=f"{directory}/local",
        storage=open_storage(f"{directory}/checkpoints"),
        file_prefix="bench",
    )


class Persisting:
    """The asynchronous part, and how long it took."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1)
        self.wall_s: list[float] = []
        self.cpu_s: list[float] = []
        self.last: Future[KeyedStateHandle] | None = None

    def submit(self, backend: KeyedStateBackend) -> float:
        """Freeze, hand over, and return the milliseconds of the freeze."""
        start = time.perf_counter()
        frozen = backend.freeze()
        freeze_ms = (time.perf_counter() - start) * 1e3

        def persist() -> KeyedStateHandle:
            wall, cpu = time.perf_counter(), time.thread_time()
            handle = frozen.persist()
            self.wall_s.append(time.perf_counter() - wall)
            self.cpu_s.append(time.thread_time() - cpu)
            return handle

        self.last = self.executor.submit(persist)
        return freeze_ms

    def handle(self) -> KeyedStateHandle:
        """Wait for the last one."""
        assert self.last is not None
        return self.last.result()


def loop(config: StateBackend, key_count: int, seconds: float) -> dict[str, float]:
    """Everything measured of one backend and key count."""
    directory = tempfile.mkdtemp()
    backend = config.create_keyed_backend(parameters(directory, 0))
    state = backend.get_value_state(DESCRIPTOR)
    batches = key_batches(key_count)
    for batch in batches[: key_count // BATCH + 1]:
        update(backend, state, batch)
    persisting = Persisting()
    persisting.submit(backend)
    persisting.handle()
    result = {"persist_alone_s": persisting.wall_s[0] * 1e6 / key_count}
    result["persist_alone_cpu_s"] = persisting.cpu_s[0] * 1e6 / key_count
    gc.collect()
    gc.freeze()
    gaps, freezes, done = [], [], 0
    start = last = frozen_at = time.perf_counter()
    while last - start < seconds:
        while not backend.is_ready:
            time.sleep(0.002)
        backend.prefetch(batches[done % len(batches)])
        update(backend, state, batches[done % len(batches)])
        done += 1
        if last - frozen_at >= 1.0 and (persisting.last is None or persisting.last.done()):
            freezes.append(persisting.submit(backend))
            frozen_at = last
        _ = backend.needs_spill
        now = time.perf_counter()
        gaps.append((now - last) * 1e3)
        last = now
    result["updates_per_s"] = done * BATCH / (last - start)
    result["freeze_p50_ms"] = statistics.median(freezes)
    result["freeze_max_ms"] = max(freezes)
    result["batch_p99_ms"] = float(np.percentile(gaps, 99))
    result["batch_max_ms"] = max(gaps)
    freezes.append(persisting.submit(backend))
    handle = persisting.handle()
    result["persist_beside_loop_s"] = statistics.median(persisting.wall_s[1:-1] or [0.0])
    result["checkpoints"] = len(freezes)
    result["segments"] = len(handle.segments)
    result["restore_s"] = restore_seconds(config, directory, handle, backend, key_count)
    backend.close()
    persisting.executor.shutdown()
    shutil.rmtree(directory)
    return result


def restore_seconds(
    config: StateBackend,
    directory: str,
    handle: KeyedStateHandle,
    original: KeyedStateBackend,
    key_count: int,
) -> float:
    """Seconds until a state is declared again over its segments; checks some values."""
    restored = config.create_keyed_backend(parameters(directory, 1))
    start = time.perf_counter()
    restored.restore(handle, owned=True)
    state = restored.get_value_state(DESCRIPTOR)
    seconds = time.perf_counter() - start
    expected = original.get_value_state(DESCRIPTOR)
    for key in range(0, key_count, 997):
        restored.current_key = original.current_key = key
        assert state.value() == expected.value(), key
    restored.close()
    return seconds


def hashing_seconds() -> float:
    """Best of five for the key groups of a million integers."""
    keys = list(range(1_000_000))

    def once() -> float:
        start = time.perf_counter()
        key_groups_of(keys, 128)
        return time.perf_counter() - start

    return min(once() for _ in range(5))


def main() -> None:
    """Run all cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--switch-interval-ms", type=float, default=1.0)
    arguments = parser.parse_args()
    gc.set_threshold(200_000, 50, 50)
    # LMDB's binding releases the GIL for every entry; how long it then waits is up to this.
    sys.setswitchinterval(arguments.switch_interval_ms / 1e3)
    results: dict[str, Any] = {"hash_1M_ints_s": hashing_seconds()}
    for key_count in (100_000, 1_000_000):
        dict_rate = bare_dict(key_batches(key_count), 2.0)
        results[f"dict {key_count}"] = {"updates_per_s": dict_rate}
        for name, config in (("memory", HashMapStateBackend()), ("lmdb", LmdbStateBackend())):
            measured = loop(config, key_count, arguments.seconds)
            measured["ratio_to_dict"] = measured["updates_per_s"] / dict_rate
            results[f"{name} {key_count}"] = measured
    if arguments.json:
        print(json.dumps(results))
        return
    for case, measured in results.items():
        print(case)
        for name, number in (measured if isinstance(measured, dict) else {"": measured}).items():
            print(f"    {name:24s}{number:14.4f}")


if __name__ == "__main__":
    main()
