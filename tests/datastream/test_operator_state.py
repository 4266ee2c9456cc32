"""Operator state, raw state and keyed state of whole jobs, across failures and changes of parallelism."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pytest
from tidegate.common import JobStatus, Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    MemoryStateBackend,
    SinkFunction,
    StateBackend,
    StreamExecutionEnvironment,
    StreamOperator,
)
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    FileSystemStateBackend,
    HashMapStateBackend,
    LmdbStateBackend,
)
from tidegate.protocol.elements import Batch
from tidegate.state.keyed.raw_state import RawKeyedStateOutput, RawOperatorStateOutput
from tidegate.state.serializers.key_hashing import key_group_of

from .jobs import WAIT_S, CountDown, HeldSource, environment

COUNT = 200
KEYS = 9
BACKENDS: list[StateBackend] = [
    MemoryStateBackend(),
    FileSystemStateBackend(),
    HashMapStateBackend(),
    LmdbStateBackend(),
    EmbeddedRocksDBStateBackend(),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CountDown.restart()
    Everything.restored.clear()
    OwnCounts.restored.clear()
    Shown.records.clear()


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """Keeps every kind of managed state; each says how many records came."""

    restored: ClassVar[list[Any]] = []
    """Per subtask: the items of the list, of the union list, and of the broadcast state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        keyed, store = context.get_keyed_state_store(), context.get_operator_state_store()
        self.count = keyed.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.shares = store.get_union_list_state(
            ListStateDescriptor("shares", Types.TUPLE([Types.STRING(), Types.LONG()]))
        )
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        if context.is_restored():
            Everything.restored.append((self.seen.get(), self.shares.get(), dict(self.rules.items())))
        self.total = 0
        self.rules.put("limit", 7)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.add(value)
        self.total += 1
        yield ctx.get_current_key(), count

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.shares.update([("records", self.total)])


class OwnCounts(StreamOperator):
    """Counts per key in a dict of its own: raw keyed state, and raw operator state for the total."""

    restored: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.totals = [0]

    def process_batch(self, batch: Batch, input_index: int) -> None:
        keys = [key for key, _ in batch.values]
        self.counts.update(keys)
        self.totals[0] += len(keys)
        self.emit(batch)

    def snapshot_raw_keyed(self, output: RawKeyedStateOutput) -> None:
        groups: dict[int, dict[int, int]] = {}
        for key, count in self.counts.items():
            groups.setdefault(key_group_of(key, self.context.max_parallelism), {})[key] = count
        for key_group, counts in groups.items():
            output.start_new_key_group(key_group)
            pickle.dump(counts, output)

    def restore_raw_keyed(self, streams: Iterable[tuple[int, BinaryIO]]) -> None:
        for _, stream in streams:
            self.counts.update(pickle.load(stream))
        OwnCounts.restored.append(("keyed", dict(self.counts)))

    def snapshot_raw_operator(self, output: RawOperatorStateOutput) -> None:
        for total in self.totals:
            output.start_new_partition()
            output.write(str(total).encode())

    def restore_raw_operator(self, partitions: Iterable[BinaryIO]) -> None:
        self.totals = [int(partition.read()) for partition in partitions]
        OwnCounts.restored.append(("operator", sum(self.totals)))


class Shown(SinkFunction):
    records: ClassVar[list[Any]] = []

    def invoke(self, value: Any) -> None:
        Shown.records.append(value)


def job(env: StreamExecutionEnvironment, snapshots: int | None) -> DataStream:
    source = env.from_source(HeldSource(COUNT, snapshots), WatermarkStrategy.no_watermarks(), "Held")
    counted = source.uid("held").key_by(lambda n: n % KEYS, Types.LONG()).process(Everything()).uid("all")
    keyed = counted.key_by(lambda pair: pair[0], Types.LONG())
    return keyed.transform("OwnCounts", OwnCounts()).uid("own")


def half_way(tmp_path: Path, backend: StateBackend, threshold: str = "20kb") -> str:
    """Runs the job with two subtasks up to the middle; returns its checkpoint."""
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.data-inline-threshold": threshold,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    env = environment(tmp_path, 2, options).set_state_backend(backend)
    job(env, snapshots=None).map(CountDown(COUNT // 2)).add_sink(Shown())
    client = env.execute_async()
    assert CountDown.reached.wait(WAIT_S), "half of the records never came"
    client.trigger_checkpoint()
    client.cancel().result()
    assert client.wait() is JobStatus.CANCELED
    path = client.report().newest_checkpoint
    client.close()
    assert path is not None
    return path


@pytest.mark.parametrize("threshold", ["0", "20kb"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_every_kind_of_state_survives_a_change_of_parallelism(
    tmp_path: Path, parallelism: int, threshold: str
) -> None:
    check_rescaled(tmp_path, parallelism, half_way(tmp_path, HashMapStateBackend(), threshold))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: type(backend).__name__)
def test_every_backend_restores_what_it_stored(tmp_path: Path, backend: StateBackend) -> None:
    check_rescaled(tmp_path, 3, half_way(tmp_path, backend), backend)


def test_a_checkpoint_moves_between_backends(tmp_path: Path) -> None:
    check_rescaled(tmp_path, 1, half_way(tmp_path, MemoryStateBackend()), LmdbStateBackend())


def check_rescaled(tmp_path: Path, parallelism: int, path: str, backend: StateBackend | None = None) -> None:
    first_half = list(Shown.records)
    env = environment(tmp_path, parallelism, {"execution.state-recovery.path": path})
    if backend is not None:
        env.set_state_backend(backend)
    job(env, snapshots=0).add_sink(Shown())
    env.execute()

    counts = Counter(n % KEYS for n in range(COUNT))
    expected = [(key, number) for key, count in counts.items() for number in range(1, count + 1)]
    assert sorted(Shown.records) == sorted(expected), "keyed counts go on where they were"
    half = Counter(key for key, _ in first_half)

    lists, unions, rules = zip(*Everything.restored, strict=True)
    assert len(lists) == parallelism
    seen = [number for items in lists for number in items]
    assert len(seen) == len(set(seen)) == COUNT // 2, "each item of the list is in one subtask"
    assert Counter(number % KEYS for number in seen) == half
    if parallelism != 2:
        assert max(map(len, lists)) - min(map(len, lists)) <= 1
    assert all(len(items) == 2 and sum(n for _, n in items) == COUNT // 2 for items in unions)
    assert list(rules) == [{"limit": 7}] * parallelism

    raw = [found for kind, found in OwnCounts.restored if kind == "keyed"]
    assert Counter({key: n for found in raw for key, n in found.items()}) == half
    assert sum(map(len, raw)) == len(half), "no key group is lost or doubled"
    assert sum(n for kind, n in OwnCounts.restored if kind == "operator") == COUNT // 2


def test_a_parallelism_above_the_max_parallelism_is_refused_before_anything_starts(tmp_path: Path) -> None:
    env = environment(tmp_path)
    job(env, snapshots=0).set_max_parallelism(2).set_parallelism(3).add_sink(Shown())
    with pytest.raises(ConfigurationError, match=r"'OwnCounts.*parallelism 3 is not between 1 and .* 2"):
        env.execute()


def test_state_that_outgrows_the_memory_backend_ends_the_job_with_advice(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"restart-strategy.type": "none"})
    env.set_state_backend(MemoryStateBackend(max_state_size=1_000))
    job(env, snapshots=2).add_sink(Shown())
    with pytest.raises(JobExecutionError, match=r"takes \d+ bytes.*1000 bytes.*filesystem"):
        env.execute()


# ---------------------------------------------------------------- notifications


class FailsOnceNotified(MapFunction, CheckpointListener):
    """Fails in its first notification, long after the checkpoint was complete."""

    failures: ClassVar[list[int]] = []

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if not self.failures:
            self.failures.append(checkpoint_id)
            raise ValueError("what?")


def test_a_failing_notification_restarts_the_job_and_leaves_the_checkpoint(tmp_path: Path) -> None:
    FailsOnceNotified.failures.clear()
    env = environment(tmp_path)
    job(env, snapshots=2).map(FailsOnceNotified()).add_sink(Shown())
    report = env.execute().report
    (failed,) = FailsOnceNotified.failures
    (recovery,) = report.statistics.recoveries
    assert "notify_checkpoint_complete() raised ValueError: what?" in recovery.cause
    assert recovery.restored_checkpoint is not None
    assert recovery.restored_checkpoint >= failed


# ---------------------------------------------------------------- shortcuts and transform


def test_the_shortcuts_with_state_run_in_a_job() -> None:
    env = environment(parallelism=2)
    keyed = env.from_collection(range(20)).key_by(lambda n: n % 2, Types.LONG())
    sums = keyed.map_with_state(lambda n, total: ((n, (total or 0) + n), (total or 0) + n), Types.LONG())
    assert Counter(sums.execute_and_collect())[(18, 90)] == 1
    pairs = keyed.flat_map_with_state(lambda n, last: ([] if last is None else [(last, n)], n))
    assert sorted(pairs.execute_and_collect()) == [(n, n + 2) for n in range(18)]
    firsts = keyed.filter_with_state(lambda n, seen: (seen is None, True), Types.BOOLEAN())
    assert sorted(firsts.execute_and_collect()) == [0, 1]


def test_transform_takes_operators_only() -> None:
    env = environment()
    with pytest.raises(ConfigurationError, match=r"transform\(\) takes a StreamOperator, not type"):
        env.from_collection([1]).transform("Own", str)  # type: ignore[arg-type]
