"""Jobs that start from a checkpoint which another job of the same history has claimed (ADR 063)."""

from __future__ import annotations

import pytest
from tidegate.common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptCheckpointError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.restore.claim_mode import ClaimedCheckpoint
from tidegate.coordinator.restore.latest_checkpoint import latest_now, secure_restored
from tidegate.protocol.ids import JobId
from tidegate.state.storage.stored_checkpoint import read_checkpoint

from .test_restore_fence import Job, Root


def test_the_claim_of_a_fenced_job_passes_to_the_job_that_fenced_it() -> None:
    """The driver is killed before the job has a checkpoint, and started again with the same command line."""
    root = Root()
    old = root.start("old")
    old.checkpoint()
    killed = root.start("killed", root.latest, claims_restored=True)
    for number in range(2):
        again = root.start(f"again-{number}", root.latest, claims_restored=True)
        assert again.cause == ""
        assert again.restored_id == 1
    killed.checkpoint()
    assert killed.committed() == []
    assert "chk-1/MANIFEST" in root.storage.sub("old").list_files("")
    again.checkpoint()
    own = again.triggered().checkpoint_id
    assert again.committed() == [own]
    assert "chk-1/MANIFEST" not in root.storage.sub("old").list_files("")


def test_the_coordinator_of_the_job_that_lost_its_claim_does_not_remove_the_checkpoint() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    root.start("killed", root.latest, claims_restored=True)
    root.start("again", root.latest, claims_restored=True)
    ClaimedCheckpoint(f"{old.directory}/chk-1", JobId("killed")).remove()
    assert read_checkpoint(f"{old.directory}/chk-1").checkpoint_id == 1


def test_no_job_takes_the_claim_of_one_that_it_did_not_fence() -> None:
    """A checkpoint that is named fences the job that wrote it only, so the one that claimed it may run."""
    root = Root()
    old = root.start("old")
    old.checkpoint()
    owner = root.start("owner", root.latest, claims_restored=True)
    by_name = root.start("by-name", f"{old.directory}/chk-1", claims_restored=True)
    assert by_name.deployments == []
    assert f"{old.directory}/chk-1 is claimed by job owner" in by_name.cause
    owner.checkpoint()
    assert owner.coordinator.status is JobStatus.RUNNING


def test_a_job_that_was_overtaken_claims_nothing() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    slow = secure_restored(root.spec("slow", root.latest, claims_restored=True))
    quick = secure_restored(root.spec("quick", root.latest, claims_restored=True))
    late = Job(slow, root.storage)
    assert "job quick" in late.cause
    assert "chk-1/CLAIMED" not in root.storage.sub("old").list_files("")
    assert Job(quick, root.storage).restored_id == 1


@pytest.mark.parametrize("older", [0, 1])
def test_the_history_continues_after_a_claimed_checkpoint_was_removed(older: int) -> None:
    """Its removal is no loss, whether an older checkpoint of the same job is left or not."""
    root = Root()
    old = root.start("old", num_retained=1 + older)
    for _ in range(1 + older):
        old.checkpoint()
    claiming = root.start("claiming", root.latest, claims_restored=True)
    claiming.checkpoint()
    own = claiming.triggered().checkpoint_id
    assert f"chk-{1 + older}/MANIFEST" not in root.storage.sub("old").list_files("")
    assert latest_now(root.latest) == f"{claiming.directory}/chk-{own}"
    assert root.start("again", root.latest).restored_id == own


def test_a_checkpoint_that_was_lost_and_not_removed_still_ends_the_search() -> None:
    """The job that started from it has none of its own: an older one would be a step back."""
    root = Root()
    old = root.start("old", num_retained=2)
    old.checkpoint()
    old.checkpoint()
    root.start("new", root.latest)
    root.storage.sub("old").delete(["chk-2/MANIFEST"])
    with pytest.raises(CorruptCheckpointError, match=r"chk-2/MANIFEST is missing"):
        root.start("again", root.latest)


def test_a_job_that_ended_and_removed_what_it_claimed_is_not_repeated() -> None:
    """It has no checkpoint of its own, and an older one of the first job would be a step back."""
    root = Root()
    old = root.start("old", num_retained=2)
    old.checkpoint()
    old.checkpoint()
    claiming = root.start("claiming", root.latest, claims_restored=True)
    claiming.coordinator.cancel()
    claiming.end()
    assert "chk-2/MANIFEST" not in root.storage.sub("old").list_files("")
    with pytest.raises(CheckpointStorageError, match=r"job claiming .* removed its own checkpoints"):
        root.start("again", root.latest)


def test_a_checkpoint_that_does_not_count_ends_no_job() -> None:
    """A coordinator that was replaced wrote it too late, and its successor has none yet."""
    other = Root()
    other.start("old").checkpoint()
    late = other.storage.sub("old").read("chk-1/MANIFEST")
    root = Root()
    root.start("old")
    successor = Job(root.spec("old"), root.storage)
    root.storage.sub("old").create_exclusive("chk-1/MANIFEST", late)
    for path in (root.latest, f"latest:{successor.directory}"):
        with pytest.raises(CheckpointNotFoundError, match="no completed checkpoint"):
            latest_now(path)
    with pytest.raises(CheckpointNotFoundError, match="no completed checkpoint"):
        root.start("new", root.latest)
    successor.checkpoint()
    assert successor.coordinator.status is JobStatus.RUNNING
    assert latest_now(root.latest) == f"{successor.directory}/chk-{successor.triggered().checkpoint_id}"


def test_a_copy_without_epochs_has_a_latest_checkpoint_under_another_name() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    for path in root.storage.sub("old").list_files(""):
        if not path.startswith("epochs/"):
            root.storage.write_file(f"copy/{path}", root.storage.sub("old").read(path))
    assert root.start("new", f"latest:{root.storage.uri}/copy").restored_id == 1
