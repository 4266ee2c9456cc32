"""Two coordinators of one job: the old one was stopped, wakes up, and must change nothing (ADR 054)."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from tidegate.common.errors import CorruptCheckpointError, SupersededError
from tidegate.common.job_status import JobStatus
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.coordinator.coordinator_life import CoordinatorLife
from tidegate.coordinator.ended_job import encode_end
from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.spec import JobSpec
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.ids import JobId
from tidegate.state.storage.checkpoint_storage import register_scheme
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import SUBTASKS, FakeCluster, job_spec

LEASE_MS = 100


class Cluster:
    """What the coordinators of one job share: storage, a clock and the hand-over."""

    def __init__(self, **settings: object) -> None:
        self.root = MemoryCheckpointStorage()
        register_scheme("shared-by-lives", lambda path: self.root)
        self.is_handed_over = True
        self.is_current: bool | None = True
        self.newest: Life | None = None
        self.time_ms = 1_000
        self.spec = job_spec(checkpoint_dir="shared-by-lives://", lease_ms=LEASE_MS, **settings)

    def start(self) -> Life:
        life = self.newest = Life(self, self.spec)
        life.life.start()
        return life

    def files(self) -> list[str]:
        return self.root.list_files("")


class Life(FakeCluster):
    """One coordinator with tasks of its own; also its `LifePorts`."""

    def __init__(self, cluster: Cluster, spec: JobSpec) -> None:
        super().__init__(spec, cluster.root)
        self.cluster = cluster
        self.has_left = self.is_restarted = False
        self.life = CoordinatorLife(spec, self, self._coordinator, lambda: self.now_ns() // 1_000_000)
        self.coordinator = self.life.coordinator

    def _coordinator(self, ended: Callable[[bool], None]) -> JobCoordinator:
        return JobCoordinator(self.cluster.spec, self, self.tracer, self.cluster.root, ended, self.is_current)

    def now_ns(self) -> int:
        return self.cluster.time_ms * 1_000_000

    def is_current(self) -> bool | None:
        return self.cluster.newest is self if self.cluster.is_current else self.cluster.is_current

    def is_handed_over(self) -> bool:
        return self.cluster.is_handed_over

    def forget_job(self) -> None:
        self.cluster.is_handed_over = False

    def leave(self) -> None:
        self.has_left = True

    def restart(self) -> None:
        self.is_restarted = True

    def turn(self, *occurred: events.TaskEvent) -> None:
        """What a shell does with events, if the coordinator may act."""
        for event in occurred:
            if self.life.may_act():
                self.coordinator.handle(event)
        if self.coordinator.status.is_globally_terminal_state():
            self.life.ended()

    def all_fail(self) -> list[events.TaskEvent]:
        return [events.TaskFailed(self.attempt, subtask, "its process died") for subtask in SUBTASKS]


def test_a_coordinator_that_was_stopped_and_superseded_neither_deploys_nor_fails_the_job() -> None:
    cluster = Cluster(restart_strategy=RestartStrategies.no_restart())
    old = cluster.start()
    old.initialized()
    failures = old.all_fail()
    new = cluster.start()
    before = cluster.files()
    cluster.time_ms += LEASE_MS + 1
    old.turn(*failures)
    assert old.life.is_superseded
    assert old.coordinator.status is not JobStatus.FAILED or old.life.end is None
    assert len(old.deployments) == 1
    with pytest.raises(SupersededError, match="superseded"):
        old.life.check_not_superseded()
    assert old.life.lingered()
    assert old.has_left
    assert cluster.files() == before
    assert cluster.is_handed_over
    assert new.life.may_act()


def test_a_coordinator_that_is_superseded_between_its_failure_and_its_restart_does_not_deploy() -> None:
    cluster = Cluster()
    old = cluster.start()
    old.initialized()
    old.turn(*old.all_fail())
    assert old.coordinator.status is JobStatus.RESTARTING
    cluster.start()
    # Less than the lease in each step: it was never silent, so only the deployment itself asks.
    for _ in range(3):
        cluster.time_ms += LEASE_MS // 2
        if old.life.may_act():
            old.coordinator.tick()
    assert len(old.deployments) == 1
    assert old.life.is_superseded


def test_a_coordinator_whose_successor_is_only_starting_neither_deploys_nor_ends_the_job() -> None:
    cluster = Cluster(restart_strategy=RestartStrategies.no_restart())
    old = cluster.start()
    old.initialized()
    failures = old.all_fail()
    cluster.is_current = False
    before = cluster.files()
    old.turn(*failures)
    assert old.life.is_superseded
    assert old.life.end is None
    assert cluster.files() == before


def test_while_it_is_not_known_who_is_the_coordinator_the_job_does_not_end_and_ends_later() -> None:
    cluster = Cluster(restart_strategy=RestartStrategies.no_restart())
    old = cluster.start()
    old.initialized()
    cluster.is_current = None
    old.turn(*old.all_fail())
    assert old.coordinator.status is JobStatus.FAILING
    cluster.is_current = True
    cluster.time_ms = old.coordinator.next_due_ms()
    assert old.life.may_act()
    old.coordinator.tick()
    assert old.coordinator.status is JobStatus.FAILED


def test_one_that_lost_the_job_to_a_coordinator_that_woke_up_in_its_claim_is_started_again() -> None:
    cluster = Cluster()
    current = cluster.start()
    stopped = Life(cluster, cluster.spec)
    stopped.coordinator.claim()
    cluster.time_ms += LEASE_MS + 1
    assert not current.life.may_act()
    assert current.life.lingered()
    assert current.is_restarted
    assert not current.has_left


def test_one_whose_job_was_removed_from_storage_is_not_started_again() -> None:
    """It would run the job from its start."""
    cluster = Cluster()
    life = cluster.start()
    cluster.root.sub("job").delete_all()
    cluster.time_ms += LEASE_MS + 1
    assert not life.life.may_act()
    assert life.life.lingered()
    assert life.has_left
    assert not life.is_restarted


def test_a_running_coordinator_notices_its_successor_within_its_lease() -> None:
    cluster = Cluster()
    old = cluster.start()
    old.initialized()
    cluster.start()
    for _ in range(3):
        cluster.time_ms += LEASE_MS // 2
        old.life.may_act()
    assert old.life.is_superseded


def finished(cluster: Cluster) -> Life:
    life = cluster.start()
    life.initialized()
    life.turn(*(events.TaskFinished(life.attempt, subtask) for subtask in SUBTASKS))
    assert life.life.end is not None
    return life


def test_the_end_of_a_job_is_taken_over_and_the_old_coordinator_removes_nothing_of_it() -> None:
    cluster = Cluster()
    old = finished(cluster)
    new = cluster.start()
    assert new.life.end is not None
    assert new.life.end.status is JobStatus.FINISHED
    assert new.deployments == []
    before = cluster.files()
    cluster.time_ms += LEASE_MS + 1
    assert old.life.lingered()
    assert old.has_left
    assert cluster.is_handed_over
    assert cluster.files() == before
    third = cluster.start()
    assert third.life.end is not None
    assert third.life.lingered()
    assert cluster.files() == []
    assert not cluster.is_handed_over


def test_a_coordinator_that_starts_when_the_end_was_forgotten_does_not_run_the_job_again() -> None:
    cluster = Cluster()
    old = finished(cluster)
    late = Life(cluster, cluster.spec)
    assert old.life.lingered()
    late.life.start()
    assert late.life.is_forgotten
    assert late.deployments == []
    assert late.life.lingered()
    assert late.has_left
    assert cluster.files() == []


def test_an_end_that_was_recorded_after_a_successor_has_started_does_not_count() -> None:
    cluster = Cluster()
    old = cluster.start()
    old.initialized()
    cluster.start()
    cluster.root.write_file("ended/job.1", encode_end(JobId("job"), old.life.report(), []))
    third = cluster.start()
    assert third.life.end is None
    assert len(third.deployments) == 1


def test_an_end_of_an_earlier_release_is_refused_with_an_error_that_names_it() -> None:
    """Versions up to 0.1 wrote a pickle, without a number: nothing unpickles it (ADR 058)."""
    cluster = Cluster()
    old = cluster.start()
    cluster.root.write_file("ended/job", pickle.dumps((old.life.report(), [])))
    with pytest.raises(CorruptCheckpointError, match="ended/job is damaged: it is not a control file"):
        cluster.start()


def test_a_job_with_savepoints_only_starts_although_it_cannot_be_resumed() -> None:
    cluster = Cluster(savepoints_only=True, trigger=TriggerPolicy(interval_ms=None), keep_on_fail=True)
    # The actor of a job that is not resumed forgets what was handed over before it starts the job.
    cluster.is_handed_over = False
    life = cluster.start()
    assert not life.life.is_forgotten
    life.initialized()
    assert life.requests.trigger_checkpoint() is None
    life.coordinator.cancel()
    life.turn(*(events.TaskStopped(life.attempt, subtask) for subtask in SUBTASKS))
    assert life.coordinator.status is JobStatus.CANCELED
    assert life.life.lingered()
    assert life.has_left
    assert cluster.files() == []
