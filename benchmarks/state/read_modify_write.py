"""Read-modify-write of a (count, sum) per key: this backend, dicts, LMDB used directly, RocksDB."""

from __future__ import annotations

import gc
import struct
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import lmdb
from rocksdict import Options, Rdict
from tidegate.state.backend import StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend

from benchmarks.parts import row
from benchmarks.state.common import (
    BATCH,
    Subtask,
    parameters,
    prepare_process,
    random_batches,
    scratch,
    sequential,
)

ROUNDS = 3
_VALUE = struct.Struct("<qq")
_KEY = struct.Struct(">q")

Run = Callable[[list[list[int]], float], float]


class JournalingDict(dict[int, Any]):
    """A dict that remembers what changed, and can be frozen: what state must do at the least."""

    def __init__(self) -> None:
        super().__init__()
        self.dirty: dict[int, Any] = {}

    def __setitem__(self, key: int, value: Any) -> None:
        dict.__setitem__(self, key, value)
        self.dirty[key] = value

    def freeze(self) -> dict[int, Any]:
        frozen, self.dirty = self.dirty, {}
        return frozen


class JournalingState:
    """The same, in the shape of a `ValueState`."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.dirty: dict[int, Any] = {}
        self.current_key: Any = None

    def value(self) -> Any:
        return self.values.get(self.current_key)

    def update(self, value: Any) -> None:
        key = self.current_key
        self.values[key] = value
        self.dirty[key] = value


def timed(step: Callable[[list[int]], None]) -> Run:
    def run(batches: list[list[int]], seconds: float) -> float:
        start = now = time.perf_counter()
        done = 0
        while now - start < seconds:
            step(batches[done % len(batches)])
            done += 1
            now = time.perf_counter()
        return done * BATCH / (now - start)

    return run


def on_mapping(values: Any) -> Run:
    def step(batch: list[int]) -> None:
        for key in batch:
            before = values.get(key)
            values[key] = (1, key) if before is None else (before[0] + 1, before[1] + key)

    return timed(step)


def on_state(state: JournalingState) -> Run:
    def step(batch: list[int]) -> None:
        for key in batch:
            state.current_key = key
            before = state.value()
            state.update((1, key) if before is None else (before[0] + 1, before[1] + key))

    return timed(step)


def on_backend(config: StateBackend, directory: str, key_count: int, interval_s: float) -> Run:
    subtask = Subtask(config.create_keyed_backend(parameters(directory)))
    for batch in sequential(key_count):
        subtask.process(batch)
    subtask.checkpoint()
    subtask.handle()
    gc.freeze()
    return lambda batches, seconds: subtask.run(batches, seconds, interval_s)


def on_lmdb(directory: str, key_count: int) -> Run:
    """One write transaction per batch, no syncing: no checkpoint could be made of it."""
    env = lmdb.open(f"{directory}/lmdb", map_size=4 << 30, sync=False, metasync=False)

    def step(batch: list[int]) -> None:
        with env.begin(write=True) as transaction:
            for key in batch:
                raw = _KEY.pack(key)
                data = transaction.get(raw)
                count, total = (0, 0) if data is None else _VALUE.unpack(data)
                transaction.put(raw, _VALUE.pack(count + 1, total + key))

    for batch in sequential(key_count):
        step(batch)
    return timed(step)


def on_rocksdict(directory: str, key_count: int) -> Run:
    """Bytes in, bytes out, default options; nor is this a checkpoint."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    store = Rdict(f"{directory}/rocks", options)

    def step(batch: list[int]) -> None:
        for key in batch:
            raw = _KEY.pack(key)
            data = store.get(raw)
            count, total = (0, 0) if data is None else _VALUE.unpack(data)
            store[raw] = _VALUE.pack(count + 1, total + key)

    for batch in sequential(key_count):
        step(batch)
    return timed(step)


def medians(contenders: dict[str, Run], batches: list[list[int]], seconds: float) -> dict[str, float]:
    """Median rates; the contenders take turns, so that a slow moment of the machine meets all."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            rates[name].append(run(batches, seconds))
    return {name: median(found) for name, found in rates.items()}


def compared(rates: dict[str, float], own: str) -> str:
    others = ", ".join(f"{rates[own] / rate:.2f} x {name}" for name, rate in rates.items() if name != own)
    return f"{rates[own] / 1e6:.2f} M/s: {others}"


def main() -> None:
    """Hot keys, then a million random keys."""
    prepare_process()
    seconds = 0.5 if "--quick" in sys.argv else 2.0
    with scratch() as directory:
        hot = {
            "bare dict": on_mapping({}),
            "dict subclass": on_mapping(JournalingDict()),
            "bare state": on_state(JournalingState()),
            "memory": on_backend(HashMapStateBackend(), f"{directory}/m", 10_000, 0),
            "LMDB": on_backend(LmdbStateBackend(), f"{directory}/l", 10_000, 0),
            "lmdb alone": on_lmdb(directory, 10_000),
            "rocksdict": on_rocksdict(directory, 10_000),
        }
        rates = medians(hot, random_batches(10_000, 256), seconds)
        goal = "10k hot keys through LMDB >= 0.5 x a dict subclass with the same bookkeeping"
        row(goal, compared(rates, "LMDB"), rates["LMDB"] >= 0.5 * rates["dict subclass"])
        row("the same, in memory", compared(rates, "memory"), None)
    keys = 200_000 if "--quick" in sys.argv else 1_000_000
    with scratch() as directory:
        wide = {
            "LMDB": on_backend(LmdbStateBackend(), f"{directory}/l", keys, 1.0),
            "LMDB, 64 MiB": on_backend(
                LmdbStateBackend(memory_size_bytes=64 << 20), f"{directory}/s", keys, 1.0
            ),
            "lmdb alone": on_lmdb(directory, keys),
            "rocksdict": on_rocksdict(directory, keys),
        }
        rates = medians(wide, random_batches(keys), 2 * seconds)
        goal = f"{keys:,} random keys, a checkpoint each second, >= 2 x rocksdict (which makes none)"
        row(goal, compared(rates, "LMDB"), rates["LMDB"] >= 2 * rates["rocksdict"])
        row(
            "the same with 64 MiB of memory",
            compared(rates, "LMDB, 64 MiB"),
            rates["LMDB, 64 MiB"] >= 2 * rates["rocksdict"],
        )


if __name__ == "__main__":
    main()
