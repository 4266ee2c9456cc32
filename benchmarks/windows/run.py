"""Windows of ten seconds per key, counted by an `AggregateFunction` in Python, called for each record.

    python -m benchmarks.windows.run [--records 1000000] [--rounds 3] [--json]

`operator` is one window operator with its state and timers, fed from memory: what one task can do.
`general` is the same without the short way for common windows. `job` is a whole local job: a source, an
exchange by key, the windows and a sink, all in one process. Each with one, ten and a hundred records per
millisecond of event time, hence 10, 100 and 1,000 per window. Prints thousand records per second: by the
clock, and by the CPU time of the thread (of the process for `job`), which is what counts on a machine
that others use, too. Counts are checked.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.datastream import (
    AggregateFunction,
    SinkFunction,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.operators.output import Output, Receiver
from tidegate.operators.windows.batched_operator import BatchedWindowOperator
from tidegate.operators.windows.operator import Windowing, WindowOperator
from tidegate.operators.windows.window_contents import AggregatedContents
from tidegate.operators.windows.window_function_calls import call_after_folding
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch

from .context import context_for

BATCH = 4_096
KEYS = 1_000
GOAL_K = 380
"""Three times what Bytewax does on two shared cores."""

Record = tuple[int, int]
"""Key and event time in milliseconds."""


class Count(AggregateFunction):
    """Counts, a record at a time."""

    def create_accumulator(self) -> int:
        """No record yet."""
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        """One more."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """The count."""
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        """Both counts."""
        return acc_a + acc_b


def batches_of(records: int, per_ms: int) -> list[Batch]:
    """Records with random keys, in order of their event times."""
    keys = np.random.default_rng(7).integers(0, KEYS, records)
    times = np.arange(records) // per_ms
    batches = []
    for start in range(0, records, BATCH):
        part = slice(start, start + BATCH)
        own_keys, own_times = keys[part].tolist(), times[part].tolist()
        batches.append(Batch(list(zip(own_keys, own_times, strict=True)), own_times, own_keys))
    return batches


@dataclass
class Rate:
    """Thousand records per second."""

    wall_k: float
    cpu_k: float


def operator_rate(kind: type[WindowOperator], batches: list[Batch]) -> Rate:
    """One operator that is given a watermark after each batch."""
    assigner: Any = TumblingEventTimeWindows.of(Time.seconds(10))
    contents = AggregatedContents(Count(), None)
    call = call_after_folding(None, is_keyed=True)
    windowing = Windowing(assigner, assigner.get_default_trigger(None), contents, call)
    operator = kind(windowing, _key)
    counted: list[int] = []

    def take(batch: Batch) -> None:
        counted.append(sum(batch.values))

    operator.setup(context_for("windows"), Output([Receiver(take, _ignore, _ignore)]))
    operator.open()
    records = sum(map(len, batches))
    gc.collect()
    gc.freeze()
    wall, cpu = time.perf_counter(), time.thread_time()
    for batch in batches:
        assert batch.timestamps is not None
        operator.process_batch(batch, 0)
        operator.process_watermark(batch.timestamps[-1] - 1)
    operator.process_watermark(MAX_WATERMARK_MS)
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
    operator.close()
    gc.unfreeze()
    assert sum(counted) == records
    return Rate(records / wall / 1e3, records / cpu / 1e3)


def _key(record: Record) -> int:
    return record[0]


def _ignore(change: object) -> None:
    """Watermarks and idleness go nowhere."""


class Prepared(Source):
    """Batches made before, in this process; they are found by the number of their case."""

    cases: ClassVar[dict[int, list[Batch]]] = {}

    def __init__(self, case: int) -> None:
        self.case = case

    def create_splits(self, parallelism: int) -> list[Any]:
        """All of it in one split."""
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        """A reader from a position on."""
        batches = self.cases[self.case]
        return PreparedReader(batches, splits[0] if splits else len(batches))


class PreparedReader(SourceReader):
    """Hands the batches over, one at each poll."""

    def __init__(self, batches: list[Batch], position: int) -> None:
        self._batches = batches
        self._position = position

    def poll(self, max_records: int) -> Batch | None:
        """The next batch, without its keys: the exchange computes them."""
        if self._position == len(self._batches):
            return None
        batch = self._batches[self._position]
        self._position += 1
        return Batch(batch.values, batch.timestamps)

    def snapshot_state(self) -> list[Any]:
        """The position."""
        return [self._position]


class Sum(SinkFunction):
    """Adds up the counts of all windows."""

    total = 0

    def invoke(self, value: int) -> None:
        """One more window."""
        Sum.total += value


def job_rate(batches: list[Batch], case: int) -> Rate:
    """A whole job in this process."""
    Prepared.cases[case] = batches
    Sum.total = 0
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    source = env.from_source(Prepared(case), WatermarkStrategy.for_monotonous_timestamps(), "records")
    windows = source.key_by(_key).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    windows.aggregate(Count()).add_sink(Sum())
    records = sum(map(len, batches))
    wall, cpu = time.perf_counter(), time.process_time()
    env.execute("windows")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert Sum.total == records, (Sum.total, records)
    return Rate(records / wall / 1e3, records / cpu / 1e3)


def main() -> None:
    """Run all cases in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rates: dict[str, list[Rate]] = {}
    for _ in range(arguments.rounds):
        for per_ms in (1, 10, 100):
            batches = batches_of(arguments.records, per_ms)
            cases: dict[str, Callable[[list[Batch]], Rate]] = {
                "operator": lambda all_: operator_rate(BatchedWindowOperator, all_),
                "general": lambda all_: operator_rate(WindowOperator, all_),
                "job": lambda all_, case=per_ms: job_rate(all_, case),  # type: ignore[misc]
            }
            for name, measure in cases.items():
                rates.setdefault(f"{name}, {per_ms} a ms", []).append(measure(batches))
    medians = {
        name: {
            "wall_k": statistics.median(rate.wall_k for rate in measured),
            "cpu_k": statistics.median(rate.cpu_k for rate in measured),
        }
        for name, measured in rates.items()
    }
    if arguments.json:
        print(json.dumps(medians))
        return
    print(f"thousand records/s; the goal of `operator` is {GOAL_K}")
    for name, rate in sorted(medians.items()):
        print(f"    {name:20s}{rate['wall_k']:10.0f} by the clock{rate['cpu_k']:10.0f} by CPU time")


if __name__ == "__main__":
    main()
