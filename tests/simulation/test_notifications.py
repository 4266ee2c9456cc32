"""Notifications in the simulation: half of them are lost, some raise, and nothing is lost or doubled."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.spec import JobSettings, JobSpec
from tidegate.coordinator.statistics import CheckpointOutcome
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.operators.checkpointed import CheckpointListener
from tidegate.protocol.failover import FixedDelayRestart
from tidegate.protocol.ids import JobId
from tidegate.protocol.plan import JobGraph, build_job_graph
from tidegate.protocol.trigger import TriggerPolicy
from tidegate.state.backend import HashMapStateBackend
from tidegate.testing.simulated_job import (
    CountPerSplit,
    ReplayableSource,
    TwoPhaseSink,
    expected_output,
    new_outside,
)
from tidegate.testing.simulated_shell import Faults, SimulatedShell
from tidegate.testing.simulated_storage import SimulatedStorage
from tidegate.testing.world import World

SPLITS, RECORDS = 3, 20
MAX_EVENTS = 60_000
SEEDS = range(30_001, 30_013)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class Diary:
    """What the functions of one run were told; they find it by themselves."""

    world = World(0)
    raising = 0.0
    heard: ClassVar[Counter[str]] = Counter()
    raised = 0


class Listening(CountPerSplit, CheckpointListener):
    """Counts as the simulated job does, and sometimes raises when it is told of a checkpoint."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Diary.heard["complete"] += 1
        if Diary.world.chance(Diary.raising):
            Diary.raised += 1
            raise ValueError(f"did not want to hear of {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        Diary.heard["aborted"] += 1


def graph() -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_max_parallelism(8)
    first, second = (
        env.from_source(ReplayableSource(name, SPLITS, RECORDS), WatermarkStrategy.no_watermarks(), name)
        .uid(name)
        .set_parallelism(2)
        for name in ("a", "b")
    )
    keyed = first.union(second).key_by(lambda value: value[2], Types.LONG())
    counted = keyed.process(Listening()).uid("count").set_parallelism(2)
    counted.sink_to(TwoPhaseSink()).uid("sink").set_parallelism(2)
    return build_job_graph(env.get_stream_graph("notified"))


def run(seed: int, faults: Faults, raising: float = 0.0) -> SimulatedShell:
    """Run the job to its end; what it wrote must be what a sequential run writes."""
    world = World(seed)
    Diary.world, Diary.raising, Diary.heard, Diary.raised = world, raising, Counter(), 0
    outside = new_outside()
    settings = JobSettings(
        state_backend=HashMapStateBackend(),
        local_dir="unused",
        trigger=TriggerPolicy(interval_ms=5, timeout_ms=200, max_concurrent=2, tolerable_failures=1_000),
        checkpoint_dir="simulated",
        restart_strategy=FixedDelayRestart(1_000, 0),
        batch_size=2,
        channel_credit_bytes=320,
    )
    spec = JobSpec(JobId("notified"), graph(), settings)
    shell = SimulatedShell(world, spec, SimulatedStorage(world, 0.02), faults)
    shell.start()
    while not shell.coordinator.status.is_globally_terminal_state():
        assert world.events_run < MAX_EVENTS, shell.stuck()
        assert world.run_next(), shell.stuck()
    assert shell.coordinator.status is JobStatus.FINISHED
    assert Counter(outside.visible()) == expected_output(SPLITS, RECORDS)
    return shell


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_notification_is_made_up_for_by_a_later_one(seed: int) -> None:
    shell = run(seed, Faults(lost_notification=0.6, task_crashes=1, coordinator_crashes=0))
    completed = shell.coordinator.statistics.counts[CheckpointOutcome.COMPLETED]
    assert Diary.heard["complete"] < 2 * completed, "none was lost"


def test_a_notification_that_raises_restarts_the_job_from_the_checkpoint_it_was_about() -> None:
    restarts = 0
    for seed in SEEDS:
        shell = run(seed, Faults(lost_notification=0.1, task_crashes=0, coordinator_crashes=0), raising=0.2)
        recoveries = shell.coordinator.statistics.recoveries
        about = [each for each in recoveries if "did not want to hear of" in each.cause]
        for each in about:
            told = int(each.cause.rpartition("did not want to hear of ")[2].split()[0].rstrip(".)"))
            assert each.restored_checkpoint is not None
            assert each.restored_checkpoint >= told, "the checkpoint was revoked"
        restarts += len(about)
    assert restarts > 5
