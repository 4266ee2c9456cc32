"""Every file below a job's directory is damaged in every way: the job resumes, or the error names the file.

The files are found by listing the disk, so a new kind of file is damaged too as soon as a job writes it. A
directory that the job counts as its own but does not write here fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.common.failpoints import parse
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.barrier_mode import BarrierMode
from tidegate.coordinator.checkpoints.stored_end import StoredEnd
from tidegate.coordinator.monitoring.job_view import report_of
from tidegate.coordinator.restore.latest_checkpoint import secure_restored
from tidegate.coordinator.spec import JobSpec
from tidegate.protocol.checkpoints.checkpoint import Acknowledgement, SubtaskAcknowledged
from tidegate.protocol.checkpoints.checkpoint_paths import JOB_DIRECTORIES
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import CheckpointingMode
from tidegate.protocol.ids import CheckpointId, JobId, SubtaskId
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.protocol.scheduling.rescaling import parallelism_of
from tidegate.state.storage.checkpoint_storage import open_storage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.state.storage.stored_checkpoint import read_checkpoint

from .fakes import SOURCE, FakeCluster, job_spec, keyed_snapshot, position_handle

AT_LEAST_ONCE = BarrierMode(CheckpointingMode.AT_LEAST_ONCE)
JOB, OLD = JobId("5b" * 16), JobId("0d" * 16)


class Cluster(FakeCluster):
    """Tasks that store segments of their own, however many there are."""

    def __init__(self, spec: JobSpec) -> None:
        root = open_storage(spec.settings.checkpoint_dir or "")
        self.job = root.sub(spec.job_id)
        super().__init__(spec, root)

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
        file = self.job.write_file(path, f"{path} of {self.coordinator.spec.job_id}".encode())
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


Files = dict[str, bytes]
"""What is stored, by path from the root of all checkpoints."""


def spec_of(root: str) -> JobSpec:
    """A job that claimed the checkpoint of another one."""
    spec = job_spec(
        checkpoint_dir=root,
        num_retained=3,
        restore_path=f"{root}/{OLD}/chk-1",
        claims_restored=True,
        keep_on_cancel=True,
        fail_points=parse("recover:1:sleep=0"),
    )
    return replace(spec, job_id=JOB)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The disk after the second coordinator of a job was killed, and the record of an end with it."""
    directory = tmp_path_factory.mktemp("stopped")
    root = str(directory)
    old = Cluster(replace(job_spec(checkpoint_dir=root, keep_on_cancel=True), job_id=OLD))
    old.run()
    old.complete_checkpoint()
    old.coordinator.cancel()
    old.stop_tasks()
    first = Cluster(secure_restored(spec_of(root)))
    first.run()
    assert first.requests.set_barrier_mode(AT_LEAST_ONCE) == ""
    assert first.requests.rescale({"totals": 4}) == ""
    assert first.ready is not None
    first.ready("")
    first.acknowledge()
    first.stop_tasks()
    first.initialized()
    first.pass_ms(0)
    second = Cluster(spec_of(root))
    second.run()
    # One fewer than are kept, so that what was claimed is still there.
    second.complete_checkpoint()
    second.pass_ms(100)
    StoredEnd(spec_of(root)).write(report_of(second.coordinator), [], epoch=2)
    found = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


@dataclass(frozen=True)
class Resumed:
    """What the next coordinator does with the disk, or why it refuses."""

    problem: str
    state: Any = None
    end: str = ""
    """The newest checkpoint in the record of the job's end, if that is found."""


def resumed(files: Files) -> Resumed:
    storage = MemoryCheckpointStorage("every-file")
    storage.delete_all()
    for path, content in files.items():
        storage.write_file(path, content)
    spec = spec_of(storage.uri)
    cluster = Cluster(spec)
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
    assert coordinator.checkpoints is not None
    assert coordinator.store.epoch > 2, "an epoch is claimed twice"
    newest = read_checkpoint(f"{storage.uri}/{JOB}/chk-{first_id}")
    assert newest.checkpoint_id == first_id
    assert coordinator.fail_points is not None
    coordinator.fail_points.reports()
    mode, parallelism = str(coordinator.checkpoints.mode), parallelism_of(coordinator.graph)
    ended_at = "" if end is None else end[0].newest_checkpoint or ""
    return Resumed("", (restored, mode, parallelism), ended_at)


# ---------------------------------------------------------------- damage

Damaged = Iterator[tuple[Files, list[str]]]
"""What is stored then, and which files are not what they should be."""


def flips(files: Files, path: str) -> Damaged:
    content = files[path]
    for number in range(16):
        damaged = bytearray(content)
        position = (len(content) - 1) * number // 15
        damaged[position] ^= 1 << (position + number) % 8
        yield {**files, path: bytes(damaged)}, [path]


def truncations(files: Files, path: str) -> Damaged:
    content = files[path]
    for size in (0, 1, len(content) // 2, len(content) - 1):
        yield {**files, path: content[:size]}, [path]


def swaps(files: Files, path: str) -> Damaged:
    """With every other file, also of the other job."""
    for other in [other for other in files if other > path]:
        yield {**files, path: files[other], other: files[path]}, [path, other]


def removals(files: Files, path: str) -> Damaged:
    yield {other: content for other, content in files.items() if other != path}, [path]


def duplicates(files: Files, path: str) -> Damaged:
    """Under names that are not the job's, and under the next number."""
    directory, _, name = path.rpartition("/")
    parent = directory.rpartition("/")[0]
    names = [f"{directory}/{each}" for each in (f"{name}.bak", f"{name} (copy)", "backup", "07", "²")]
    yield {**files, **dict.fromkeys([*names, f"{parent or JOB}/chk-backup/{name}"], files[path])}, []
    number = f"{parent}/chk-7777/{name}" if name == "MANIFEST" else f"{directory}/7777"
    if name == "MANIFEST" or name.isdecimal():
        yield {**files, number: files[path]}, [number]


DAMAGE = [flips, truncations, swaps, removals, duplicates]


# ---------------------------------------------------------------- tests


def test_the_job_writes_every_kind_of_file(stopped: Files) -> None:
    tops = {path.split("/")[1] for path in stopped if not path.startswith("ended/")}
    assert {top for top in tops if not top.startswith("chk-")} == JOB_DIRECTORIES
    assert {path.split("/")[2] for path in stopped if "/chk-" in path} == {"MANIFEST", "CLAIMED"}
    assert [path for path in stopped if path.startswith("ended/")] == [f"ended/{JOB}.2"]


def test_without_damage_the_job_resumes_with_everything(stopped: Files) -> None:
    undamaged = resumed(stopped)
    assert undamaged.problem == ""
    restored, mode, parallelism = undamaged.state
    assert len(restored) == 5
    assert undamaged.end.endswith("/chk-258")
    assert (mode, parallelism) == (str(AT_LEAST_ONCE), {"numbers": 1, "totals": 4})


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_file_changes_nothing_or_is_named(
    stopped: Files, damage: Callable[[Files, str], Damaged]
) -> None:
    undamaged = resumed(stopped)
    refused = set()
    for path in stopped:
        for files, damaged in damage(stopped, path):
            after = resumed(files)
            if after.problem:
                refused.add(path)
                names = [name for each in damaged for name in (each, each.rpartition("/")[0])]
                assert any(name in after.problem for name in names), f"{path}: {after.problem}"
                continue
            assert after.state == undamaged.state, f"{path}: the job resumed differently"
            # Without its record, a job has not ended. That is all that its absence can mean.
            is_end_removed = damage is removals and path.startswith("ended/")
            assert after.end == ("" if is_end_removed else undamaged.end), f"{path}: the end differs"
    assert any(path.endswith("MANIFEST") for path in refused)


def test_a_user_may_start_a_new_job_from_an_older_checkpoint_when_the_newest_is_missing(
    stopped: Files,
) -> None:
    files = {path: content for path, content in stopped.items() if path != f"{JOB}/chk-258/MANIFEST"}
    assert "chk-258/MANIFEST is missing" in resumed(files).problem
    storage = MemoryCheckpointStorage("every-file")
    settings = {"checkpoint_dir": storage.uri, "restore_path": f"{storage.uri}/{JOB}/chk-2"}
    cluster = Cluster(secure_restored(replace(job_spec(**settings), job_id=JobId("6e" * 16)))).start()
    assert cluster.coordinator.failure is None
    assert [content for _, uid, content in cluster.restored() if uid == "numbers"] == [b"2"]
