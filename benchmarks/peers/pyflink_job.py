"""The workloads on PyFlink's DataStream API in thread mode, in its embedded mini cluster."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from measure import MULTIPLIER, Orders, Tally, leave_mark
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import (
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from pyflink.datastream.state import ValueStateDescriptor

REST_PORT = int(os.environ.get("BENCH_REST_PORT", "18081"))


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


class TallySink(FilterFunction):
    """PyFlink has no sinks in Python; a filter that lets nothing through takes their place."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, runtime_context: RuntimeContext) -> None:
        # PyFlink 2.3 in thread mode cannot tell the subtask's index (its RuntimeContext asks
        # for a Java method that is gone), so this job is measured at parallelism one only.
        self._tally = Tally(self._orders)
        self._numbers = self._orders.workload == "W1"

    def filter(self, value: Any) -> bool:
        if self._numbers:
            self._tally.records += 1
        else:
            self._tally.add_triples((value,))
        return False

    def close(self) -> None:
        if self._numbers:
            self._tally.last_ns = time.monotonic_ns()
        self._tally.close()


def configuration(orders: Orders) -> Configuration:
    """Thread mode, one slot, checkpoints as ordered."""
    settings = {
        "python.execution-mode": "thread",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "rest.bind-port": str(REST_PORT),
        "rest.port": str(REST_PORT),
        "pipeline.object-reuse": "true",
        "taskmanager.memory.managed.size": "1g",
    }
    if orders.interval_ms:
        settings |= {
            "execution.checkpointing.interval": f"{orders.interval_ms} ms",
            "execution.checkpointing.dir": f"file://{orders.state_dir}",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "state.backend.type": orders.backend,
        }
    if orders.backend == "rocksdb":
        settings["execution.checkpointing.incremental"] = "true"
    if orders.restore_path:
        settings["execution.state-recovery.path"] = f"file://{orders.restore_path}"
    result = Configuration()
    for key, value in settings.items():
        result.set_string(key, value)
    return result


def build(env: StreamExecutionEnvironment, orders: Orders) -> None:
    """Adds the workload's operators to the environment."""
    source = NumberSequenceSource(0, orders.records - 1)
    numbers: DataStream = env.from_source(
        source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).uid("numbers")
    if orders.workload == "W1":
        added = numbers.map(AddOne(orders), output_type=Types.LONG())
        added.filter(lambda x: x % 2 == 1).filter(TallySink(orders))
        return
    keys, marks_dir = orders.keys, orders.marks_dir

    def key_of(i: int) -> int:
        if i == 0:
            leave_mark(marks_dir, "start")
        return i * MULTIPLIER % keys

    triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    by_key = numbers.key_by(key_of, key_type=Types.LONG())
    by_key.process(CountSum(), output_type=triple).uid("count-sum").filter(TallySink(orders))


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
    build(env, orders)
    done = threading.Event()
    if orders.interval_ms:
        threading.Thread(target=watch_checkpoints, args=(orders, done), daemon=True).start()
    env.execute("benchmark")
    done.set()


if __name__ == "__main__":
    main()
