"""How long checkpoints of a small job take: ten subtasks in ten processes, each with a little state.

With `--where` it also prints the mean length of each step of their critical paths, in milliseconds, for the
middle third and for the slowest twentieth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from tidegate.common import Types, WatermarkStrategy
from tidegate.coordinator.monitoring.critical_path import critical_path
from tidegate.coordinator.monitoring.statistics import CheckpointStatistics, Summary
from tidegate.datastream import StreamExecutionEnvironment

from ..jobs.parts import (
    CountSum,
    KeyOf,
    PacedNumbers,
    TallySink,
    configuration,
)
from ..jobs.probes import completed_since, orders_for, wait_for
from ..parts import row
from ..peers.measure import Orders

PARALLELISM = 2
INTERVAL_MS = 250
KEYS = 100
P50_MS, P99_MS = 60, 150


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


def main() -> None:
    """Let checkpoints pass and print how their durations are spread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--where", action="store_true")
    options = parser.parse_args()
    wanted = 20 if options.quick else 200
    orders = orders_for("durations", "ray", KEYS, "hashmap", interval_ms=INTERVAL_MS)
    client = ten_subtasks(orders).execute_async("durations")
    try:
        wait_for("a checkpoint", lambda: completed_since(client, 0))
        warm_ms = time.time() * 1000 + 2_000
        # Asked seldom: a report holds the whole history, and pickling it would be measured too.
        wait_for(f"{wanted} checkpoints", lambda: len(completed_since(client, warm_ms)) >= wanted, 5.0)
        completed = sorted(completed_since(client, warm_ms), key=lambda one: one.duration_ms)
        durations = Summary.of([one.duration_ms for one in completed])
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
        third, twentieth = len(completed) // 3, max(1, len(completed) // 20)
        row("where the time goes: the middle third", where_time_goes(completed[third : 2 * third]), None)
        row("where the time goes: the slowest twentieth", where_time_goes(completed[-twentieth:]), None)


if __name__ == "__main__":
    main()
