"""Old files are deleted beside the coordinator's loop: one deletion at a time, several files at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.checkpoints.deletion_delay import DeletionTimes, deletion_delay
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged, SubtaskDeclined
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import SOURCE, TOTALS, FakeCluster, job_spec

MEETING_S = 60


class LaterCluster(FakeCluster):
    """Background work waits until it is run."""

    def __init__(self, *arguments: object) -> None:
        self.background: list[Callable[[], None]] = []
        super().__init__(*arguments)  # type: ignore[arg-type]

    def run_in_background(self, work: Callable[[], None]) -> None:
        self.background.append(work)

    def run_background(self) -> None:
        waiting, self.background = self.background, []
        for work in waiting:
            work()


class BusyCluster(LaterCluster):
    """The coordinator's loop takes what is posted only when it is run."""

    def __init__(self, *arguments: object) -> None:
        self.posted: list[Callable[[], None]] = []
        super().__init__(*arguments)

    def post(self, action: Callable[[], None]) -> None:
        self.posted.append(action)

    def run_posted(self) -> None:
        waiting, self.posted = self.posted, []
        for action in waiting:
            action()


def manifests(cluster: FakeCluster) -> list[str]:
    return [path for path in cluster.files() if path.endswith("MANIFEST")]


def test_checkpoints_complete_while_a_deletion_is_slow_and_no_second_one_is_queued() -> None:
    cluster = LaterCluster().run()
    for _ in range(3):
        cluster.complete_checkpoint()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert len(cluster.background) == 1
    assert manifests(cluster) == [f"chk-{number}/MANIFEST" for number in range(1, 4)]
    cluster.run_background()
    assert len(cluster.background) == 1, "what has become garbage meanwhile is next"
    cluster.run_background()
    assert manifests(cluster) == ["chk-3/MANIFEST"]
    assert [path for path in cluster.files() if path.startswith("shared")] == [
        "shared/op-totals/0-3",
        "shared/op-totals/1-3",
    ]


@pytest.mark.parametrize("max_concurrent", [1, 2])
def test_no_checkpoint_is_triggered_while_too_many_old_ones_wait_to_be_deleted(max_concurrent: int) -> None:
    trigger = TriggerPolicy(interval_ms=100, timeout_ms=1_000, max_concurrent=max_concurrent)
    cluster = LaterCluster(job_spec(trigger=trigger)).run()
    # The newest is kept; of those before it one more than the bound waits.
    for _ in range(max_concurrent + 2):
        cluster.complete_checkpoint()
    newest = cluster.triggered().checkpoint_id
    warning = f"{max_concurrent + 1} old checkpoints wait to be deleted"
    assert [text for text in cluster.coordinator.statistics.warnings if warning in text]
    cluster.requests.trigger_checkpoint()
    cluster.pass_ms(500)
    assert cluster.triggered().checkpoint_id == newest
    cluster.run_background()
    assert cluster.triggered().checkpoint_id == newest + 1, "it goes on by itself"


def test_a_deletion_that_fails_holds_back_nothing() -> None:
    storage = StubbornStorage()
    cluster = LaterCluster(None, storage).run()
    storage.refuses = True
    for _ in range(6):
        cluster.complete_checkpoint()
        cluster.run_background()
    assert cluster.triggered().checkpoint_id == 6
    assert len(cluster.background) == 0, "it is not tried in a tight loop"
    storage.refuses = False
    cluster.complete_checkpoint()
    cluster.run_background()
    assert manifests(cluster) == ["chk-7/MANIFEST"]


def test_files_of_aborted_checkpoints_count_too() -> None:
    trigger = TriggerPolicy(interval_ms=100, timeout_ms=1_000, tolerable_failures=9)
    cluster = LaterCluster(job_spec(trigger=trigger)).run()
    for _ in range(3):
        cluster.pass_ms(100)
        checkpoint_id = cluster.triggered().checkpoint_id
        acknowledged = cluster.stored(TOTALS[0], checkpoint_id)
        cluster.coordinator.handle(
            SubtaskAcknowledged(cluster.attempt, TOTALS[0], checkpoint_id, acknowledged)
        )
        cluster.coordinator.handle(SubtaskDeclined(cluster.attempt, SOURCE, checkpoint_id, "full"))
    # The subtask needs the files of its newest acknowledgement, so the first abort left none to delete.
    cluster.pass_ms(500)
    assert cluster.triggered().checkpoint_id == 3
    cluster.run_background()
    assert cluster.triggered().checkpoint_id == 4


def test_orphans_are_found_before_a_restart_and_deleted_after_it() -> None:
    cluster = LaterCluster().run()
    cluster.complete_checkpoint()
    orphan = "shared/op-totals/0-orphan"
    cluster.storage.sub("job").write_file(orphan, b"of an aborted checkpoint")
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    new = "shared/op-totals/0-new"
    cluster.storage.sub("job").write_file(new, b"of the new attempt")
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert orphan in cluster.files(), "the restart did not wait for the deletion"
    cluster.run_background()
    assert orphan not in cluster.files()
    assert {new, "shared/op-totals/0-1", "chk-1/MANIFEST"} <= set(cluster.files())


class StubbornStorage(MemoryCheckpointStorage):
    """Deletes nothing while `refuses` is set."""

    refuses = False

    def delete(self, paths: Iterable[str]) -> None:
        if self.refuses:
            raise CheckpointStorageError("the bucket cannot be reached")
        super().delete(paths)

    def sub(self, prefix: str) -> CheckpointStorage:
        return self


class MeetingStorage(MemoryCheckpointStorage):
    """A deletion of state waits until another one is under way as well."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(2)

    def delete(self, paths: Iterable[str]) -> None:
        doomed = list(paths)
        if any(path.startswith("shared") for path in doomed):
            self.meeting.wait(MEETING_S)
        super().delete(doomed)

    def sub(self, prefix: str) -> CheckpointStorage:
        return self


def test_several_files_are_deleted_at_a_time() -> None:
    cluster = FakeCluster(job_spec(deleting_threads=2), MeetingStorage()).run()
    cluster.complete_checkpoint()
    cluster.complete_checkpoint()
    assert [path for path in cluster.storage.list_files("shared") if path.endswith("-1")] == []


def warning_of(cluster: FakeCluster) -> str:
    (warning,) = (text for text in cluster.coordinator.statistics.warnings if "wait to be deleted" in text)
    return warning


class SlowStorage(StubbornStorage):
    """Checkpoints complete while it deletes."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def delete(self, paths: Iterable[str]) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().delete(paths)


def test_a_deletion_that_waits_for_a_thread_is_not_blamed_on_storage() -> None:
    cluster = LaterCluster().run()
    for _ in range(3):
        cluster.complete_checkpoint()
    assert "waited 0.1 s for a thread, so storage is not the cause" in warning_of(cluster)


def test_a_coordinator_that_is_busy_after_a_deletion_is_not_blamed_on_storage() -> None:
    cluster = BusyCluster().run()
    for _ in range(2):
        cluster.complete_checkpoint()
    cluster.run_background()
    cluster.complete_checkpoint()
    assert "the coordinator's loop was busy for 0.1 s since then" in warning_of(cluster)
    cluster.run_posted()
    assert cluster.coordinator.status is JobStatus.RUNNING


def test_storage_that_deletes_slowly_is_named() -> None:
    storage = SlowStorage()
    cluster = LaterCluster(None, storage).run()
    for _ in range(2):
        cluster.complete_checkpoint()
    storage.meanwhile = cluster.complete_checkpoint
    cluster.run_background()
    assert "The deletion has taken 0.1 s so far" in warning_of(cluster)


def test_a_deletion_on_an_overloaded_machine_is_not_blamed_on_storage_alone() -> None:
    times = DeletionTimes(queued_ns=0, begun_ns=10_000_000)
    idle, loaded = (deletion_delay(times, 2_000_000_000, load) for load in (0.4, 3.0))
    assert idle.startswith("The deletion has taken 2.0 s so far. Storage deletes slowly")
    assert "on a machine with 3.0 runnable threads per CPU. Reduce the load" in loaded
