"""Random updates of a (count, sum) per key in memory and in LMDB, and the memory that a key takes.

    python -m benchmarks.operators.many_keys [--quick] [--keys 10000000] [--memory-mib 512]

Each backend fills its state in a process of its own, and then updates random keys. Nothing makes checkpoints.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
from tidegate.common.typeinfo import Types
from tidegate.state.backend import KeyedStateBackend
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend

from ..parts import row
from .alone import keyed_backend, prepare_process

BATCH = 4_096
MIB = 1 << 20
GOAL_OF_HASHMAP = 0.5
GOAL_BYTES = 80
DESCRIPTOR = ValueStateDescriptor("total", Types.TUPLE([Types.LONG(), Types.LONG()]))


@dataclass(frozen=True)
class Found:
    """What one process measured.

    Attributes:
        rate: Random updates per second.
        bytes_a_key: By how much the process grew while it filled the state, for each key.
        peak_mib: Its highest resident size, with the mapped pages of LMDB.
    """

    rate: float
    bytes_a_key: float
    peak_mib: float


def updates(backend: KeyedStateBackend, batches: list[list[int]], seconds: float = float("inf")) -> float:
    """Update the keys of batches, once or again and again for some seconds; updates per second."""
    state = backend.get_value_state(DESCRIPTOR)
    start = now = time.perf_counter()
    done = 0
    while now - start < seconds and (seconds < float("inf") or done < len(batches)):
        batch = batches[done % len(batches)]
        while not backend.is_ready:
            time.sleep(0.002)
        backend.prefetch(batch)
        for key in batch:
            backend.current_key = key
            before = state.value()
            state.update((1, key) if before is None else (before[0] + 1, before[1] + key))
        if backend.needs_spill:
            backend.spill().persist()
        done, now = done + 1, time.perf_counter()
    return done * BATCH / (now - start)


def measured(kind: str, keys: int, memory_mib: int, seconds: float) -> Found:
    """Fill one backend in this process, and update random keys."""
    prepare_process()
    random = np.random.default_rng(7).integers(0, keys, 1024 * BATCH)
    chosen = [random[at : at + BATCH].tolist() for at in range(0, len(random), BATCH)]
    config = (
        HashMapStateBackend() if kind == "hashmap" else LmdbStateBackend(memory_size_bytes=memory_mib * MIB)
    )
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        backend = keyed_backend(config, Types.LONG(), directory)
        gc.collect()
        process = psutil.Process()
        before = process.memory_info().rss
        for first in range(0, keys, BATCH):
            updates(backend, [list(range(first, min(first + BATCH, keys)))])
        gc.collect()
        grown = process.memory_info().rss - before
        gc.freeze()
        rate = updates(backend, chosen, seconds)
        backend.close()
    peak = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return Found(rate, grown / keys, int(peak.split()[1]) / 1024)


def main() -> None:
    """Measure each backend in a process of its own, and print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators.many_keys", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test with 200,000 keys")
    parser.add_argument("--keys", type=int, default=10_000_000, help="default: %(default)s")
    parser.add_argument("--memory-mib", type=int, default=512, help="of LMDB; default: %(default)s")
    parser.add_argument("--once", choices=("hashmap", "lmdb"), help="one backend in this process, as JSON")
    options = parser.parse_args()
    keys, seconds = (200_000, 0.5) if options.quick else (options.keys, 8.0)
    if options.once:
        print(json.dumps(asdict(measured(options.once, keys, options.memory_mib, seconds))))
        return
    found = {}
    for kind in ("hashmap", "lmdb"):
        command = [sys.executable, "-m", "benchmarks.operators.many_keys", "--once", kind, *sys.argv[1:]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        one = found[kind] = Found(**json.loads(done.stdout))
        row(
            f"{keys:,} keys, {kind}: random updates",
            f"{one.rate / 1e3:,.0f} k/s; highest resident size {one.peak_mib:,.0f} MiB",
            None,
        )
    ratio = found["lmdb"].rate / found["hashmap"].rate
    goal = f"LMDB with {options.memory_mib} MiB: random updates >= {GOAL_OF_HASHMAP:g} of hashmap"
    row(goal, f"{ratio:.2f}", ratio >= GOAL_OF_HASHMAP)
    size = found["hashmap"].bytes_a_key
    row(f"memory of a key (two integers) in hashmap <= {GOAL_BYTES} bytes", f"{size:.0f}", size <= GOAL_BYTES)


if __name__ == "__main__":
    main()
