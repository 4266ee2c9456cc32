"""What the benchmarks of connectors share: rates in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ..parts import row

ROUNDS = 5


def compare(
    what: str,
    beside: str,
    records: int,
    job: Callable[[], None],
    bare: Callable[[], None],
    goal: float | None,
) -> None:
    """Run both in turns, and print a row with the medians and their ratio, by the clock.

    The CPU time of this process is printed beside, which other work on the machine disturbs less.

    Args:
        records: How many each of them handles.
        goal: The least ratio, if there is a goal.
    """
    by_clock: tuple[list[float], list[float]] = ([], [])
    by_cpu: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for place, work in enumerate((job, bare)):
            started, cpu_started = time.perf_counter(), time.process_time()
            work()
            by_clock[place].append(time.perf_counter() - started)
            by_cpu[place].append(time.process_time() - cpu_started)
    ours, theirs = (records / statistics.median(seconds) / 1e6 for seconds in by_clock)
    our_cpu, their_cpu = (statistics.median(seconds) for seconds in by_cpu)
    wanted = "" if goal is None else f" ≥ {goal:g} of"
    row(
        f"{what}{wanted or ' beside'} {beside}",
        f"{ours:.2f} M/s beside {theirs:.2f} M/s: {ours / theirs:.2f} "
        f"(CPU time of the process: {our_cpu:.1f} s beside {their_cpu:.1f} s)",
        None if goal is None else ours / theirs >= goal,
    )
