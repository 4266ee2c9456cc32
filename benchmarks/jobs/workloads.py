"""W1, W2, W3 and W5 on Tidegate; run as `python -m benchmarks.jobs.workloads <orders>`."""

from __future__ import annotations

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment

from ..peers.measure import Orders, leave_mark
from .parts import TRIPLE, CountSum, KeyOf, TallySink, TimedNumbers, add_one, configuration, is_odd


def build(orders: Orders) -> StreamExecutionEnvironment:
    """The job, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    numbers = env.from_source(
        TimedNumbers(orders), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).uid("numbers")
    if orders.workload == "W1":
        results = numbers.map(add_one, output_type=Types.LONG()).filter(is_odd)
    else:
        by_key = numbers.key_by(KeyOf(orders.keys), key_type=Types.LONG())
        results = by_key.process(CountSum(), output_type=TRIPLE).uid("count-sum")
    results.sink_to(TallySink(orders)).uid("tally")
    return env


def main() -> None:
    """Runs one job to its end and leaves its checkpoint statistics."""
    orders = Orders.from_argv()
    client = build(orders).execute_async("benchmark")
    client.result()
    checkpoints = [
        {"duration_ms": one.duration_ms, "sync_ms": one.sync_ms, "size_bytes": one.new_bytes}
        for one in client.report().statistics.checkpoints
        if one.outcome.value == "completed"
    ]
    leave_mark(orders.marks_dir, "checkpoints", checkpoints=checkpoints)
    client.close()


if __name__ == "__main__":
    main()
