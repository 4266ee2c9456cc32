"""The local shell runs whole jobs in one thread and answers questions from others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
import pytest
from tidegate.common.errors import JobExecutionError
from tidegate.common.job_status import JobStatus
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.connectors.collect import CollectSink
from tidegate.connectors.collection import CollectionSource
from tidegate.coordinator.local_executor import LocalExecutor
from tidegate.coordinator.spec import JobSpec
from tidegate.operators.base import StreamOperator
from tidegate.operators.elementwise import MapOperator
from tidegate.operators.sinks import SinkOperator
from tidegate.operators.sources.sources import Source, SourceOperator, SourceReader
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import Batch
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.telemetry import create_tracer, logs

from .fakes import job_spec


def collecting_job(source: Source, *more: StreamOperator, parallelism: int = 1, **settings: Any) -> JobSpec:
    """A job of a source, further operators behind exchanges, and a collecting sink."""
    settings = {
        "trigger": None,
        "checkpoint_dir": None,
        "restart_strategy": RestartStrategies.no_restart(),
        **settings,
    }
    is_checkpointing = settings["trigger"] is not None
    operators = [SourceOperator(source), *more, SinkOperator(CollectSink(is_checkpointing))]
    graph = StreamGraph("local")
    for number, operator in enumerate(operators):
        pickled, name = cloudpickle.dumps(operator), type(operator).__name__
        is_inner = 0 < number < len(operators) - 1
        graph.nodes[number] = StreamNode(
            number, name, name, pickled, parallelism if is_inner else 1, 128, is_source=number == 0
        )
        if number:
            graph.edges.append(StreamEdge(number, number - 1, number, Partitioning.REBALANCE))
    return job_spec(build_job_graph(graph), **settings)


def executor(source: Source, *more: StreamOperator, **settings: Any) -> LocalExecutor:
    spec = collecting_job(source, *more, **settings)
    return LocalExecutor(spec, create_tracer("test"), MemoryCheckpointStorage())


class Endless(Source):
    """Counts for ever; sets an event when it has begun, and stops when told to."""

    began = threading.Event()

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return EndlessReader(splits[0])


class EndlessReader(SourceReader):
    def __init__(self, position: int) -> None:
        self.position = position

    def poll(self, max_records: int) -> Batch | None:
        Endless.began.set()
        self.position += 1
        return Batch([self.position])

    def snapshot_state(self) -> list[Any]:
        return [self.position]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_runs_to_its_end_in_the_calling_thread(parallelism: int) -> None:
    job = executor(CollectionSource(range(1_000)), MapOperator(str), parallelism=parallelism)
    job.run()
    assert job.coordinator.status is JobStatus.FINISHED
    assert sorted(job.take_results(), key=int) == [str(number) for number in range(1_000)]
    assert job.wait(0)


def test_with_little_credit_everything_still_arrives_in_order() -> None:
    job = executor(
        CollectionSource(range(500)), MapOperator(abs), channel_credit_bytes=1, result_credit_bytes=10**9,
        batch_size=7,
    )  # fmt: skip
    job.run()
    assert job.take_results() == list(range(500))


def test_checkpoints_are_taken_while_the_job_runs() -> None:
    job = executor(CollectionSource(range(100)), trigger=TriggerPolicy(interval_ms=10), checkpoint_dir="x")
    job.run()
    assert job.coordinator.status is JobStatus.FINISHED
    assert job.take_results() == list(range(100))
    assert job.coordinator.statistics.checkpoints


def test_a_failing_job_ends_failed_with_its_cause_and_leaves_no_thread() -> None:
    def fail(value: int) -> int:
        raise RuntimeError("poisoned")

    before = threading.active_count()
    job = executor(CollectionSource([1]), MapOperator(fail))
    job.run()
    assert job.coordinator.status is JobStatus.FAILED
    assert job.coordinator.failure is not None
    assert "map() raised RuntimeError: poisoned on the record 1" in job.coordinator.failure.cause
    assert threading.active_count() == before


class Flaky:
    failures = 0

    @staticmethod
    def map(value: int) -> int:
        if value == 3 and Flaky.failures:
            Flaky.failures -= 1
            raise RuntimeError("not yet")
        return value


def test_restarts_run_in_the_same_executor() -> None:
    Flaky.failures = 2
    job = executor(
        CollectionSource(range(5)),
        MapOperator(Flaky.map),
        restart_strategy=RestartStrategies.fixed_delay_restart(2, 0),
    )
    job.run()
    assert job.coordinator.status is JobStatus.FINISHED
    assert job.coordinator.statistics.restarts == 2
    # Without checkpoints every restart begins anew.
    assert set(job.take_results()) == set(range(5))


@contextmanager
def running(job: LocalExecutor) -> Iterator[threading.Thread]:
    """The job in a thread of its own, cancelled at the end."""
    Endless.began.clear()
    thread = threading.Thread(target=job.run)
    thread.start()
    try:
        assert Endless.began.wait(120)
        yield thread
    finally:
        if not job.wait(0):
            job.call(job.coordinator.cancel)
        thread.join()


def test_requests_of_other_threads_run_on_the_executors_own() -> None:
    job = executor(Endless())
    with running(job) as thread:
        assert job.call(threading.current_thread) is thread
        assert not job.wait(0)
    assert job.coordinator.status is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="takes no more requests"):
        job.call(job.coordinator.cancel)


def test_a_request_that_fails_raises_where_it_was_made_and_the_job_goes_on() -> None:
    job = executor(Endless())
    with running(job):
        with pytest.raises(ZeroDivisionError):
            job.call(lambda: 1 // 0)
        assert job.call(lambda: job.coordinator.status) is JobStatus.RUNNING


def test_a_driver_that_takes_nothing_stops_the_sources() -> None:
    job = executor(Endless(), result_credit_bytes=64 * 100, channel_credit_bytes=640, batch_size=10)
    with running(job):
        seen = 0
        while seen < 1_000:
            seen += len(job.call(job.take_results))
            waiting = job.call(lambda: job.coordinator.results.waiting)
            assert sum(event.size_bytes for event in waiting) <= 64 * (100 + 10)


def test_the_drivers_thread_logs_for_itself_again_when_the_job_is_over() -> None:
    executor(CollectionSource(range(10)), MapOperator(str)).run()
    assert logs.current() is None
