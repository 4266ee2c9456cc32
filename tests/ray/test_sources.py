"""Source functions and enumerators go on exactly after a loss of processes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import (
    CheckpointedFunction,
    DataStream,
    RichSourceFunction,
    Source,
    SourceContext,
    SourceReader,
    SplitEnumerator,
    SplitEnumeratorContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor
from tidegate.protocol.elements import Batch

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000
POLL_S = 0.01


class GatedFunction(RichSourceFunction, CheckpointedFunction):
    """The numbers below `COUNT`; it waits half-way until the gate is open."""

    def __init__(self, gate: jobs.Gate) -> None:
        self.gate = gate
        self.position = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("position", Types.LONG()))
        self.position = next(iter(self.state.get()), 0)
        self.cancelled = threading.Event()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.position])

    def run(self, ctx: SourceContext) -> None:
        while self.position < COUNT and not self.cancelled.is_set():
            if self.position == COUNT // 2 and not self.gate.is_open:
                self.cancelled.wait(POLL_S)
                continue
            with ctx.get_checkpoint_lock():
                ctx.collect(self.position)
                self.position += 1

    def cancel(self) -> None:
        self.cancelled.set()


class GatedSplits(Source):
    """The numbers below `COUNT` in splits of a hundred, half of them behind the gate."""

    def __init__(self, gate: jobs.Gate) -> None:
        self.gate = gate

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return GatedEnumerator(self.gate, context, 0, [])

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return GatedEnumerator(self.gate, context, *checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return SplitReader()


class GatedEnumerator(SplitEnumerator):
    def __init__(self, gate: jobs.Gate, context: SplitEnumeratorContext, found: int, left: list[Any]) -> None:
        self.gate = gate
        self.context = context
        self.found = found
        self.waiting = list(left)
        self.asking: list[int] = []

    def start(self) -> None:
        self.context.call_async(lambda: self.gate.is_open, self.discovered, period_ms=5)

    def discovered(self, is_open: Any, problem: BaseException | None) -> None:
        end = min(self.found + 1_000, COUNT if is_open else COUNT // 2)
        self.waiting += [(start, start + 100) for start in range(self.found, end, 100)]
        self.found = end
        self.assign()

    def assign(self) -> None:
        while self.asking and self.waiting:
            self.context.assign_split(self.waiting.pop(0), self.asking.pop(0))
        if self.found == COUNT and not self.waiting:
            while self.asking:
                self.context.signal_no_more_splits(self.asking.pop())

    def handle_split_request(self, subtask_id: int) -> None:
        self.asking.append(subtask_id)
        self.assign()

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self.waiting += splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self.found, list(self.waiting)


class SplitReader(SourceReader):
    def __init__(self) -> None:
        self.splits: list[tuple[int, int]] = []

    def add_splits(self, splits: list[Any]) -> None:
        self.splits += splits

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        position, end = self.splits.pop(0)
        stop = min(position + 30, end)
        if stop < end:
            self.splits.insert(0, (stop, end))
        return Batch(list(range(position, stop)))

    def snapshot_state(self) -> list[Any]:
        return list(self.splits)


def function(env: StreamExecutionEnvironment, gate: jobs.Gate) -> DataStream:
    return env.add_source(GatedFunction(gate), "numbers")


def enumerated(env: StreamExecutionEnvironment, gate: jobs.Gate) -> DataStream:
    return env.from_source(GatedSplits(gate), WatermarkStrategy.no_watermarks(), "numbers")


@pytest.mark.parametrize(("source", "victim"), [
    (function, "numbers"), (enumerated, "numbers"), (enumerated, "coordinator"),
])  # fmt: skip
def test_a_source_goes_on_exactly_after_a_process_was_killed(
    tmp_path: Path, source: Callable[[StreamExecutionEnvironment, jobs.Gate], DataStream], victim: str
) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    env = StreamExecutionEnvironment.get_execution_environment(jobs.configuration(tmp_path))
    stream = (
        source(env, gate)
        .uid("numbers")
        .key_by(lambda number: number % jobs.KEYS, key_type=Types.LONG())
        .process(jobs.CountPerKey())
        .name("count")
        .uid("count")
    )
    with jobs.running(stream, jobs.FileSink(output)) as client:
        before = jobs.half_way(client)
        if victim == "coordinator":
            jobs.kill(jobs.coordinator_pid(client))
            jobs.eventually("another attempt", lambda: client.processes() not in ({}, before), client)
        else:
            jobs.kill(next(pid for name, pid in before.items() if name.startswith(victim)))
            jobs.eventually("a restart", lambda: client.report().statistics.recoveries, client)
        gate.open()
        client.result()
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
