"""A job starts from a checkpoint of another one that still runs (ADR 063)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tidegate.common.errors import CheckpointNotFoundError, CheckpointStorageError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.checkpoints.checkpoint_store import FencedError
from tidegate.coordinator.restore.latest_checkpoint import latest_now, secure_restored
from tidegate.coordinator.restore.restore_fence import fence_job
from tidegate.coordinator.spec import JobSpec
from tidegate.protocol.checkpoints.restorers import RestoringJob
from tidegate.protocol.ids import CheckpointId, JobId
from tidegate.protocol.task_events import CheckpointCompleted
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, register_scheme
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import FakeCluster, job_spec
from .test_coordinator_fence import Job as SteppedJob
from .test_coordinator_fence import positions

NEW = RestoringJob("new", "memory://new/new")


class Root:
    """A directory of checkpoints, and the jobs that keep theirs in it."""

    def __init__(self) -> None:
        self.storage = MemoryCheckpointStorage()

    @property
    def latest(self) -> str:
        return f"latest:{self.storage.uri}"

    def spec(self, job_id: str, restore_path: str | None = None, **settings: object) -> JobSpec:
        spec = job_spec(checkpoint_dir=self.storage.uri, restore_path=restore_path, **settings)
        return replace(spec, job_id=JobId(job_id))

    def start(self, job_id: str, restore_path: str | None = None, **settings: object) -> Job:
        """Start a job as a driver does, and let its tasks run."""
        spec = secure_restored(self.spec(job_id, restore_path, **settings))
        return Job(spec, self.storage)


class Job(FakeCluster):
    """One job of a root."""

    def __init__(self, spec: JobSpec, storage: CheckpointStorage) -> None:
        super().__init__(spec, storage)
        self.job_id = spec.job_id
        self.start()
        if self.deployments:
            self.initialized()

    @property
    def directory(self) -> str:
        return f"{self.storage.uri}/{self.job_id}"

    @property
    def restored_id(self) -> int | None:
        return self.deployments[0][0].restored_checkpoint_id

    @property
    def cause(self) -> str:
        failure = self.coordinator.failure
        return "" if failure is None else failure.cause

    def committed(self) -> list[int]:
        return sorted({mail.checkpoint_id for _, mail in self.mails(CheckpointCompleted)})

    def checkpoint(self) -> None:
        """All tasks acknowledge another checkpoint, whether it completes or not."""
        self.pass_ms(100)
        self.acknowledge()

    def end(self) -> None:
        if self.stopped:
            self.stop_tasks()


def test_the_job_that_wrote_the_checkpoint_completes_no_other_one_and_commits_nothing() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    new = root.start("new", f"{old.directory}/chk-1")
    old.checkpoint()
    assert old.committed() == [1]
    assert old.coordinator.status in (JobStatus.FAILING, JobStatus.FAILED)
    assert f"job new ({root.storage.uri}/new) was started to continue this job" in old.cause
    old.end()
    assert old.coordinator.status is JobStatus.FAILED
    assert "chk-1/MANIFEST" in root.storage.sub("old").list_files("")
    assert new.restored_id == 1
    new.checkpoint()
    assert new.coordinator.status is JobStatus.RUNNING


def test_a_fenced_job_deletes_nothing_that_it_was_about_to_delete() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    store = old.coordinator.store
    assert store is not None
    store.complete(replace(store.retained[0], checkpoint_id=CheckpointId(2)))
    garbage = store.take_garbage()
    assert garbage is not None
    assert garbage.manifests == ("chk-1/MANIFEST",)
    root.start("new", f"{old.directory}/chk-1")
    with pytest.raises(FencedError, match="job new"):
        store.delete(garbage)
    assert "chk-1/MANIFEST" in root.storage.sub("old").list_files("")


def test_no_later_coordinator_of_the_fenced_job_runs_it_again() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    root.start("new", root.latest)
    for _ in range(2):
        again = Job(root.spec("old"), root.storage)
        assert again.coordinator.status is JobStatus.FAILED
        assert again.deployments == []
        assert "job new" in again.cause
    assert root.storage.sub("old").list_files("chk-1") == ["chk-1/MANIFEST"]
    assert Job(root.spec("new", f"{old.directory}/chk-1"), root.storage).restored_id == 1


def test_the_latest_checkpoint_is_looked_for_after_the_fence() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    assert latest_now(root.latest) == f"{old.directory}/chk-1"
    old.checkpoint()
    assert root.start("new", root.latest).restored_id == 2
    assert root.start("newer", f"latest:{old.directory}").restored_id == 2


def test_a_later_job_continues_where_the_last_one_of_the_history_was() -> None:
    """The same command line again and again, each time while the job before still runs."""
    root = Root()
    jobs = [root.start("job-0")]
    jobs[0].checkpoint()
    expected = jobs[0].restored_id
    for number in range(1, 8):
        makes_progress = number % 3 != 0
        before = latest_now(root.latest)
        jobs.append(root.start(f"job-{number}", root.latest))
        expected = int(before.rpartition("-")[2])
        assert jobs[-1].restored_id == expected
        for zombie in jobs[:-1]:
            if zombie.coordinator.status is JobStatus.RUNNING:
                committed = zombie.committed()
                zombie.checkpoint()
                assert zombie.committed() == committed
        if makes_progress:
            jobs[-1].checkpoint()
            own = jobs[-1].triggered().checkpoint_id
            assert latest_now(root.latest) == f"{jobs[-1].directory}/chk-{own}"
            assert own > expected


def test_a_job_that_was_overtaken_before_it_started_ends() -> None:
    """The driver of a job was slow: another job has started from the same checkpoint meanwhile."""
    root = Root()
    root.start("old").checkpoint()
    slow = secure_restored(root.spec("slow", root.latest))
    quick = root.start("quick", root.latest)
    late = Job(slow, root.storage)
    assert late.deployments == []
    assert late.coordinator.status is JobStatus.FAILED
    assert "job quick" in late.cause
    quick.checkpoint()
    assert quick.coordinator.status is JobStatus.RUNNING


def test_a_job_that_continued_and_removed_its_checkpoints_is_not_repeated() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    new = root.start("new", root.latest)
    new.checkpoint()
    new.coordinator.cancel()
    new.end()
    assert root.storage.sub("new").list_files("") == []
    with pytest.raises(CheckpointStorageError, match=r"job new .* removed its own checkpoints"):
        root.start("again", root.latest)
    assert root.start("by-name", f"{old.directory}/chk-1").restored_id == 1


def test_a_job_that_ended_before_its_first_checkpoint_does_not_count() -> None:
    root = Root()
    root.start("old").checkpoint()
    new = root.start("new", root.latest)
    new.coordinator.cancel()
    new.end()
    assert root.storage.sub("new").list_files("") == []
    assert root.start("again", root.latest).restored_id == 1


def test_several_histories_are_listed_and_none_is_fenced() -> None:
    root = Root()
    one, other = root.start("one"), root.start("other")
    one.checkpoint()
    # The other one may be what was started last, and may still run.
    expected = (
        rf"2 jobs .*{one.directory} \(chk-1\), {other.directory} \(no checkpoint\).*latest:{one.directory}"
    )
    with pytest.raises(CheckpointStorageError, match=expected):
        root.start("new", root.latest)
    for job in (one, other):
        job.checkpoint()
        assert job.coordinator.status is JobStatus.RUNNING


@pytest.mark.parametrize("directory", ["nowhere", "empty"])
def test_without_a_checkpoint_there_is_no_latest_one(directory: str) -> None:
    root = Root()
    root.start("empty")
    with pytest.raises(
        CheckpointNotFoundError, match=f"no completed checkpoint in {root.storage.uri}/{directory}"
    ):
        root.start("new", f"latest:{root.storage.uri}/{directory}")


def test_a_checkpoint_itself_has_no_latest_one() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    with pytest.raises(CheckpointStorageError, match=r"is one checkpoint, .* without latest:"):
        root.start("new", f"latest:{old.directory}/chk-1")


def test_a_checkpoint_that_the_running_job_has_replaced_is_named_with_the_latest() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    copy = root.storage.sub("old").read("chk-1/MANIFEST")
    old.checkpoint()
    # As if it had been read just before it was deleted.
    register_scheme("stale", lambda path: _Stale(root.storage, path, copy))
    with pytest.raises(CheckpointNotFoundError, match=r"does not exist any more: .*latest one is chk-2"):
        root.start("new", "stale://old/chk-1")


class _Stale(MemoryCheckpointStorage):
    """Answers for a manifest that is gone."""

    def __init__(self, root: MemoryCheckpointStorage, path: str, manifest: bytes) -> None:
        below = root.sub(path) if path else root
        super().__init__(below.uri.removeprefix("memory://"))
        self._path, self._manifest = path, manifest

    @property
    def uri(self) -> str:
        return f"stale://{self._path}"

    def read(self, path: str) -> bytes:
        return self._manifest if path == "MANIFEST" else super().read(path)


def test_storage_that_cannot_be_written_cannot_be_fenced() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    register_scheme("frozen", lambda path: _Frozen(f"{root.storage.uri.removeprefix('memory://')}/{path}"))
    with pytest.raises(
        CheckpointStorageError, match=r"frozen://old cannot be fenced.*copy the directory without"
    ):
        root.start("new", "frozen://old/chk-1")
    for path in root.storage.list_files("old/epochs"):
        root.storage.delete([path])
    assert root.start("new", "frozen://old/chk-1").restored_id == 1


class _Frozen(MemoryCheckpointStorage):
    """Can be read, and not be written."""

    @property
    def uri(self) -> str:
        return f"frozen://{super().uri.removeprefix('memory://').partition('/')[2]}"

    def create_exclusive(self, path: str, data: bytes) -> bool:
        raise CheckpointStorageError(f"{path} cannot be written: read-only file system")


# ---------------------------------------------------------------- every order of storage operations


class Interleaved(SteppedJob):
    """A job with checkpoint 1, and another one that fences it to start from its latest checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.restorable: list[int] = []

    def take_over(self) -> None:
        register_scheme("stepped", lambda path: self.new_storage)
        self.restorable = sorted(fence_job("stepped://job", NEW).checkpoints)


@pytest.mark.slow
def test_a_checkpoint_is_restored_or_never_announced_whatever_the_order() -> None:
    outcomes = set()
    for steps in positions(3):
        job = Interleaved()
        late = job.manifest(2)
        announced = []

        def complete(job: Interleaved = job, late=late, announced: list[int] = announced) -> None:  # type: ignore[no-untyped-def]
            try:
                job.old.complete(late)
            except FencedError:
                return
            announced.append(2)

        job.interleave(complete, steps)
        outcomes.add((bool(announced), job.restorable[-1]))
        assert job.restorable[-1] == 2 or not announced, f"{steps}: committed, but the new job starts from 1"
        job.take_over()
        assert sorted(fence_job("stepped://job", NEW).checkpoints) == job.restorable, "it is not idempotent"
    assert outcomes == {(True, 2), (False, 2), (False, 1)}, "some order was not tried"


def test_the_checkpoint_to_restore_stays_whatever_the_order() -> None:
    """The old job has completed checkpoint 2 and removes checkpoint 1, with all that only that one needs."""
    for steps in positions(2):
        job = Interleaved()
        job.old.complete(job.manifest(2))
        garbage = job.old.take_garbage()
        assert garbage is not None

        def delete(job: Interleaved = job, garbage=garbage) -> None:  # type: ignore[no-untyped-def]
            try:
                job.old.delete(garbage)
            except FencedError:
                return

        job.interleave(delete, steps)
        stored = job.storage.list_files("")
        assert "chk-2/MANIFEST" in stored
        assert "shared/op/2" in stored
