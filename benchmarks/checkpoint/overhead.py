"""What checkpoints cost: W2 with a million keys, with and without one each second."""

from __future__ import annotations

import argparse
import statistics

from .. import expected
from ..jobs.parts import CountSum, TallySink
from ..jobs.probes import mark, orders_for
from ..jobs.workloads import keyed
from ..parts import row
from ..plan import CHECKPOINT_INTERVAL_MS, K_LARGE

ROUNDS = 3
RECORDS = 4_000_000


def throughput(backend: str, interval_ms: int, records: int) -> float:
    """Records per second of one run.

    Raises:
        expected.WrongResultError: its answer is wrong.
    """
    orders = orders_for("overhead", "ray", K_LARGE, backend, records=records, interval_ms=interval_ms)
    client = keyed(orders, CountSum(), TallySink(orders)).execute_async("overhead")
    try:
        client.result()
    finally:
        client.close()
    start, end = (mark(orders, name) or {} for name in ("start-numbers-0", "end-0"))
    expected.check_totals(orders, [end])
    return records / (end["last_ns"] - start["at_ns"]) * 1e9


def measure(backend: str, records: int, rounds: int) -> None:
    """Both in turns, and their row."""
    found: dict[int, list[float]] = {0: [], CHECKPOINT_INTERVAL_MS: []}
    for _ in range(rounds):
        for interval_ms, speeds in found.items():
            speeds.append(throughput(backend, interval_ms, records))
    without, with_them = (statistics.median(speeds) for speeds in found.values())
    cost = 1 - with_them / without
    each = "; ".join(", ".join(f"{speed / 1e3:.0f}" for speed in speeds) for speeds in found.values())
    row(
        f"overhead of a checkpoint each second, W2 K=1M, {backend}: <= 10 %",
        f"{cost:.0%}: {without / 1e3:.0f} k/s without, {with_them / 1e3:.0f} k/s with them ({each})",
        cost <= 0.1,
    )


def main() -> None:
    """Measure both backends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for backend in ("hashmap", "lmdb"):
        measure(backend, RECORDS // 4 if quick else RECORDS, 1 if quick else ROUNDS)


if __name__ == "__main__":
    main()
