"""Sessions per key with an `AggregateFunction` in Python that counts, called for each record.

One window operator with its state and timers, fed from memory with tuples. Cases: one open session per key,
and a hundred; state in memory, and in LMDB. `operator` processes the sessions a batch at a time, `general`
a record at a time, as other triggers, evictors or an allowed lateness require. Prints microseconds of CPU
time per record, with a checkpoint every 100 batches included. Counts are checked.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from typing import Any

import numpy as np
from tidegate.common.time import Time
from tidegate.datastream import AggregateFunction
from tidegate.datastream.window import EventTimeSessionWindows
from tidegate.operators.windows.batched_sessions import BatchedSessionOperator
from tidegate.operators.windows.merging_operator import MergingWindowOperator
from tidegate.operators.windows.operator import Windowing, WindowOperator
from tidegate.operators.windows.window_contents import AggregatedContents
from tidegate.operators.windows.window_function_calls import call_after_folding
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch
from tidegate.state.backend import StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend

from ..parts import row
from .alone import OneOperator

BATCH = 4_096
GAP_MS = 10_000
GOALS_US = {1: 3.0, 100: 4.0}
CHECKPOINT_EVERY = 100
"""Batches: about once a second."""
KEYS = {1: 1_000, 100: 100}
"""By the number of open sessions per key."""


class Count(AggregateFunction):
    """Counts, a record at a time."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def batches_of(records: int, open_sessions: int) -> list[tuple[Batch, int]]:
    """Batches, each with the watermark after it.

    Sessions of a key are twice the gap apart. Each batch has records of the newest `open_sessions` of them,
    and the watermark then ends the oldest.
    """
    random = np.random.default_rng(7)
    made = []
    for number in range(records // BATCH):
        keys = random.integers(0, KEYS[open_sessions], BATCH)
        if open_sessions == 1:
            times = number * 500 + np.sort(random.integers(0, 500, BATCH))
            watermark_ms = number * 500
        else:
            newest = random.integers(0, open_sessions, BATCH)
            times = (number + newest) * 2 * GAP_MS + random.integers(0, GAP_MS // 2, BATCH)
            watermark_ms = (number + 1) * 2 * GAP_MS - 1
        pairs = list(zip(keys.tolist(), times.tolist(), strict=True))
        made.append((Batch(pairs, times.tolist(), keys.tolist()), watermark_ms))
    return made


def microseconds(kind: type[WindowOperator], backend: StateBackend, made: list[tuple[Batch, int]]) -> float:
    """CPU time per record of one operator."""
    assigner: Any = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))
    call = call_after_folding(None, is_keyed=True)
    contents = AggregatedContents(Count(), None)
    operator = kind(Windowing(assigner, assigner.get_default_trigger(None), contents, call), _key)
    counted: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        one = OneOperator(operator, backend, directory, lambda batch: counted.append(sum(batch.values)))
        gc.collect()
        gc.freeze()
        cpu = time.process_time()
        for number, (batch, watermark_ms) in enumerate(made, 1):
            operator.process_batch(batch, 0)
            _advance(operator, watermark_ms)
            if number % CHECKPOINT_EVERY == 0:
                one.checkpoint().result()
        _advance(operator, MAX_WATERMARK_MS)
        cpu = time.process_time() - cpu
        one.close()
        gc.unfreeze()
    records = len(made) * BATCH
    assert sum(counted) == records, (sum(counted), records)
    return cpu / records * 1e6


def _advance(operator: WindowOperator, watermark_ms: int) -> None:
    operator.process_watermark(watermark_ms)
    while operator.is_advancing:
        operator.advance_further()


def _key(record: tuple[int, int]) -> int:
    return record[0]


def main() -> None:
    """Run all cases in turns, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators.sessions", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    records, rounds = (80_000, 1) if parser.parse_args().quick else (800_000, 3)
    kinds = {"operator": BatchedSessionOperator, "general": MergingWindowOperator}
    backends = {"memory": HashMapStateBackend, "LMDB": LmdbStateBackend}
    taken: dict[tuple[str, int, str], list[float]] = {}
    for _ in range(rounds):
        for open_sessions in GOALS_US:
            made = batches_of(records, open_sessions)
            for kind_name, kind in kinds.items():
                for backend_name, backend in backends.items():
                    case = kind_name, open_sessions, backend_name
                    taken.setdefault(case, []).append(microseconds(kind, backend(), made))
    for (kind_name, open_sessions, backend_name), each in taken.items():
        median, goal_us = statistics.median(each), GOALS_US[open_sessions]
        row(
            f"sessions, {kind_name}, {open_sessions} open per key, {backend_name}: <= {goal_us:g} us/record",
            f"{median:.2f} us",
            median <= goal_us if kind_name == "operator" else None,
        )


if __name__ == "__main__":
    main()
