"""Old files are deleted beside the coordinator's loop: one deletion at a time, several files at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tidegate.common.job_status import JobStatus
from tidegate.state.memory_storage import MemoryCheckpointStorage
from tidegate.state.storage import CheckpointStorage

from .fakes import FakeCluster, job_spec

MEETING_S = 10


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


def test_checkpoints_complete_while_a_deletion_is_slow_and_no_second_one_is_queued() -> None:
    cluster = LaterCluster().run()
    for _ in range(5):
        cluster.complete_checkpoint()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert len(cluster.background) == 1
    manifests = [path for path in cluster.files() if path.endswith("MANIFEST")]
    assert manifests == [f"chk-{number}/MANIFEST" for number in range(1, 6)]
    cluster.run_background()
    cluster.complete_checkpoint()
    cluster.run_background()
    assert [path for path in cluster.files() if path.endswith("MANIFEST")] == ["chk-6/MANIFEST"]
    assert [path for path in cluster.files() if path.startswith("shared")] == [
        "shared/op-totals/0-6",
        "shared/op-totals/1-6",
    ]


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
