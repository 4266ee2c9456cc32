"""Recovery after kill -9, K = 1M in LMDB: from the kill to the first result after it.

Fills the state, waits for a checkpoint of all of it, and kills the process of the keyed task or that of
the coordinator, with which all tasks die.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import time
from typing import Any

import psutil

from .. import expected
from ..jobs.parts import TallySink
from ..jobs.probes import (
    WatchedCountSum,
    completed_since,
    first_since,
    mark,
    orders_for,
    wait_for,
)
from ..jobs.workloads import keyed
from ..parts import row
from ..plan import CHECKPOINT_INTERVAL_MS, K_LARGE

ROUNDS = 3
TASKS = 2
GOALS_S = {("task", True): 3, ("task", False): 5, ("coordinator", True): 5, ("coordinator", False): 5}
NAMES = {
    "task": "kill -9 of a task to the first record",
    "coordinator": "coordinator kill: pause of the tasks",
}


def measure(victim: str, is_local: bool, spares: int, keys: int) -> float:
    """Seconds from the kill to the first result after it, with a number of redundant processes.

    Raises:
        expected.WrongResultError: the first result shows that state was lost.
    """
    orders = orders_for(
        f"recovery-{victim}",
        "ray",
        keys,
        "lmdb",
        interval_ms=CHECKPOINT_INTERVAL_MS,
        fill_records=keys + keys // 10,
        options={
            "state.backend.local-recovery": str(is_local).lower(),
            "slotmanager.redundant-taskmanager-num": str(spares),
        },
    )
    job = keyed(orders, WatchedCountSum(orders.marks_dir), TallySink(orders))
    client = job.execute_async("recovery")
    try:
        wait_for("a full state", lambda: mark(orders, "filled"))
        full_ms = time.time() * 1000
        wait_for("a checkpoint of the full state", lambda: completed_since(client, full_ms))
        wait_for("redundant processes", lambda: len(client.processes()) >= TASKS + spares)
        pid = _task_pid(orders) if victim == "task" else _coordinator_pid()
        killed_ns = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        first = wait_for("a result after the kill", lambda: first_since(orders, killed_ns))
        expected.check_restored(orders, first["triple"])
        return float(first["at_ns"] - killed_ns) / 1e9
    finally:
        client.close()


def _task_pid(orders: Any) -> int:
    opened = mark(orders, "open-0")
    assert opened is not None, "a task that gave results must have been opened"
    return int(opened["pid"])


def _coordinator_pid() -> int:
    """Ray runs below this process, and names its workers after the actors in them."""
    members = psutil.Process().children(recursive=True)
    (pid,) = [each.pid for each in members if each.cmdline()[:1] == ["ray::CoordinatorActor"]]
    return pid


def main() -> None:
    """Kill once per round and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kill", choices=sorted(NAMES), default="task")
    parser.add_argument("--local", action="store_true", help="with task-local recovery")
    parser.add_argument("--spares", type=int, default=0, help="redundant processes")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    keys, rounds = (K_LARGE // 10, 1) if options.quick else (K_LARGE, options.rounds)
    times = sorted(measure(options.kill, options.local, options.spares, keys) for _ in range(rounds))
    goal_s, middle_s = GOALS_S[options.kill, options.local], statistics.median(times)
    local = "with local recovery" if options.local else "without local recovery"
    if options.spares:
        local += ", with a redundant process"
    row(
        f"{NAMES[options.kill]}, K={keys:,}, {local}: <= {goal_s} s",
        f"{middle_s:.2f} s ({times[0]:.2f} to {times[-1]:.2f})",
        middle_s <= goal_s,
    )


if __name__ == "__main__":
    main()
