"""The workloads on Bytewax: its batch sources, `map`, `filter`, `stateful_map`, `join` and `fold_window`.

A worker is a process of its own, so that two of them have two interpreters.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main
from latency import SECOND_NS, LatencyTally, Schedule
from measure import DISORDER_MS, MULTIPLIER, WINDOW_MS, Orders, Tally, event_time_ms, leave_mark, right_id

BATCH = 1024
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# What Bytewax has to be told at two workers so that it drops nothing as late.
LONG_WAIT = timedelta(hours=1)
State = tuple[int, int]
Results = Stream[Any]


class NumbersPartition(StatefulSourcePartition[int, int]):
    """Emits every so many-th number in batches; its position is the next number."""

    def __init__(self, orders: Orders, name: str, position: int, step: int, end: int) -> None:
        self._orders = orders
        self._name = name
        self._position = position
        self._step = step
        self._end = end
        self._started = False

    def next_batch(self) -> Iterable[int]:
        if not self._started:
            self._started = True
            leave_mark(self._orders.marks_dir, f"start-{self._name}")
        if self._position >= self._end:
            raise StopIteration()
        numbers = range(self._position, min(self._position + BATCH * self._step, self._end), self._step)
        self._position += len(numbers) * self._step
        return list(numbers)

    def snapshot(self) -> int:
        return self._position


class Numbers(FixedPartitionedSource[int, int]):
    """One partition for each worker.

    Args:
        orders: how many numbers there are, and how many workers.
        share: of the records, one in so many.
    """

    def __init__(self, orders: Orders, share: int = 1) -> None:
        self._orders = orders
        self._end = orders.records // share

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(self._orders.parallelism)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> NumbersPartition:
        position = int(for_part) if resume_state is None else resume_state
        return NumbersPartition(
            self._orders, f"{step_id}-{for_part}", position, self._orders.parallelism, self._end
        )


class DueTimesPartition(StatefulSourcePartition[int, None]):
    """W7's paced records: the times at which they are due."""

    def __init__(self, orders: Orders, schedule: Schedule) -> None:
        self._orders = orders
        self._schedule = schedule
        self._started = False

    def next_batch(self) -> Iterable[int]:
        if not self._started:
            self._started = True
            leave_mark(self._orders.marks_dir, "start")
        times = self._schedule.due(BATCH)
        if times is None:
            raise StopIteration()
        return times

    def next_awake(self) -> datetime | None:
        wait_us = self._schedule.wait_ns() // 1_000
        return datetime.now(timezone.utc) + timedelta(microseconds=wait_us) if wait_us > 0 else None

    def snapshot(self) -> None:
        return None


class DueTimes(FixedPartitionedSource[int, None]):
    """The only partition of a paced source."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def list_parts(self) -> list[str]:
        return ["due-times"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> DueTimesPartition:
        return DueTimesPartition(self._orders, Schedule(self._orders))


class TallySink(DynamicSink[Any]):
    """Hands whole batches to a tally."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def build(self, step_id: str, worker_index: int, worker_count: int) -> TallyPartition:
        return TallyPartition(self._orders, worker_index)


class TallyPartition(StatelessSinkPartition[Any]):
    """The sink of one worker."""

    def __init__(self, orders: Orders, subtask: int) -> None:
        tally = Tally(orders, subtask)
        latencies = LatencyTally(orders, subtask)
        takers: dict[str, tuple[Callable[[Any], None], Callable[[], None]]] = {
            "W1": (tally.add_numbers, tally.close),
            "W4": (lambda items: tally.add_windows([_window(item) for item in items]), tally.close),
            "W6": (lambda items: tally.add_triples([_pair(item) for item in items]), tally.close),
            "W7": (lambda items: latencies.add([item[1] for item in items]), latencies.close),
        }
        by_key = (lambda items: tally.add_triples([item[1] for item in items]), tally.close)
        self._add, self._close = takers.get(orders.workload, by_key)

    def write_batch(self, items: list[Any]) -> None:
        self._add(items)

    def close(self) -> None:
        self._close()


def _window(item: tuple[str, tuple[int, State]]) -> tuple[str, int, int, int]:
    key, (window, (count, total)) = item
    return key, window * WINDOW_MS, count, total


def _pair(item: tuple[str, tuple[int, int]]) -> tuple[int, int, int]:
    return int(item[0]), item[1][0], item[1][1]


def stateless(orders: Orders, flow: Dataflow) -> Results:
    """W1."""
    numbers = op.input("numbers", flow, Numbers(orders))
    added = op.map("add_one", numbers, lambda x: x + 1)
    return op.filter("odd", added, lambda x: x % 2 == 1)


def keyed(orders: Orders, flow: Dataflow) -> Results:
    """W2 and W3; Bytewax insists on keys that are strings."""
    keys = orders.keys

    def accumulate(state: State | None, value: int) -> tuple[State, tuple[int, int, int]]:
        count, total = state if state is not None else (0, 0)
        count += 1
        total += value
        return (count, total), (value * MULTIPLIER % keys, count, total)

    numbers = op.input("numbers", flow, Numbers(orders))
    by_key = op.key_on("key", numbers, lambda i: str(i * MULTIPLIER % keys))
    return op.stateful_map("count_sum", by_key, accumulate)


def windows(orders: Orders, flow: Dataflow) -> Results:
    """W4; `mode` is `wait` for a watermark that stays so far behind that nothing is late."""
    keys = orders.keys
    wait = LONG_WAIT if orders.mode == "wait" else timedelta(milliseconds=DISORDER_MS)
    clock = win.EventClock(lambda i: EPOCH + timedelta(milliseconds=event_time_ms(i)), wait)
    numbers = op.input("numbers", flow, Numbers(orders))
    by_key = op.key_on("key", numbers, lambda i: str(i * MULTIPLIER % keys))
    folded = win.fold_window(
        "windows",
        by_key,
        clock,
        win.TumblingWindower(timedelta(milliseconds=WINDOW_MS), EPOCH),
        lambda: (0, 0),
        lambda state, value: (state[0] + 1, state[1] + value),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
        ordered=False,
    )
    return folded.down


def join(orders: Orders, flow: Dataflow) -> Results:
    """W6: a pair is given out and forgotten as it is complete."""
    left = op.input("left", flow, Numbers(orders, share=2))
    right = op.map("shuffle", op.input("right", flow, Numbers(orders, share=2)), right_id)
    return op.join(
        "pairs",
        op.map("left_key", left, lambda i: (str(i), 3 * i)),
        op.map("right_key", right, lambda i: (str(i), 5 * i)),
    )


def latency(orders: Orders, flow: Dataflow) -> Results:
    """W7."""
    keys, step_ns = orders.keys, SECOND_NS // orders.rate

    def count(state: int | None, due_ns: int) -> tuple[int, tuple[int, int, int]]:
        now = (state or 0) + 1
        return now, (0, now, due_ns)

    times = op.input("due_times", flow, DueTimes(orders))
    by_key = op.key_on("key", times, lambda due_ns: str(due_ns // step_ns * MULTIPLIER % keys))
    return op.stateful_map("count", by_key, count)


def main() -> None:
    """Builds the flow and runs it in this process as one worker; the first one starts the others."""
    orders = Orders.from_argv()
    flow = Dataflow("benchmark")
    builders = {"W1": stateless, "W4": windows, "W6": join, "W7": latency}
    op.output("tally", builders.get(orders.workload, keyed)(orders, flow), TallySink(orders))
    worker = int(os.environ.get("BENCH_WORKER", "0"))
    recovery = None
    if orders.interval_ms:
        store = Path(orders.state_dir)
        if not orders.restore_path and not worker:
            init_db_dir(store, 1)
        recovery = RecoveryConfig(str(store))
    interval = timedelta(milliseconds=orders.interval_ms or 10_000)
    addresses = [f"127.0.0.1:{port}" for port in os.environ["BENCH_PORTS"].split()[: orders.parallelism]]
    others = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "BENCH_WORKER": str(number)})
        for number in range(1, orders.parallelism)
        if not worker
    ]
    cluster_main(
        flow,
        addresses if orders.parallelism > 1 else [],
        worker,
        epoch_interval=interval,
        recovery_config=recovery,
    )
    for other in others:
        if other.wait():
            sys.exit(f"a worker ended with status {other.returncode}")


if __name__ == "__main__":
    main()
