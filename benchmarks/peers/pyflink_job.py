"""The workloads on PyFlink's DataStream API in its embedded mini cluster.

In thread mode Python runs in the JVM's process; `mode` is `process` for workers of their own.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from latency import SECOND_NS, LatencyTally
from measure import (
    DISORDER_MS,
    MULTIPLIER,
    WINDOW_MS,
    Orders,
    Tally,
    event_time_ms,
    leave_mark,
    right_id,
)
from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import (
    AggregateFunction,
    FilterFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows

REST_PORT = int(os.environ.get("BENCH_PORTS", "18081").split()[0])
TRIPLE = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
Accumulator = tuple[int, int]


class AddOne(MapFunction):
    """W1's map; record 0 is the first one and starts the clock."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def map(self, value: int) -> int:
        if value == 0:
            leave_mark(self._orders.marks_dir, "start")
        return value + 1


class CountSum(KeyedProcessFunction):
    """W2's running count and sum."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(
            ValueStateDescriptor("count_sum", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(
        self, value: int, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        count, total = self.state.value() or (0, 0)
        count += 1
        total += value
        self.state.update((count, total))
        yield ctx.get_current_key(), count, total


class EventTime(TimestampAssigner):
    """W4's event times."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return event_time_ms(value)


class CountAndSum(AggregateFunction):
    """W4's aggregate."""

    def create_accumulator(self) -> Accumulator:
        return 0, 0

    def add(self, value: int, accumulator: Accumulator) -> Accumulator:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: Accumulator) -> Accumulator:
        return accumulator

    def merge(self, acc_a: Accumulator, acc_b: Accumulator) -> Accumulator:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithKeyAndStart(ProcessWindowFunction):
    """Adds the key and the start of the window to a result of W4."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[Accumulator]
    ) -> Iterator[tuple[int, int, int, int]]:
        for count, total in elements:
            yield key, context.window().start, count, total

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        pass


class Pairs(KeyedCoProcessFunction):
    """W6: what came first waits for its partner."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.LONG()))

    def process_element1(
        self, value: int, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        right = self.waiting.value()
        if right is None:
            self.waiting.update(3 * value)
        else:
            self.waiting.clear()
            yield value, 3 * value, right

    def process_element2(
        self, value: int, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        left = self.waiting.value()
        if left is None:
            self.waiting.update(5 * value)
        else:
            self.waiting.clear()
            yield value, left, 5 * value


class Paced(MapFunction):
    """W7: holds each number back until it is due, and gives that time; no source in Python can."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._start_ns = 0

    def map(self, value: int) -> int:
        if not self._start_ns:
            leave_mark(self._orders.marks_dir, "start")
            self._start_ns = time.monotonic_ns()
        due_ns = self._start_ns + value * SECOND_NS // self._orders.rate
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / SECOND_NS)
        return due_ns


class CountedDueTimes(KeyedProcessFunction):
    """W7's function."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(
        self, value: int, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        count = (self.state.value() or 0) + 1
        self.state.update(count)
        yield 0, count, value


class TallySink(FilterFunction):
    """PyFlink has no sinks in Python; a filter that lets nothing through takes their place."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, runtime_context: RuntimeContext) -> None:
        # PyFlink 2.3 in thread mode cannot tell the subtask's index (its RuntimeContext asks for a Java
        # method that is gone), so subtasks get a name of their own.
        kind = LatencyTally if self._orders.workload == "W7" else Tally
        self._tally: Any = kind(self._orders, uuid.uuid4().hex)
        names = {"W1": "add_one", "W4": "add_windows", "W7": "add"}
        name = names.get(self._orders.workload, "add_triples")
        self._add = self._count if name == "add_one" else getattr(self._tally, name)

    def filter(self, value: Any) -> bool:
        self._add((value,))
        return False

    def close(self) -> None:
        if self._orders.workload == "W1":
            self._tally.last_ns = time.monotonic_ns()
        self._tally.close()

    def _count(self, values: tuple[int]) -> None:
        self._tally.records += 1


def configuration(orders: Orders) -> Configuration:
    """One slot for each of parallelism, checkpoints as ordered."""
    settings = {
        "python.execution-mode": orders.mode or "thread",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "rest.bind-port": str(REST_PORT),
        "rest.port": str(REST_PORT),
        "pipeline.object-reuse": "true",
        "taskmanager.memory.managed.size": "1g",
        "state.backend.type": orders.backend,
    }
    if orders.interval_ms:
        settings |= {
            "execution.checkpointing.interval": f"{orders.interval_ms} ms",
            "execution.checkpointing.dir": f"file://{orders.state_dir}",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }
    if orders.backend == "rocksdb":
        settings["execution.checkpointing.incremental"] = "true"
    if orders.restore_path:
        settings["execution.state-recovery.path"] = f"file://{orders.restore_path}"
    result = Configuration()
    for key, value in settings.items():
        result.set_string(key, value)
    return result


def numbers_of(env: StreamExecutionEnvironment, name: str, count: int) -> DataStream:
    """The numbers from 0 on."""
    source = NumberSequenceSource(0, count - 1)
    stream: DataStream = env.from_source(source, WatermarkStrategy.no_watermarks(), name, Types.LONG())
    return stream.uid(name)


def stateless(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    """W1."""
    numbers = numbers_of(env, "numbers", orders.records)
    added = numbers.map(AddOne(orders), output_type=Types.LONG())
    return added.filter(lambda x: x % 2 == 1)


def key_function(orders: Orders) -> Any:
    """The key selector of W2 to W4; record 0 starts the clock."""
    keys, marks_dir = orders.keys, orders.marks_dir

    def key_of(i: int) -> int:
        if i == 0:
            leave_mark(marks_dir, "start")
        return i * MULTIPLIER % keys

    return key_of


def keyed(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    """W2, W3 and W5."""
    numbers = numbers_of(env, "numbers", orders.records)
    by_key = numbers.key_by(key_function(orders), key_type=Types.LONG())
    return by_key.process(CountSum(), output_type=TRIPLE).uid("count-sum")


def windows(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    """W4."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))
    timed = numbers_of(env, "numbers", orders.records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(EventTime())
    )
    by_key = timed.key_by(key_function(orders), key_type=Types.LONG())
    return by_key.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).aggregate(
        CountAndSum(),
        WithKeyAndStart(),
        accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
        output_type=Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()]),
    )


def join(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    """W6."""
    marks_dir = orders.marks_dir

    def left_key(i: int) -> int:
        if i == 0:
            leave_mark(marks_dir, "start")
        return i

    left = numbers_of(env, "left", orders.records // 2).key_by(left_key, key_type=Types.LONG())
    shuffled = numbers_of(env, "right", orders.records // 2).map(right_id, output_type=Types.LONG())
    right = shuffled.key_by(lambda i: i, key_type=Types.LONG())
    return left.connect(right).process(Pairs(), output_type=TRIPLE).uid("pairs")


def latency(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    """W7."""
    keys, step_ns = orders.keys, SECOND_NS // orders.rate
    env.set_buffer_timeout(1)
    numbers = numbers_of(env, "numbers", orders.records)
    times = numbers.map(Paced(orders), output_type=Types.LONG())
    by_key = times.key_by(lambda due_ns: due_ns // step_ns * MULTIPLIER % keys, key_type=Types.LONG())
    return by_key.process(CountedDueTimes(), output_type=TRIPLE).uid("count")


def watch_checkpoints(orders: Orders, done: threading.Event) -> None:
    """Copies Flink's own checkpoint statistics while its REST server lives."""
    base = f"http://localhost:{REST_PORT}/jobs"
    while not done.wait(0.5):
        try:
            with urllib.request.urlopen(base, timeout=2) as reply:
                job_id = json.load(reply)["jobs"][0]["id"]
            with urllib.request.urlopen(f"{base}/{job_id}/checkpoints", timeout=2) as reply:
                history = json.load(reply)["history"]
        except (OSError, IndexError):
            continue
        complete = [c for c in history if c["status"] == "COMPLETED"]
        facts = [
            {"duration_ms": c["end_to_end_duration"], "size_bytes": c["checkpointed_size"]} for c in complete
        ]
        leave_mark(orders.marks_dir, "checkpoints", checkpoints=facts)


def main() -> None:
    """Runs one job to its end."""
    orders = Orders.from_argv()
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    builders = {"W1": stateless, "W4": windows, "W6": join, "W7": latency}
    builders.get(orders.workload, keyed)(env, orders).filter(TallySink(orders))
    done = threading.Event()
    if orders.interval_ms:
        threading.Thread(target=watch_checkpoints, args=(orders, done), daemon=True).start()
    env.execute("benchmark")
    done.set()


if __name__ == "__main__":
    main()
