"""Recovery after kill -9 of a keyed task: `python -m benchmarks.recovery [--rounds 3]`.

Fills one million keys in LMDB, waits for a checkpoint of all of them, kills the process of the
keyed task, and takes the time until it gives its first result again.
"""

from __future__ import annotations

import os
import signal
import statistics
import time

from . import expected
from .jobs.parts import TallySink
from .jobs.probes import WatchedCountSum, completed_since, mark, orders_for, shell_option, wait_for
from .jobs.workloads import keyed
from .plan import CHECKPOINT_INTERVAL_MS, K_LARGE


def measure(round_number: int) -> float:
    """Seconds from the kill to the first result after it.

    Raises:
        expected.WrongResultError: the first result shows that state was lost.
    """
    orders = orders_for(
        f"recovery-{round_number}",
        "ray",
        K_LARGE,
        "lmdb",
        interval_ms=CHECKPOINT_INTERVAL_MS,
        fill_records=K_LARGE + K_LARGE // 10,
    )
    job = keyed(orders, WatchedCountSum(orders.marks_dir), TallySink(orders))
    client = job.execute_async("recovery")
    try:
        wait_for("a full state", lambda: mark(orders, "filled"))
        full_ms = time.time() * 1000
        wait_for("a checkpoint of the full state", lambda: completed_since(client, full_ms))
        opened = mark(orders, "open-0")
        assert opened is not None, "a task that gave results must have been opened"
        killed_ns = time.monotonic_ns()
        os.kill(opened["pid"], signal.SIGKILL)
        first = wait_for("a result after the kill", lambda: mark(orders, "first-1"))
        expected.check_restored(orders, first["triple"])
        return float(first["at_ns"] - killed_ns) / 1e9
    finally:
        client.close()


def main() -> None:
    """Kills once per round and prints the times."""
    parser = shell_option(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.shell != "ray":
        parser.error("only the Ray shell has processes to kill")
    times = [measure(number) for number in range(1, options.rounds + 1)]
    print("kill -9 to first result, s:", ", ".join(f"{seconds:.2f}" for seconds in times))
    print(f"median {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
