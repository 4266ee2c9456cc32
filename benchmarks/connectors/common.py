"""What the benchmarks of connectors share: an environment, and rates in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment

from ..goals import row

ROUNDS = 5


def environment(directory: str) -> StreamExecutionEnvironment:
    """One task in the local shell, with a checkpoint each second."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "tidegate.local-dir": f"{directory}/local",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.interval": "1 s",
    }.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


def compare(
    what: str,
    beside: str,
    records: int,
    job: Callable[[], None],
    bare: Callable[[], None],
    goal: float | None,
) -> None:
    """Run both in turns, and print a row with the medians and their ratio.

    Args:
        records: How many each of them handles.
        goal: The least ratio, if there is a goal.
    """
    job_s: list[float] = []
    bare_s: list[float] = []
    for _ in range(ROUNDS):
        for seconds, work in ((bare_s, bare), (job_s, job)):
            started = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - started)
    ours, theirs = (records / statistics.median(seconds) / 1e6 for seconds in (job_s, bare_s))
    ratio = ours / theirs
    wanted = "" if goal is None else f" ≥ {goal:g} of"
    row(
        f"{what}{wanted or ' beside'} {beside}",
        f"{ours:.2f} M/s beside {theirs:.2f} M/s: {ratio:.2f}",
        None if goal is None else ratio >= goal,
    )
