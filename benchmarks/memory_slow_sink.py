"""Bounded memory: `python -m benchmarks.memory_slow_sink [--shell ray] [--seconds 60]`.

W2 with 10,000 keys runs into a sink that takes a hundred times its usual time per record. The memory of every
process is sampled each second, a page that n processes share as an n-th; memory is flat where the median of
the last sixth of the samples is not above that of the first sixth by more than the tolerance.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import psutil

from .jobs.parts import CountSum
from .jobs.probes import SlowSink, orders_for, shell_option
from .jobs.workloads import keyed
from .plan import K_SMALL
from .processes import ProcessTree

# An unhindered sink with its channel takes about 1.5 µs a record.
SLOW_RECORD_US = 150.0
SETTLE_S = 15.0
TOLERANCE_BYTES = 8 * 2**20


def sample(seconds: float) -> dict[int, tuple[str, list[int]]]:
    """Name and sizes in bytes, once a second, of this process and all it started, by pid."""
    tree = ProcessTree([psutil.Process(os.getpid())])
    history: dict[int, tuple[str, list[int]]] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for pid, (name, size) in tree.sizes().items():
            history.setdefault(pid, (name, []))[1].append(size)
        time.sleep(1.0)
    return history


def growth_bytes(sizes: list[int]) -> float:
    """Median of the last sixth minus median of the first sixth."""
    part = max(1, len(sizes) // 6)
    return statistics.median(sizes[-part:]) - statistics.median(sizes[:part])


def report(history: dict[int, tuple[str, list[int]]]) -> bool:
    """Prints a line per process; whether all of them are flat."""
    all_flat = True
    print(f"{'pid':>8}  {'first MiB':>9}  {'last MiB':>9}  {'growth MiB':>10}  process")
    for pid, (name, sizes) in sorted(history.items()):
        growth = growth_bytes(sizes)
        is_flat = growth <= TOLERANCE_BYTES
        all_flat = all_flat and is_flat
        numbers = f"{sizes[0] / 2**20:9.1f}  {sizes[-1] / 2**20:9.1f}  {growth / 2**20:10.1f}"
        print(f"{pid:>8}  {numbers}  {'' if is_flat else 'GROWS '}{name[:60]}")
    print("memory is flat" if all_flat else "memory is NOT flat")
    return all_flat


def main() -> int:
    """Runs the job for a while; the exit status is 1 if anything grows."""
    parser = shell_option(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    orders = orders_for("slow-sink", options.shell, K_SMALL, "hashmap")
    job = keyed(orders, CountSum(), SlowSink(SLOW_RECORD_US), chain_sink=False)
    client = job.execute_async("slow sink")
    try:
        time.sleep(SETTLE_S)
        history = sample(options.seconds)
    finally:
        client.close()
    return 0 if report(history) else 1


if __name__ == "__main__":
    sys.exit(main())
