"""Every file below a job's directory is damaged in every way: the job resumes, or the error names the file.

The files are found by listing the disk, so a new kind of file is damaged too as soon as a job writes it. A
directory that the job counts as its own but does not write here fails the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.common.failpoints import parse
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.barrier_mode import BarrierMode
from tidegate.coordinator.job_view import report_of
from tidegate.coordinator.latest_checkpoint import secure_restored
from tidegate.coordinator.spec import JobSpec
from tidegate.coordinator.stored_end import StoredEnd
from tidegate.protocol.checkpoint import Acknowledgement, SubtaskAcknowledged
from tidegate.protocol.checkpoint_paths import JOB_DIRECTORIES
from tidegate.protocol.elements import CheckpointingMode
from tidegate.protocol.handles import OperatorSnapshot
from tidegate.protocol.ids import CheckpointId, JobId, SubtaskId
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.protocol.rescaling import parallelism_of
from tidegate.state.filesystem_storage import FileSystemCheckpointStorage
from tidegate.state.stored_checkpoint import read_checkpoint

from .fakes import SOURCE, FakeCluster, job_spec, keyed_snapshot, position_handle

AT_LEAST_ONCE = BarrierMode(CheckpointingMode.AT_LEAST_ONCE)
JOB, OLD = JobId("5b" * 16), JobId("0d" * 16)


class Cluster(FakeCluster):
    """Tasks that store segments of their own, however many there are."""

    def __init__(self, spec: JobSpec, root: Path) -> None:
        self.job = FileSystemCheckpointStorage(f"{root}/{spec.job_id}", is_synced=False)
        super().__init__(spec, FileSystemCheckpointStorage(str(root), is_synced=False))

    def acknowledge(self, make: Callable[[SubtaskId, CheckpointId], Acknowledgement] | None = None) -> None:
        checkpoint_id = self.triggered().checkpoint_id
        for deployment in self.deployments[-1]:
            subtask = deployment.subtask_id
            acknowledgement = self._acknowledgement(subtask, checkpoint_id)
            done = SubtaskAcknowledged(self.attempt, subtask, checkpoint_id, acknowledgement)
            self.coordinator.handle(done)

    def _acknowledgement(self, subtask: SubtaskId, checkpoint_id: CheckpointId) -> Acknowledgement:
        if subtask == SOURCE:
            snapshot = OperatorSnapshot(lists=(position_handle(checkpoint_id),))
            return Acknowledgement({"numbers": snapshot})
        path = f"shared/op-totals/{subtask.index}-{checkpoint_id}-{self.attempt}"
        file = self.job.write_file(path, f"{path} of {self.coordinator.job_id}".encode())
        totals = len(self.deployments[-1]) - 1
        key_groups = key_group_range_of_subtask(subtask.index, 128, totals)
        return Acknowledgement({"totals": keyed_snapshot(file, key_groups)})

    def restored(self) -> list[tuple[SubtaskId, str, bytes]]:
        """What the tasks were deployed with, as they read it."""
        return [
            (deployment.subtask_id, uid, self.job.read_file(file))
            for deployment in self.deployments[-1]
            for uid, snapshot in (deployment.restored or {}).items()
            for file in snapshot.files()
        ]


def spec_of(root: Path) -> JobSpec:
    """A job that claimed the checkpoint of another one."""
    spec = job_spec(
        checkpoint_dir=str(root),
        num_retained=3,
        restore_path=f"{root}/{OLD}/chk-1",
        claims_restored=True,
        keep_on_cancel=True,
        fail_points=parse("recover:1:sleep=0"),
    )
    return replace(spec, job_id=JOB)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk after the second coordinator of a job was killed, and the record of an end with it."""
    root = tmp_path_factory.mktemp("stopped")
    old = Cluster(replace(job_spec(checkpoint_dir=str(root), keep_on_cancel=True), job_id=OLD), root)
    old.run()
    old.complete_checkpoint()
    old.coordinator.cancel()
    old.stop_tasks()
    first = Cluster(secure_restored(spec_of(root)), root)
    first.run()
    assert first.coordinator.set_barrier_mode(AT_LEAST_ONCE) == ""
    assert first.coordinator.rescale({"totals": 4}) == ""
    assert first.ready is not None
    first.ready("")
    first.acknowledge()
    first.stop_tasks()
    first.initialized()
    first.pass_ms(0)
    assert (root / OLD / "chk-1" / "CLAIMED").exists()
    second = Cluster(spec_of(root), root)
    second.run()
    # One fewer than are kept, so that what was claimed is still there.
    second.complete_checkpoint()
    second.pass_ms(100)
    StoredEnd(spec_of(root)).write(report_of(second.coordinator), [], epoch=2)
    return root


@dataclass(frozen=True)
class Resumed:
    """What the next coordinator does with the disk, or why it refuses."""

    problem: str
    state: Any = None
    end: str = ""
    """The newest checkpoint in the record of the job's end, if that is found."""


def resumed(root: Path) -> Resumed:
    spec = spec_of(root)
    cluster = Cluster(spec, root)
    try:
        end = StoredEnd(spec).take_over(epoch=3)
    except CheckpointStorageError as error:
        return Resumed(str(error))
    cluster.start()
    coordinator = cluster.coordinator
    if coordinator.status is JobStatus.FAILED:
        assert coordinator.failure is not None
        return Resumed(coordinator.failure.cause)
    try:
        restored = cluster.restored()
    except CheckpointStorageError as error:
        return Resumed(str(error))
    cluster.initialized()
    first_id = cluster.complete_checkpoint()
    assert first_id > 512, "an id is given twice"
    assert coordinator.store is not None
    assert coordinator.store.epoch > 2, "an epoch is claimed twice"
    newest = read_checkpoint(f"{root}/{JOB}/chk-{first_id}")
    assert newest.checkpoint_id == first_id
    assert coordinator.fail_points is not None
    coordinator.fail_points.reports()
    mode, parallelism = str(coordinator.barrier_mode), parallelism_of(coordinator.graph)
    ended_at = "" if end is None else end[0].newest_checkpoint or ""
    return Resumed("", (restored, mode, parallelism), ended_at)


def files_of(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


# ---------------------------------------------------------------- damage


def flips(root: Path, file: Path) -> Iterator[list[Path]]:
    data = (root / file).read_bytes()
    for number in range(16):
        damaged = bytearray(data)
        position = (len(data) - 1) * number // 15
        damaged[position] ^= 1 << (position + number) % 8
        (root / file).write_bytes(damaged)
        yield [file]


def truncations(root: Path, file: Path) -> Iterator[list[Path]]:
    data = (root / file).read_bytes()
    for size in (0, 1, len(data) // 2, len(data) - 1):
        (root / file).write_bytes(data[:size])
        yield [file]


def swaps(root: Path, file: Path) -> Iterator[list[Path]]:
    """With every other file, also of the other job."""
    data = (root / file).read_bytes()
    for other in [other for other in files_of(root) if other > file]:
        others = (root / other).read_bytes()
        (root / file).write_bytes(others)
        (root / other).write_bytes(data)
        yield [file, other]
        (root / other).write_bytes(others)


def removals(root: Path, file: Path) -> Iterator[list[Path]]:
    (root / file).unlink()
    yield [file]


def duplicates(root: Path, file: Path) -> Iterator[list[Path]]:
    """Under names that are not the job's, and under the next number."""
    for name in (f"{file.name}.bak", f"{file.name} (copy)", "backup", "07", "²"):
        shutil.copyfile(root / file, root / file.with_name(name))
    if file.parent.name.startswith("chk-"):
        shutil.copytree(root / file.parent, root / file.parent.with_name("chk-backup"))
    yield []
    numbered = file.parent.with_name("chk-7777") if file.name == "MANIFEST" else file.with_name("7777")
    if file.name == "MANIFEST":
        shutil.copytree(root / file.parent, root / numbered)
        yield [numbered / "MANIFEST"]
    elif file.name.isdecimal():
        shutil.copyfile(root / file, root / numbered)
        yield [numbered]


DAMAGE = [flips, truncations, swaps, removals, duplicates]


# ---------------------------------------------------------------- tests


def test_the_job_writes_every_kind_of_file(stopped: Path) -> None:
    kinds = {path.parts[1] if len(path.parts) > 2 else path.parts[0] for path in files_of(stopped)}
    directories = {kind for kind in kinds if not kind.startswith("chk-")}
    assert directories == {*JOB_DIRECTORIES, "ended"}
    assert {path.name for path in files_of(stopped) if "chk-" in path.parts[1]} == {"MANIFEST", "CLAIMED"}


def test_without_damage_the_job_resumes_with_everything(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "copy")
    undamaged = resumed(tmp_path / "copy")
    assert undamaged.problem == ""
    restored, mode, parallelism = undamaged.state
    assert len(restored) == 5
    assert undamaged.end.endswith("/chk-258")
    assert (mode, parallelism) == (str(AT_LEAST_ONCE), {"numbers": 1, "totals": 4})


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_file_changes_nothing_or_is_named(
    stopped: Path, tmp_path: Path, damage: Callable[[Path, Path], Iterator[list[Path]]]
) -> None:
    root = tmp_path / "job"
    shutil.copytree(stopped, root)
    undamaged = resumed(root)
    outcomes: dict[Path, set[bool]] = {}
    for file in files_of(stopped):
        shutil.rmtree(root)
        shutil.copytree(stopped, root)
        for touched in damage(root, file):
            copy = tmp_path / "copy"
            shutil.copytree(root, copy)
            after = resumed(copy)
            shutil.rmtree(copy)
            if after.problem:
                names = [str(name) for path in touched for name in (path, path.parent)]
                assert any(name in after.problem for name in names), f"{file}: {after.problem}"
            else:
                assert after.state == undamaged.state, f"{file}: the job resumed differently"
                # Without its record, a job has not ended. That is all that its absence can mean.
                is_end_removed = damage is removals and file.parts[0] == "ended"
                assert after.end == ("" if is_end_removed else undamaged.end), f"{file}: the end differs"
            outcomes.setdefault(file, set()).add(bool(after.problem))
    refused = {str(file) for file, problems in outcomes.items() if True in problems}
    assert any("MANIFEST" in file for file in refused)
    assert set(files_of(stopped)) - set(outcomes) <= {files_of(stopped)[-1]}
