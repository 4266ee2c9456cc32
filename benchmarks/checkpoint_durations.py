"""How long checkpoints of a small job take: ten subtasks in ten processes, each with a little state.

With `--where` it also prints the mean length of each step of their critical paths, in milliseconds, for the
middle third and for the slowest twentieth.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.coordinator.monitoring.critical_path import critical_path
from tidegate.coordinator.monitoring.statistics import CheckpointStatistics, Summary
from tidegate.datastream import StreamExecutionEnvironment

from . import environments
from .jobs.parts import CountSum, KeyOf, PacedNumbers, TallySink, configuration
from .parts import row
from .peers.measure import Orders

PARALLELISM = 2
INTERVAL_MS = 250
KEYS = 100
P50_MS, P99_MS = 60, 150
ENDLESS = 1_000_000_000
WAIT_LIMIT_S = 300.0


def ten_subtasks(orders: Orders) -> StreamExecutionEnvironment:
    """Source, counts per key, a map, counts of counts and sink: five tasks of two subtasks."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(PARALLELISM)
    env.disable_operator_chaining()
    source, no_watermarks = PacedNumbers(orders), WatermarkStrategy.no_watermarks()
    numbers = env.from_source(source, no_watermarks, "numbers", Types.LONG()).uid("numbers")
    key = KeyOf(KEYS)
    counted = numbers.key_by(key, key_type=Types.LONG()).process(CountSum()).name("count").uid("count")
    counts = counted.map(_count_of, output_type=Types.LONG()).name("count of").uid("count of")
    again = counts.key_by(key, key_type=Types.LONG()).process(CountSum()).name("again").uid("again")
    again.sink_to(TallySink(orders)).name("tally").uid("tally")
    return env


def _count_of(triple: tuple[int, int, int]) -> int:
    return triple[1]


def where_time_goes(checkpoints: Sequence[CheckpointStatistics]) -> str:
    """The mean length of each step of the critical paths, the longest first."""
    steps: dict[str, float] = {}
    for checkpoint in checkpoints:
        for step in critical_path(checkpoint).steps:
            name = step.name.removeprefix("checkpoint.")
            steps[name] = steps.get(name, 0.0) + step.duration_ms
    ordered = sorted(steps.items(), key=lambda step: -step[1])
    return ", ".join(f"{name} {total_ms / len(checkpoints):.1f}" for name, total_ms in ordered)


def fresh_orders() -> Orders:
    """Orders for an endless job, in empty folders."""
    folder = environments.cache_dir() / "durations"
    shutil.rmtree(folder, ignore_errors=True)
    marks, state = folder / "marks", folder / "state"
    for each in (marks, state):
        each.mkdir(parents=True)
    return Orders("W3", ENDLESS, KEYS, str(marks), str(state), shell="ray", interval_ms=INTERVAL_MS)


def completed(client: Any, since_ms: float, least: int, pause_s: float) -> list[CheckpointStatistics]:
    """The completed checkpoints that were triggered after a moment, as soon as there are enough.

    Args:
        client: Of the job.
        since_ms: The moment, in milliseconds of the epoch.
        least: How many are enough.
        pause_s: Seconds between two looks. A report holds the whole history, so to ask often would disturb.

    Raises:
        TimeoutError: There were not enough within five minutes.
    """
    end = time.monotonic() + WAIT_LIMIT_S
    while time.monotonic() < end:
        every = client.report().statistics.checkpoints
        found = [one for one in every if one.outcome.value == "completed" and one.triggered_ms >= since_ms]
        if len(found) >= least:
            return found
        time.sleep(pause_s)
    raise TimeoutError(f"fewer than {least} checkpoints within {WAIT_LIMIT_S:.0f} s")


def main() -> None:
    """Let checkpoints pass and print how their durations are spread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--where", action="store_true")
    options = parser.parse_args()
    wanted = 20 if options.quick else 200
    client = ten_subtasks(fresh_orders()).execute_async("durations")
    try:
        completed(client, 0, 1, 0.1)
        warm_ms = time.time() * 1000 + 2_000
        taken = sorted(completed(client, warm_ms, wanted, 5.0), key=lambda one: one.duration_ms)
        durations = Summary.of([one.duration_ms for one in taken])
        processes = len(client.processes())
    finally:
        client.close()
    assert durations is not None
    spread = f"p50 {durations.p50:.0f}, p99 {durations.p99:.0f}, longest {durations.maximum:.0f} ms"
    row(
        f"{wanted} checkpoints of {processes} subtasks with tiny state: p50 <= {P50_MS}, p99 <= {P99_MS} ms",
        spread,
        durations.p50 <= P50_MS and durations.p99 <= P99_MS,
    )
    if options.where:
        third, twentieth = len(taken) // 3, max(1, len(taken) // 20)
        row("where the time goes: the middle third", where_time_goes(taken[third : 2 * third]), None)
        row("where the time goes: the slowest twentieth", where_time_goes(taken[-twentieth:]), None)


if __name__ == "__main__":
    main()
