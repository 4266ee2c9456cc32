"""Names in a job's directory: what is not exactly one of them is not the job's."""

from __future__ import annotations

import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.protocol.checkpoints.checkpoint_paths import check_address, is_own, numbers, stored_ids
from tidegate.protocol.checkpoints.manifest import CheckpointManifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId

JOB = "0123456789abcdef0123456789abcdef"


def manifest(kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> CheckpointManifest:
    return CheckpointManifest(JOB, "flights", CheckpointId(7), kind, 1, 2)


def test_only_numbered_directories_with_a_manifest_are_checkpoints() -> None:
    paths = ["chk-10/MANIFEST", "chk-9/MANIFEST", "chk-8/CLAIMED", "x/chk-7/MANIFEST", "chk-6/x/MANIFEST"]
    strange = [f"chk-{name}/MANIFEST" for name in ("backup", "", "07", "-1", "²", "٣", "1" * 30, "5.bak")]
    assert stored_ids(paths + strange) == [9, 10]


def test_only_numbers_are_read_as_numbers() -> None:
    assert numbers(["epochs/2", "epochs/1.bak", "epochs/x", "epochs/03", "epochs/²", "epochs/11"]) == [2, 11]


def test_what_the_user_put_there_is_not_the_jobs() -> None:
    own = ["epochs/1", "chk-5/MANIFEST", "shared/op/a", "completed/1", "mode/MODE", "fail-points/0"]
    assert all(map(is_own, own))
    assert not any(map(is_own, ["chk-backup/MANIFEST", "notes.txt", "shared", "chk-5.old/MANIFEST"]))


@pytest.mark.parametrize(
    "directory", [f"/c/{JOB}/chk-7", "/c/other/chk-7/", "/c/copy-of-7", f"s3://b/{JOB}/x"]
)
def test_a_checkpoint_may_be_at_an_address_that_does_not_contradict_it(directory: str) -> None:
    check_address(manifest(), directory)


@pytest.mark.parametrize("directory", [f"/c/{JOB}/chk-8", "/c/other/chk-70", f"/c/{JOB[::-1]}/chk-7"])
def test_a_manifest_at_the_address_of_another_checkpoint_is_an_error(directory: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"{directory}/MANIFEST is another manifest"):
        check_address(manifest(), directory)
    check_address(manifest(SnapshotKind.SAVEPOINT), directory)
