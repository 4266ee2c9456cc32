"""A job whose operator state has outgrown memory is stored, restored and redistributed like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common import JobStatus, Types, WatermarkStrategy
from tidegate.datastream import CheckpointedFunction, MapFunction, StateBackend, StreamExecutionEnvironment
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor, MapStateDescriptor
from tidegate.datastream.state_backend import HashMapStateBackend, LmdbStateBackend
from tidegate.state import read_snapshot

from .jobs import WAIT_S, CountDown, HeldSource, environment

COUNT = 12_000
RULES = 4_000
# Little memory, so that write buffers are spilled between two batches.
LMDB = LmdbStateBackend(memory_size_bytes=1 << 20)


class Collecting(MapFunction, CheckpointedFunction):
    """Keeps all records in a list, and many rules in broadcast state, of which it changes some."""

    restored: ClassVar[list[tuple[list[int], dict[int, int]]]] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        descriptor = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
        self.rules = store.get_broadcast_state(descriptor)
        if context.is_restored():
            Collecting.restored.append((self.seen.get(), dict(self.rules.items())))
        else:
            self.rules.put_all({number: number for number in range(RULES)})

    def map(self, value: Any) -> Any:
        self.seen.add(value)
        return self.rules[value % RULES]

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.rules[RULES] = context.get_checkpoint_id()


def collecting(env: StreamExecutionEnvironment, snapshots: int | None) -> Any:
    source = HeldSource(COUNT, snapshots, batch_size=500)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "Held").uid("held")
    return records.map(Collecting()).uid("collecting").map(CountDown(COUNT // 2))


@pytest.mark.parametrize(("backend", "parallelism"), [(LMDB, 3), (HashMapStateBackend(), 1)])
def test_large_operator_state_survives_a_change_of_parallelism(
    tmp_path: Path, backend: StateBackend, parallelism: int
) -> None:
    CountDown.restart()
    Collecting.restored.clear()
    retention = "execution.checkpointing.externalized-checkpoint-retention"
    env = environment(tmp_path, 2, {retention: "RETAIN_ON_CANCELLATION"}).set_state_backend(LMDB)
    collecting(env, snapshots=None)
    client = env.execute_async()
    assert CountDown.reached.wait(WAIT_S), "half of the records never came"
    client.trigger_checkpoint()
    client.cancel().result()
    assert client.wait() is JobStatus.CANCELED
    path = client.report().newest_checkpoint
    client.close()
    assert path is not None

    stored = read_snapshot(path).operator("collecting").operator_states
    assert sum(1 for _ in stored["seen"].entries()) == COUNT // 2
    assert sum(1 for _ in stored["rules"].entries()) == RULES + 1

    env = environment(tmp_path, parallelism, {"execution.state-recovery.path": path})
    collecting(env.set_state_backend(backend), snapshots=0)
    env.execute()
    lists, rules = zip(*Collecting.restored, strict=True)
    assert len(lists) == parallelism
    assert max(map(len, lists)) - min(map(len, lists)) <= 1
    seen = [number for items in lists for number in items]
    assert len(set(seen)) == len(seen) == COUNT // 2
    for found in rules:
        assert found.pop(RULES) > 0
        assert found == {number: number for number in range(RULES)}
