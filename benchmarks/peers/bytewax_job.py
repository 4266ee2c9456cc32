"""The workloads on Bytewax: its batch source, `map`, `filter` and `stateful_map`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main
from measure import MULTIPLIER, Orders, Tally, leave_mark

BATCH = 1024
State = tuple[int, int]


class NumbersPartition(StatefulSourcePartition[int, int]):
    """Emits consecutive numbers in batches; its position is the next number."""

    def __init__(self, orders: Orders, position: int) -> None:
        self._orders = orders
        self._position = position
        self._started = False

    def next_batch(self) -> Iterable[int]:
        if not self._started:
            self._started = True
            leave_mark(self._orders.marks_dir, "start")
        first = self._position
        if first >= self._orders.records:
            raise StopIteration()
        self._position = min(first + BATCH, self._orders.records)
        return list(range(first, self._position))

    def snapshot(self) -> int:
        return self._position


class Numbers(FixedPartitionedSource[int, int]):
    """One partition, as a job of parallelism one has."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def list_parts(self) -> list[str]:
        return ["numbers"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> NumbersPartition:
        return NumbersPartition(self._orders, resume_state or 0)


class TallySink(DynamicSink[Any]):
    """Hands whole batches to a tally."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def build(self, step_id: str, worker_index: int, worker_count: int) -> TallyPartition:
        return TallyPartition(self._orders, worker_index)


class TallyPartition(StatelessSinkPartition[Any]):
    """The sink of one worker."""

    def __init__(self, orders: Orders, subtask: int) -> None:
        self._tally = Tally(orders, subtask)
        self._numbers = orders.workload == "W1"

    def write_batch(self, items: list[Any]) -> None:
        if self._numbers:
            self._tally.add_numbers(items)
        else:
            self._tally.add_triples([item[1] for item in items])

    def close(self) -> None:
        self._tally.close()


def stateless(numbers: Stream[int]) -> Stream[int]:
    """W1."""
    added = op.map("add_one", numbers, lambda x: x + 1)
    return op.filter("odd", added, lambda x: x % 2 == 1)


def keyed(numbers: Stream[int], keys: int) -> Stream[tuple[str, tuple[str, int, int]]]:
    """W2 and W3; Bytewax insists on keys that are strings."""

    def accumulate(state: State | None, value: int) -> tuple[State, tuple[int, int, int]]:
        count, total = state if state is not None else (0, 0)
        count += 1
        total += value
        return (count, total), (value * MULTIPLIER % keys, count, total)

    by_key = op.key_on("key", numbers, lambda i: str(i * MULTIPLIER % keys))
    return op.stateful_map("count_sum", by_key, accumulate)


def main() -> None:
    """Builds the flow and runs it in this process with one worker."""
    orders = Orders.from_argv()
    flow = Dataflow("benchmark")
    numbers = op.input("numbers", flow, Numbers(orders))
    results = stateless(numbers) if orders.workload == "W1" else keyed(numbers, orders.keys)
    op.output("tally", results, TallySink(orders))
    recovery = None
    if orders.interval_ms:
        store = Path(orders.state_dir)
        if not orders.restore_path:
            init_db_dir(store, 1)
        recovery = RecoveryConfig(str(store))
    interval = timedelta(milliseconds=orders.interval_ms or 10_000)
    cluster_main(
        flow,
        [],
        0,
        epoch_interval=interval,
        recovery_config=recovery,
        worker_count_per_proc=orders.parallelism,
    )


if __name__ == "__main__":
    main()
