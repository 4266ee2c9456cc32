"""How long checkpoints of a small job take: ten subtasks in ten processes, each with a little state."""

from __future__ import annotations

import argparse
import time

from tidegate.common import Types, WatermarkStrategy
from tidegate.coordinator.statistics import Summary
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


def main() -> None:
    """Let checkpoints pass and print how their durations are spread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    wanted = 20 if parser.parse_args().quick else 200
    orders = orders_for("durations", "ray", KEYS, "hashmap", interval_ms=INTERVAL_MS)
    client = ten_subtasks(orders).execute_async("durations")
    try:
        wait_for("a checkpoint", lambda: completed_since(client, 0))
        warm_ms = time.time() * 1000 + 2_000
        # Asked seldom: a report holds the whole history, and pickling it would be measured too.
        wait_for(f"{wanted} checkpoints", lambda: len(completed_since(client, warm_ms)) >= wanted, 5.0)
        durations = Summary.of([one.duration_ms for one in completed_since(client, warm_ms)])
        processes = len(client.processes())
    finally:
        client.close()
    assert durations is not None
    spread = f"p50 {durations.p50:.0f}, p99 {durations.p99:.0f}, longest {durations.maximum:.0f} ms"
    row(
        f"{wanted} checkpoints of {processes} subtasks with tiny state: p50 <= 150 ms, p99 <= 400 ms",
        spread,
        durations.p50 <= 150 and durations.p99 <= 400,
    )


if __name__ == "__main__":
    main()
