"""The synchronous part of snapshots: `python -m benchmarks.snapshot_sync [--shell ray]`.

Fills the state of W3 with K = 100,000 and K = 1,000,000 keys, lets thirty checkpoints pass, and
prints the distribution of the time the keyed task stood still for each of them.
"""

from __future__ import annotations

import statistics
import time

from .jobs.parts import CountSum, TallySink
from .jobs.probes import completed_since, mark, orders_for, shell_option, wait_for
from .jobs.workloads import keyed
from .plan import CHECKPOINT_INTERVAL_MS

CHECKPOINTS = 30
KEYS = (100_000, 1_000_000)


def measure(shell: str, keys: int) -> list[float]:
    """The longest synchronous part, in milliseconds, of each checkpoint of a full state."""
    orders = orders_for(
        f"sync-{keys}",
        shell,
        keys,
        "lmdb",
        interval_ms=CHECKPOINT_INTERVAL_MS,
        fill_records=keys + keys // 10,
    )
    client = keyed(orders, CountSum(), TallySink(orders)).execute_async("snapshot sync")
    try:
        wait_for("a full state", lambda: mark(orders, "filled"))
        full_ms = time.time() * 1000
        wait_for(f"{CHECKPOINTS} checkpoints", lambda: len(completed_since(client, full_ms)) >= CHECKPOINTS)
        return [one.sync_ms for one in completed_since(client, full_ms)]
    finally:
        client.close()


def main() -> None:
    """Measures both sizes and prints a table."""
    shell = shell_option(__doc__).parse_args().shell
    print(f"{'K':>9}  checkpoints  p50 ms  p99 ms  longest ms")
    for keys in KEYS:
        samples = measure(shell, keys)
        p99 = statistics.quantiles(samples, n=100, method="inclusive")[98]
        middle = statistics.median(samples)
        print(f"{keys:>9,}  {len(samples):>11}  {middle:6.2f}  {p99:6.2f}  {max(samples):10.2f}")


if __name__ == "__main__":
    main()
