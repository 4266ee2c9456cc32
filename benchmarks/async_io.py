"""What the machinery of async functions costs: `python benchmarks/async_io.py [--records N]`.

The function does nothing but `await asyncio.sleep(0)`. The job runs in the local shell: one thread for the
tasks, one for the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from tidegate.common import Configuration, Time
from tidegate.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Yield(AsyncFunction):
    """Lets the event loop have a turn."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0)
        return [value]


def measure(records: int, wait: Any, capacity: int) -> tuple[float, float]:
    """Records a second, and a second of CPU."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    stream = wait(env.from_collection(range(records)), Yield(), Time.seconds(10), capacity)
    stream.filter(lambda value: False)
    started, cpu = time.perf_counter(), time.process_time()
    env.execute()
    return records / (time.perf_counter() - started), records / (time.process_time() - cpu)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    records = parser.parse_args().records
    for wait in (AsyncDataStream.unordered_wait, AsyncDataStream.ordered_wait):
        for capacity in (100, 1_000):
            rate, per_cpu = measure(records, wait, capacity)
            print(
                f"{wait.__name__} capacity {capacity:5}: {rate:9,.0f} records/s, {per_cpu:9,.0f} a CPU second"
            )


if __name__ == "__main__":
    main()
