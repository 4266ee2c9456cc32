"""The same command line starts a job for the first time and resumes it: `latest-if-any:` (ADR 070)."""

from __future__ import annotations

import pytest
from tidegate.common.errors import CheckpointNotFoundError, CheckpointStorageError, ConfigurationError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.restore.latest_checkpoint import latest_now, secure_restored
from tidegate.coordinator.spec import JobSpec
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .test_restore_fence import Job, Root

KEEPS: dict[str, object] = {"keep_on_cancel": True, "keep_on_fail": True, "keep_on_finish": True}


class AnyRoot(Root):
    """A directory of checkpoints in which every job starts with the same settings."""

    def spec(self, job_id: str, restore_path: str | None = None, **settings: object) -> JobSpec:
        return super().spec(job_id, restore_path, **{**KEEPS, **settings})

    @property
    def latest(self) -> str:
        return f"latest-if-any:{self.storage.uri}"

    def run(self, job_id: str) -> Job:
        return self.start(job_id, self.latest)


def is_new(job: Job) -> bool:
    return job.coordinator.status is JobStatus.RUNNING and job.restored_id is None


def test_the_first_job_starts_from_nothing_and_the_next_one_from_its_checkpoint() -> None:
    root = AnyRoot()
    assert latest_now(root.latest) is None
    first = root.run("first")
    assert is_new(first)
    first.checkpoint()
    second = root.run("second")
    assert second.restored_id == 1
    second.checkpoint()
    assert root.run("third").restored_id == 2


def test_a_job_without_a_checkpoint_is_ended_before_the_next_one_starts_from_nothing() -> None:
    root = AnyRoot()
    first, second = root.run("first"), root.run("second")
    assert is_new(second)
    first.checkpoint()
    assert first.committed() == []
    assert "job second" in first.cause
    second.checkpoint()
    assert second.committed() == [1]


def test_jobs_that_started_from_nothing_and_their_successors_are_one_history() -> None:
    root = AnyRoot()
    for name in ("one", "two", "three"):
        assert is_new(root.run(name))
    four = root.run("four")
    four.checkpoint()
    assert root.run("five").restored_id == 1
    # Two jobs that were started without looking for a checkpoint were not fenced by each other.
    other = AnyRoot()
    other.start("plain"), other.start("other")
    last = other.run("last")
    assert is_new(last)
    last.checkpoint()
    assert other.run("next").restored_id == 1


def test_a_checkpoint_that_completes_before_the_fence_is_restored() -> None:
    root = AnyRoot()
    first = root.run("first")
    assert latest_now(root.latest) is None
    first.checkpoint()
    assert root.run("second").restored_id == 1


def test_a_job_that_was_overtaken_before_it_started_from_nothing_ends() -> None:
    root = AnyRoot()
    root.run("first")
    slow = secure_restored(root.spec("slow", root.latest))
    quick = root.run("quick")
    late = Job(slow, root.storage)
    assert late.deployments == []
    assert late.coordinator.status is JobStatus.FAILED
    assert "job quick" in late.cause
    assert is_new(quick)


def test_a_coordinator_that_is_replaced_goes_on_with_a_job_that_started_from_nothing() -> None:
    root = AnyRoot()
    root.run("first")
    spec = secure_restored(root.spec("second", root.latest))
    second = Job(spec, root.storage)
    second.checkpoint()
    assert Job(spec, root.storage).restored_id == 1


def test_a_directory_with_savepoints_only_is_an_error() -> None:
    root = AnyRoot()
    job = root.run("first")
    job.checkpoint()
    manifest = root.storage.sub("first").read("chk-1/MANIFEST")
    root.storage.delete_all()
    root.storage.write_file("savepoints/savepoint-1/MANIFEST", manifest)
    with pytest.raises(CheckpointNotFoundError, match="contains savepoints: name one of them"):
        root.run("second")


def test_a_job_that_continued_and_removed_its_checkpoints_is_not_repeated() -> None:
    root = AnyRoot()
    root.run("first").checkpoint()
    second = root.start("second", root.latest.replace("-if-any", ""), keep_on_cancel=False)
    second.checkpoint()
    second.coordinator.cancel()
    second.end()
    with pytest.raises(CheckpointStorageError, match=r"job second .* removed its own checkpoints"):
        root.run("third")


def test_several_histories_are_an_error() -> None:
    root = AnyRoot()
    for name in ("one", "other"):
        root.start(name).checkpoint()
    with pytest.raises(CheckpointStorageError, match="2 jobs of which none was started"):
        root.run("new")


def test_settings_with_which_a_job_would_not_find_its_checkpoints_are_errors() -> None:
    root, other = AnyRoot(), MemoryCheckpointStorage()
    with pytest.raises(ConfigurationError, match=r"execution.checkpointing.dir is memory:.*use latest:"):
        root.start("new", f"latest-if-any:{other.uri}")
    with pytest.raises(ConfigurationError, match=r"the job takes no checkpoints"):
        root.start("new", root.latest, trigger=None)
    for setting in KEEPS:
        with pytest.raises(ConfigurationError, match=r"be repeated from the beginning. Set execution"):
            root.start("new", root.latest, **{setting: False})
