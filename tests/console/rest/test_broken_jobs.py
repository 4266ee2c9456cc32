"""One bad checkpoint or archive is one broken row; every other job is shown as if it were not there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tidegate.common.job_status import JobStatus
from tidegate.console.main import main
from tidegate.console.rest.archived_jobs import ArchivedJobs
from tidegate.console.rest.directory import AllJobs
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.stored_jobs import StoredJobs
from tidegate.coordinator.monitoring.job_archive import encode_job
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, encode_manifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId

from tests.fake_jobs import fake_job

GOOD, BAD = (f"{number:032x}" for number in (10, 11))
STATISTICS = {"counts": {}, "acknowledgements": {}, "restored_count": 0, "checkpoints": []}


def manifest(job_id: str, checkpoint_id: int = 1, **changed: Any) -> bytes:
    """A manifest with a valid checksum; `changed` fields are what no release would write."""
    stored = CheckpointManifest(
        job_id, "sums", CheckpointId(checkpoint_id), SnapshotKind.CHECKPOINT, 1, 2, statistics=STATISTICS
    )
    body = {**json.loads(encode_manifest(stored).partition(b"\n")[2]), **changed}
    return signed({name: value for name, value in body.items() if value != "missing"})


def signed(body: object) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"tidegate-checkpoint 1 {hashlib.sha256(data).hexdigest()}\n".encode() + data


def put(directory: Path, job_id: str, data: bytes, checkpoint_id: int = 1) -> None:
    place = directory / job_id / f"chk-{checkpoint_id}"
    place.mkdir(parents=True)
    (place / "MANIFEST").write_bytes(data)


WRONG = {
    "another type of document": signed(b"[1, 2]"),
    "no document": signed(b"\xff\xfe"),
    "deep": signed(b"[" * 100_000),
    "not finite": manifest(BAD, triggered_ms=float("inf")),
    "a field is missing": manifest(BAD, operators="missing"),
    "a text in the place of a number": manifest(BAD, completed_ms="yesterday"),
    "a number in the place of a text": manifest(BAD, job_name=7),
    "an unknown kind": manifest(BAD, kind="other"),
    "a time that has no date": manifest(BAD, completed_ms=10**18),
    "a lone surrogate": manifest(BAD, job_name="\ud800"),
    "an operator without fields": manifest(BAD, operators=[{}]),
    "statistics without fields": manifest(BAD, statistics={"checkpoints": [{}]}),
    "statistics of another type": manifest(BAD, statistics={**STATISTICS, "checkpoints": 5}),
    "an unknown count": manifest(BAD, statistics={**STATISTICS, "counts": {"OTHER": 1}}),
    "counts of another type": manifest(BAD, statistics={**STATISTICS, "counts": {"COMPLETED": "many"}}),
    "huge numbers": manifest(BAD, statistics={**STATISTICS, "restored_count": 10**400}),
    "the id of another job": manifest(GOOD, 1, completed_ms=99),
    "another checkpoint": manifest(BAD, 7),
}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    directory = tmp_path / "checkpoints"
    put(directory, GOOD, manifest(GOOD))
    return directory


def overview(directory: Path) -> dict[str, Any]:
    with (
        served(StoredJobs(str(directory)), ServerSettings(port=0)) as address,
        httpx.Client(base_url=f"{address}/v1/", timeout=60) as reader,
    ):
        assert reader.get("overview").status_code == 200
        assert reader.get("jobs").status_code == 200
        answer = reader.get("jobs/overview")
        assert answer.status_code == 200
        assert reader.get(f"jobs/{GOOD}/state").status_code == 200
        assert reader.get(f"jobs/{BAD}/state").status_code == 404
        return {job["jid"]: job for job in answer.json()["jobs"]}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_content_with_a_valid_checksum_is_one_broken_row(stored: Path, wrong: str) -> None:
    put(stored, BAD, WRONG[wrong])
    jobs = overview(stored)
    assert set(jobs) == {GOOD, BAD}
    assert (jobs[GOOD]["name"], jobs[GOOD].get("error")) == ("sums", None)
    assert jobs[GOOD]["end-time"] == 2
    assert BAD in jobs[BAD]["error"]


@pytest.mark.parametrize("directory", ["x", "\x1b[2Jx", "chk-1"])
def test_no_directory_but_its_own_speaks_for_a_job(stored: Path, directory: str) -> None:
    put(stored, directory, manifest(GOOD, completed_ms=99))
    with served(StoredJobs(str(stored)), ServerSettings(port=0)) as address:
        jobs = httpx.get(f"{address}/v1/jobs/overview", timeout=60).json()["jobs"]
    assert {job["jid"]: job["end-time"] for job in jobs} == {GOOD: 2, directory: -1}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_list_of_savepoints_names_the_broken_one(
    stored: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(stored, BAD, WRONG[wrong])
    with pytest.raises(SystemExit) as ended:
        main(["savepoint", "list", str(stored)])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"{GOOD}/chk-1" in out
    if not wrong.startswith(("statistics", "an unknown count", "counts")):
        # A list of savepoints does not look into the history.
        assert f"{stored}/{BAD}/chk-1: " in out


@pytest.mark.parametrize("kind", ["link to /dev/zero", "pipe", "huge", "unreadable", "directory"])
def test_what_is_no_manifest_is_not_waited_for(stored: Path, kind: str) -> None:
    place = stored / BAD / "chk-1"
    place.mkdir(parents=True)
    file = place / "MANIFEST"
    if kind == "link to /dev/zero":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "huge":
        file.touch()
        os.truncate(file, 1 << 40)
    elif kind == "unreadable":
        file.write_bytes(manifest(BAD))
        file.chmod(0)
    else:
        file.mkdir()
    with served(StoredJobs(str(stored)), ServerSettings(port=0)) as address:
        jobs = httpx.get(f"{address}/v1/jobs/overview", timeout=60).json()["jobs"]
    assert GOOD in {job["jid"] for job in jobs}
    if kind == "huge":
        assert "bytes" in next(job["error"] for job in jobs if job["jid"] == BAD)


def test_a_small_file_of_very_many_rows_is_not_sampled(stored: Path) -> None:
    file = {"path": "shared/a", "size_bytes": 9, "sha256": "0" * 64, "key_groups": [0, 127], "state": "total"}
    segment = {**file, "entries": 10**9, "base": True, "footer_sha256": ""}
    schema = {"kind": "value", "key_type": "LONG", "value_type": "LONG"}
    subtask = {"descriptors": {"total": schema}, "segments": [segment], "lists": []}
    operator = {"uid": "u", "name": "n", "max_parallelism": 128, "subtasks": [subtask]}
    put(stored, BAD, manifest(BAD, operators=[operator]))
    with served(StoredJobs(str(stored)), ServerSettings(port=0)) as address:
        answer = httpx.get(f"{address}/v1/jobs/{BAD}/state/entries?uid=u&state=total", timeout=60)
    assert answer.status_code in (400, 403, 404, 409, 413)
    assert "1000000000 stored rows" in answer.text


def archived(of_job: str, **changed: Any) -> bytes:
    data = encode_job(fake_job(int(of_job, 16), JobStatus.FINISHED))
    body = json.loads(data.partition(b"\n")[2])
    body["report"] |= {
        name: value
        for name, value in changed.items()
        if name in body["report"] or name == "newest_checkpoint"
    }
    body |= {name: value for name, value in changed.items() if name in body and name != "report"}
    text = json.dumps(body).encode()
    return f"tidegate-job 1 {hashlib.sha256(text).hexdigest()}\n".encode() + text


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / GOOD).write_bytes(archived(GOOD))
    return archive


WRONG_ARCHIVES: list[dict[str, Any]] = [
    *({"started_ms": "x"}, {"started_ms": None}, {"subtasks": 7}, {"job_id": GOOD}, {"job_name": "\ud800"}),
    *({"now_ms": float("nan")}, {"exceptions": [[[]]]}, {"started_ms": 10**400}),
]


@pytest.mark.parametrize("changed", WRONG_ARCHIVES, ids=str)
def test_a_wrong_archive_is_one_broken_row(archive: Path, changed: dict[str, Any]) -> None:
    (archive / BAD).write_bytes(archived(BAD, **changed))
    with served(ArchivedJobs(str(archive)), ServerSettings(port=0)) as address:
        jobs = httpx.get(f"{address}/v1/jobs/overview", timeout=60).json()["jobs"]
    assert {job["jid"]: bool(job.get("error")) for job in jobs} == {GOOD: False, BAD: True}


@pytest.mark.parametrize(
    "path",
    ["http://127.0.0.1:1/chk-1", "simplecache::http://127.0.0.1:1/chk-1", "ftp://127.0.0.1/x", "relative"],
)
def test_an_archive_opens_no_address_but_of_checkpoints(archive: Path, path: str) -> None:
    (archive / BAD).write_bytes(archived(BAD, newest_checkpoint=path))
    jobs = AllJobs([ArchivedJobs(str(archive))])
    with served(jobs, ServerSettings(port=0)) as address:
        state = httpx.get(f"{address}/v1/jobs/{BAD}/state", timeout=60).json()
        entries = httpx.get(f"{address}/v1/jobs/{BAD}/state/entries?uid=a&state=b", timeout=60)
    assert "not opened" in state["note"]
    assert entries.status_code == 404
    assert "not opened" in entries.json()["errors"][0]


@pytest.fixture(autouse=True)
def in_directory(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)
