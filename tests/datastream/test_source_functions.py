"""Sources written as one method run in a thread of their own, and their state is exact in checkpoints."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError, TidegateError
from tidegate.common.typeinfo import Types
from tidegate.datastream import (
    CheckpointedFunction,
    MapFunction,
    ParallelSourceFunction,
    RichParallelSourceFunction,
    RichSourceFunction,
    RuntimeContext,
    SourceContext,
    SourceFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor

from .jobs import WAIT_S, environment


def collected(env: StreamExecutionEnvironment, source: SourceFunction) -> list[Any]:
    with env.add_source(source).execute_and_collect() as results:
        return list(results)


class Numbers(SourceFunction):
    """The numbers below `count`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.is_running = True

    def run(self, ctx: SourceContext) -> None:
        for number in range(self.count):
            if not self.is_running:
                return
            ctx.collect(number)

    def cancel(self) -> None:
        self.is_running = False


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_everything_a_function_collects_arrives_in_order_and_its_return_ends_the_job(count: int) -> None:
    assert collected(environment(), Numbers(count)) == list(range(count))


def test_a_function_that_is_not_parallel_runs_once_whatever_the_parallelism() -> None:
    assert sorted(collected(environment(parallelism=3), Numbers(5))) == [0, 1, 2, 3, 4]


class Mine(RichParallelSourceFunction):
    """One record per subtask: its index and the parallelism."""

    def run(self, ctx: SourceContext) -> None:
        context = self.get_runtime_context()
        ctx.collect((context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks()))

    def cancel(self) -> None: ...


def test_a_parallel_function_runs_in_every_subtask() -> None:
    assert sorted(collected(environment(parallelism=3), Mine())) == [(0, 3), (1, 3), (2, 3)]


def test_a_rich_function_has_no_runtime_context_before_it_runs() -> None:
    with pytest.raises(RuntimeError, match="before open"):
        Mine().get_runtime_context()


class Stamped(SourceFunction):
    """Records with and without timestamps."""

    def run(self, ctx: SourceContext) -> None:
        ctx.collect("none")
        ctx.collect_with_timestamp("negative", -5)
        ctx.collect_with_timestamp("far", (1 << 62))
        ctx.collect("none again")

    def cancel(self) -> None: ...


def test_records_keep_their_timestamps() -> None:
    from tidegate.datastream import ProcessFunction

    class Show(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield value, ctx.timestamp()

    with environment().add_source(Stamped()).process(Show()).execute_and_collect() as results:
        assert list(results) == [
            ("none", None), ("negative", -5), ("far", 1 << 62), ("none again", None),
        ]  # fmt: skip


class BadTimestamp(SourceFunction):
    def __init__(self, timestamp: Any) -> None:
        self.timestamp = timestamp

    def run(self, ctx: SourceContext) -> None:
        ctx.collect_with_timestamp("poison", self.timestamp)

    def cancel(self) -> None: ...


@pytest.mark.parametrize("timestamp", [None, 1.5, "now", True, 1 << 63, -(1 << 63), (1 << 63) - 1])
def test_an_impossible_timestamp_fails_the_job_and_names_record_and_value(timestamp: Any) -> None:
    with pytest.raises(JobExecutionError) as failure:
        collected(environment(), BadTimestamp(timestamp))
    assert f"Custom Source (1/1): the timestamp of the record 'poison' is {timestamp!r}" in str(failure.value)


class Raising(SourceFunction):
    """Collects a few records, then fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self, ctx: SourceContext) -> None:
        ctx.collect(1)
        raise self.error

    def cancel(self) -> None: ...


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), StopIteration()])
def test_a_function_that_raises_midway_fails_the_job_with_operator_and_cause(error: BaseException) -> None:
    with pytest.raises(
        JobExecutionError, match=r"Custom Source \(1/1\): run\(\) raised " + type(error).__name__
    ):
        collected(environment(), Raising(error))


def test_add_source_takes_source_functions_only() -> None:
    with pytest.raises(ConfigurationError, match="takes a SourceFunction, not list"):
        environment().add_source([1, 2, 3])  # type: ignore[arg-type]


# ---------------------------------------------------------------- checkpoints


class Counting(RichSourceFunction, CheckpointedFunction):
    """Pairs (number, number), each pair and the step of the position under the lock.

    The half-way record makes it wait until so many snapshots were taken, so that crashes find checkpoints.
    """

    def __init__(self, count: int, wait_at: int, snapshots: int = 2) -> None:
        self.count = count
        self.wait_at = wait_at
        self.snapshots = snapshots
        self.position = 0
        self.is_running = True

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("position", Types.LONG()))
        self.position = next(iter(self.state.get()), 0)
        self.seen = 0
        self.snapshot = threading.Condition()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.position])
        with self.snapshot:
            self.seen += 1
            self.snapshot.notify()

    def run(self, ctx: SourceContext) -> None:
        lock = ctx.get_checkpoint_lock()
        while self.is_running and self.position < self.count:
            with lock:
                ctx.collect((self.position, "first"))
                ctx.collect((self.position, "second"))
                self.position += 1
            if self.position == self.wait_at:
                with self.snapshot:
                    self.snapshot.wait_for(lambda: self.seen >= self.snapshots or not self.is_running, WAIT_S)

    def cancel(self) -> None:
        self.is_running = False
        with self.snapshot:
            self.snapshot.notify()


class FailOnce(MapFunction):
    """Fails on the first record after a number, the first time."""

    armed: ClassVar[bool] = True

    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, value: Any) -> Any:
        if value[0] > self.number and FailOnce.armed:
            FailOnce.armed = False
            raise RuntimeError("crash")
        return value


@pytest.mark.parametrize("batch_size", [1, 7, 4096])
def test_after_a_crash_every_record_is_there_exactly_once(tmp_path: Path, batch_size: int) -> None:
    FailOnce.armed = True
    env = environment(tmp_path, options={"tidegate.batch.size": str(batch_size)})
    stream = env.add_source(Counting(200, wait_at=100)).uid("numbers").map(FailOnce(150))
    with stream.execute_and_collect() as results:
        got = list(results)
    assert not FailOnce.armed
    assert got == [(n, which) for n in range(200) for which in ("first", "second")]


class InDoubt(Counting):
    """Fails, once, inside a section, after the record and before the step; a checkpoint is due then."""

    failed: ClassVar[bool] = False

    def run(self, ctx: SourceContext) -> None:
        if self.position < 50:
            self.wait_at = 50
            self.count, count = 51, self.count
            super().run(ctx)
            self.count = count
        if not InDoubt.failed:
            InDoubt.failed = True
            with ctx.get_checkpoint_lock():
                ctx.collect((self.position, "first"))
                raise OSError("the socket is gone")
        self.wait_at = -1
        super().run(ctx)


def test_no_snapshot_is_taken_between_a_failure_inside_a_section_and_the_end_of_the_function(
    tmp_path: Path,
) -> None:
    InDoubt.failed = False
    env = environment(tmp_path)
    with env.add_source(InDoubt(100, 50)).uid("numbers").execute_and_collect() as results:
        got = list(results)
    assert got == [(n, which) for n in range(100) for which in ("first", "second")]


# ---------------------------------------------------------------- the end


class Endless(SourceFunction):
    """Runs until it is cancelled; tells of its life by events."""

    began: ClassVar[threading.Event] = threading.Event()
    ended: ClassVar[threading.Event] = threading.Event()

    def __init__(self, emits: bool = True, holds_lock: bool = False) -> None:
        self.emits = emits
        self.holds_lock = holds_lock

    def open(self, runtime_context: RuntimeContext) -> None:
        self.cancelled = threading.Event()

    def run(self, ctx: SourceContext) -> None:
        Endless.began.set()
        try:
            while not self.cancelled.is_set():
                if not self.emits:
                    self.cancelled.wait(WAIT_S)
                elif self.holds_lock:
                    with ctx.get_checkpoint_lock():
                        for number in range(10_000):
                            ctx.collect(number)
                else:
                    ctx.collect(0)
        finally:
            Endless.ended.set()

    def cancel(self) -> None:
        self.cancelled.set()

    @staticmethod
    def restart() -> None:
        Endless.began.clear()
        Endless.ended.clear()


@pytest.mark.parametrize(("emits", "holds_lock"), [(True, False), (True, True), (False, False)])
def test_a_cancelled_job_cancels_its_function_and_waits_for_its_thread(emits: bool, holds_lock: bool) -> None:
    Endless.restart()
    env = environment()
    env.add_source(Endless(emits, holds_lock)).map(lambda value: value).add_sink(lambda value: None)
    before = threading.active_count()
    client = env.execute_async()
    assert Endless.began.wait(WAIT_S)
    client.cancel()
    assert Endless.ended.wait(WAIT_S)
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize("advances", [True, False])
@pytest.mark.parametrize(("emits", "holds_lock"), [(True, False), (True, True), (False, False)])
def test_a_job_stops_with_a_savepoint_while_the_function_runs(
    tmp_path: Path, emits: bool, holds_lock: bool, advances: bool
) -> None:
    Endless.restart()
    env = environment(tmp_path)
    env.add_source(Endless(emits, holds_lock)).uid("endless").map(lambda value: value).add_sink(ignore)
    client = env.execute_async()
    assert Endless.began.wait(WAIT_S)
    path = client.stop_with_savepoint(advances, str(tmp_path / "savepoints")).result(WAIT_S)
    assert path is not None
    assert Endless.ended.wait(WAIT_S)


def ignore(value: Any) -> None:
    """Take a record."""


class Closes(ParallelSourceFunction):
    """Emits after it closed its context."""

    def run(self, ctx: SourceContext) -> None:
        ctx.collect("before")
        ctx.close()
        ctx.collect("after")

    def cancel(self) -> None: ...


def test_nothing_is_accepted_after_close() -> None:
    assert collected(environment(), Closes()) == ["before"]


class Deaf(Endless):
    """Hears no cancel until the test ends."""

    stop_timeout_ms = 50
    may_end: ClassVar[threading.Event] = threading.Event()

    def run(self, ctx: SourceContext) -> None:
        Endless.began.set()
        Deaf.may_end.wait(WAIT_S)
        Endless.ended.set()


@pytest.mark.parametrize("drains", [False, True])
def test_a_function_that_does_not_end_is_reported_and_the_job_ends_without_it(
    tmp_path: Path, drains: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Endless.restart()
    Deaf.may_end.clear()
    env = environment(tmp_path, options={"restart-strategy.type": "none"})
    env.add_source(Deaf()).uid("deaf").name("Deaf").add_sink(ignore)
    client = env.execute_async()
    assert Endless.began.wait(WAIT_S)
    if drains:
        with pytest.raises(TidegateError, match="the savepoint was aborted: the job ends"):
            client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(WAIT_S)
        with pytest.raises(JobExecutionError, match=r"Deaf \(1/1\): run\(\) did not return within 50 ms"):
            client.result()
    else:
        client.cancel()
        client.wait(WAIT_S)
    assert "run() is still going on 50 ms after cancel()" in caplog.text
    assert "Deaf.may_end.wait(WAIT_S)" in caplog.text
    Deaf.may_end.set()
    assert Endless.ended.wait(WAIT_S)
