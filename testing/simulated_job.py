"""The job that is simulated, the outside world it writes to, and what must come out.

Two replayable sources, united and keyed, a count per key and source in keyed state, and a two-phase sink.
The i-th record of a key from one split always gets the count i, however the splits interleave, so the
output is one multiset, known in advance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ..common.typeinfo import Types
from ..common.types import Row
from ..common.watermark_strategy import WatermarkStrategy
from ..datastream.stream_execution_environment import StreamExecutionEnvironment
from ..operators.base import OperatorContext
from ..operators.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from ..operators.functions import KeyedProcessFunction
from ..operators.runtime_context import RuntimeContext
from ..operators.sinks import Committer, Sink, SinkWriter
from ..operators.sources import Source, SourceReader
from ..protocol.elements import Batch
from ..protocol.plan import JobGraph, build_job_graph
from ..state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

KEYS = 5
Record = tuple[str, int, int]
"""Name of the split, number within it, key."""


class Outside:
    """The world outside the job: survives every crash."""

    def __init__(self) -> None:
        self.prepared: dict[str, list[Any]] = {}
        self.committed: dict[str, list[Any]] = {}
        self.transactions = 0

    def prepare(self, values: list[Any]) -> str:
        """Make values durable, but not visible."""
        self.transactions += 1
        name = f"t{self.transactions}"
        self.prepared[name] = values
        return name

    def commit(self, name: str) -> None:
        """Make a transaction visible; a second time changes nothing."""
        self.committed[name] = self.prepared[name]

    def visible(self) -> list[Any]:
        """Everything that readers see."""
        return [value for values in self.committed.values() for value in values]


_outside = Outside()


def new_outside() -> Outside:
    """A fresh outside world for the next run; operators find it by themselves."""
    global _outside
    _outside = Outside()
    return _outside


class ReplayableSource(Source):
    """Splits of numbered records, the same on every run."""

    def __init__(self, name: str, splits: int, records_per_split: int) -> None:
        self._name = name
        self._splits = splits
        self._records_per_split = records_per_split

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(f"{self._name}{index}", 0) for index in range(self._splits)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _Reader(splits, self._records_per_split)


class _Reader(SourceReader):
    def __init__(self, splits: list[tuple[str, int]], records_per_split: int) -> None:
        self._splits = list(splits)
        self._end = records_per_split

    def poll(self, max_records: int) -> Batch | None:
        for index, (name, position) in enumerate(self._splits):
            if position < self._end:
                stop = min(position + max_records, self._end)
                self._splits[index] = (name, stop)
                # The next poll reads another split, so that they interleave.
                self._splits.append(self._splits.pop(index))
                return Batch([record(name, number) for number in range(position, stop)])
        return None

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


def record(split: str, number: int) -> Record:
    """The record of a split with this number."""
    return split, number, (number * 7 + len(split) + ord(split[-1])) % KEYS


class CountPerSplit(KeyedProcessFunction, CheckpointedFunction):
    """Numbers the records of each key and split, with six kinds of state that must agree."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        per_key = ListStateDescriptor("per key", Types.TUPLE([Types.LONG(), Types.LONG()]))
        self.per_key = store.get_list_state(per_key)
        self.shares = store.get_union_list_state(ListStateDescriptor("shares", Types.LONG()))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        # The parallelism is the same on every restart: a subtask gets its own items back.
        self.own = Counter(dict(self.per_key.get()))
        is_whole = dict(self.rules.items()) == {"keys": KEYS} and self.own.total() in self.shares.get()
        self.problem = None if is_whole or not context.is_restored() else "operator state is not whole"
        self.rules.put("keys", KEYS)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.per_key.update(sorted(self.own.items()))
        self.shares.update([self.own.total()])

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.counts = runtime_context.get_map_state(
            MapStateDescriptor("counts", Types.STRING(), Types.LONG())
        )
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        split, number, _ = value
        count = (self.counts.get(split) or 0) + 1
        self.counts.put(split, count)
        total = (self.total.value() or 0) + 1
        self.total.update(total)
        self.last.add(number)
        key = ctx.get_current_key()
        self.own[key] += 1
        seen = {len(self.last.get()), self.own[key]}
        yield split, number, key, count, self.problem or ("ok" if seen == {total} else Row(seen, total))


class TwoPhaseSink(Sink):
    """Prepares at the barrier, commits on completion."""

    def create_writer(self) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer | None:
        return _Committer()


class _Writer(SinkWriter):
    def open(self, context: OperatorContext) -> None:
        self._values: list[Any] = []

    def write_batch(self, values: list[Any]) -> None:
        self._values.extend(values)

    def prepare_commit(self) -> list[Any]:
        values, self._values = self._values, []
        return [_outside.prepare(values)] if values else []


class _Committer(Committer):
    def commit(self, committables: list[Any]) -> None:
        for name in committables:
            _outside.commit(name)


@lru_cache(maxsize=256)
def job_graph(sources: int, workers: int, sinks: int, splits: int, records: int) -> JobGraph:
    """The graph of the job with these parallelisms; made once, it is not changed by a run."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_max_parallelism(8)
    streams = [
        env.from_source(ReplayableSource(name, splits, records), WatermarkStrategy.no_watermarks(), name)
        .uid(name)
        .set_parallelism(sources)
        for name in ("a", "b")
    ]
    counted = (
        streams[0]
        .union(streams[1])
        .key_by(lambda value: value[2], Types.LONG())
        .process(CountPerSplit())
        .uid("count")
        .set_parallelism(workers)
    )
    counted.sink_to(TwoPhaseSink()).uid("sink").set_parallelism(sinks)
    return build_job_graph(env.get_stream_graph("simulated"))


def expected_output(splits: int, records: int) -> Counter[Any]:
    """What a sequential run writes."""
    output: Counter[Any] = Counter()
    for name in ("a", "b"):
        for index in range(splits):
            counts: Counter[int] = Counter()
            for number in range(records):
                split, _, key = record(f"{name}{index}", number)
                counts[key] += 1
                output[split, number, key, counts[key], "ok"] += 1
    return output
