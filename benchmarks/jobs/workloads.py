"""The workloads on Tidegate; run as `python -m benchmarks.jobs.workloads <orders>`."""

from __future__ import annotations

from importlib import import_module

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment

from ..peers.measure import Orders, leave_mark
from .parts import KeyOf, TallySink, TimedNumbers, add_one, configuration, is_odd, keyed_totals


def stateless(orders: Orders) -> StreamExecutionEnvironment:
    """W1, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    numbers = env.from_source(
        TimedNumbers(orders), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    results = numbers.map(add_one, output_type=Types.LONG()).filter(is_odd)
    results.sink_to(TallySink(orders))
    return env


def keyed(orders: Orders) -> StreamExecutionEnvironment:
    """W2, W3 and W5, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    numbers = env.from_source(
        TimedNumbers(orders), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).uid("numbers")
    by_key = numbers.key_by(KeyOf(orders.keys), key_type=Types.LONG())
    keyed_totals(by_key).sink_to(TallySink(orders)).uid("tally")
    return env


def build(orders: Orders) -> StreamExecutionEnvironment:
    """The job of a workload, ready to be executed.

    Only that one's module is imported, so that the time of a small job's start is its own.
    """
    if orders.workload == "W1":
        return stateless(orders)
    builders = {
        "W4": "event_time.windows",
        "W6": "joining.join",
        "W7": "paced.latency",
        "changing": "paced.changing",
    }
    is_columnar_total = orders.mode == "columns" and orders.workload not in builders
    name = "columnar.running" if is_columnar_total else builders.get(orders.workload)
    if name is None:
        return keyed(orders)
    module, _, function = name.partition(".")
    job: StreamExecutionEnvironment = getattr(import_module(f".{module}", __package__), function)(orders)
    return job


def main() -> None:
    """Runs one job to its end and leaves its checkpoint statistics."""
    orders = Orders.from_argv()
    client = build(orders).execute_async("benchmark")
    client.result()
    checkpoints = [
        {
            "triggered_ms": one.triggered_ms,
            "duration_ms": one.duration_ms,
            "sync_ms": one.sync_ms,
            "size_bytes": one.new_bytes,
        }
        for one in client.report().statistics.checkpoints
        if one.outcome.value == "completed"
    ]
    leave_mark(orders.marks_dir, "checkpoints", checkpoints=checkpoints)
    client.close()


if __name__ == "__main__":
    main()
