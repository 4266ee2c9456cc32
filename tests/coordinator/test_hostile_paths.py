"""Manifests and directories that try to lead a job, or a reader, out of a checkpoint's directory."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError
from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore
from tidegate.coordinator.checkpoints.stored_checkpoints import stored_checkpoints
from tidegate.coordinator.restore.claim_mode import ClaimedCheckpoint
from tidegate.protocol.checkpoints.handles import FileHandle, OperatorSnapshot
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId, JobId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.snapshots.snapshot_reader import read_snapshot
from tidegate.state.storage.checkpoint_storage import open_storage, read_restored
from tidegate.state.storage.local_snapshots import LocalSnapshots
from tidegate.state.storage.stored_checkpoint import check_files, read_checkpoint

from .fakes import keyed_snapshot

GROUPS = KeyGroupRange(0, 127)
CONTENT = b"of another user"
PLACEHOLDER = "shared/op-totals/placeholder"


def manifest(*files: FileHandle, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> CheckpointManifest:
    schemas: dict[str, dict[str, object]] = {
        "total": {"kind": "value", "value_type": "LONG", "key_type": "LONG"}
    }
    keyed = (keyed_snapshot(file, GROUPS).keyed for file in files)
    snapshots = tuple(OperatorSnapshot(replace(each, descriptors=schemas)) for each in keyed)
    operators = {"totals": OperatorManifest("totals", "Totals", 128, snapshots)}
    return CheckpointManifest("old", "", CheckpointId(2), kind, 1, 2, operators)


def handle(path: str, content: bytes = CONTENT) -> FileHandle:
    return FileHandle(path, len(content), hashlib.sha256(content).hexdigest())


def hostile(path: str, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> bytes:
    """A manifest with a valid checksum that names `path`, as no release would write it."""
    _, _, body = encode_manifest(manifest(handle(PLACEHOLDER), kind=kind)).partition(b"\n")
    changed = json.loads(body)
    changed["operators"][0]["subtasks"][0]["segments"][0]["path"] = path
    body = json.dumps(changed).encode()
    return f"tidegate-checkpoint 1 {hashlib.sha256(body).hexdigest()}\n".encode() + body


def written(root: Path, data: bytes) -> str:
    checkpoint = root / "jobs" / "old" / "chk-2"
    checkpoint.mkdir(parents=True)
    (checkpoint / "MANIFEST").write_bytes(data)
    return str(checkpoint)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that belongs to no checkpoint."""
    victim = tmp_path / "victim.txt"
    victim.write_bytes(CONTENT)
    return victim


OUTSIDE = [
    "../../victim.txt",
    "shared/../../../victim.txt",
    "shared/./../../../victim.txt",
    "/{root}/victim.txt",
]
FILES_OF_THE_JOB = ["chk-3/MANIFEST", "accepted/1", "ids/4", "epochs/1", "MANIFEST", "shared"]


@pytest.mark.parametrize("path", [*OUTSIDE, *FILES_OF_THE_JOB])
def test_claiming_deletes_nothing_but_files_of_state(tmp_path: Path, victim: Path, path: str) -> None:
    checkpoint = written(tmp_path, hostile(path.replace("/{root}", str(tmp_path))))
    others = [
        tmp_path / "jobs" / "old" / name for name in ("chk-3/MANIFEST", "accepted/1", "ids/4", "epochs/1")
    ]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(encode_manifest(manifest()))
    claimed = ClaimedCheckpoint(checkpoint, JobId("new"))
    claimed.take()

    with pytest.raises(CorruptCheckpointError, match=r"chk-2.*path"):
        claimed.remove()

    assert victim.read_bytes() == CONTENT
    assert all(other.exists() for other in others)


@pytest.mark.parametrize("path", [*OUTSIDE, "shared/%2e%2e/%2e%2e/%2e%2e/victim.txt"])
@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("kind", [SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT])
def test_no_reader_follows_a_path_out_of_the_directory(
    tmp_path: Path, victim: Path, path: str, scheme: str, kind: SnapshotKind
) -> None:
    data = hostile(path.replace("/{root}", str(tmp_path)), kind)
    checkpoint = f"{scheme}{written(tmp_path, data)}"

    def read() -> None:
        files = read_checkpoint(checkpoint).files()
        assert [read_restored(None, file) for file in files] != [CONTENT]

    with pytest.raises(CheckpointStorageError):
        check_files(read_checkpoint(checkpoint))
    with pytest.raises(CheckpointStorageError):
        read()
    with pytest.raises(CheckpointStorageError):
        read_snapshot(checkpoint).verify()


def test_names_with_percent_signs_are_names(tmp_path: Path) -> None:
    """States with unusual names are stored under quoted ones, which the parser of an address unquotes."""
    store = CheckpointStore(open_storage(str(tmp_path)).sub("old"), JobId("old"), 2)
    store.claim()
    store.load()
    file = store.storage.write_file("shared/op-totals/any%20key%2F-0-1-9.parquet", b"content")
    store.complete(manifest(file))

    read = read_checkpoint(f"file://{tmp_path}/old/chk-2")

    check_files(read)
    assert [read_restored(None, file) for file in read.files()] == [b"content"]


@pytest.mark.parametrize("target", ["victim.txt", "/dev/zero", "fifo"])
def test_no_reader_follows_a_link_or_opens_a_device(tmp_path: Path, victim: Path, target: str) -> None:
    checkpoint = written(tmp_path, encode_manifest(manifest(handle("shared/op-totals/a"))))
    shared = Path(checkpoint).parent / "shared" / "op-totals"
    shared.mkdir(parents=True)
    if target == "fifo":
        os.mkfifo(shared / "a")
    else:
        (shared / "a").symlink_to(tmp_path / target)

    with pytest.raises(CheckpointStorageError):
        check_files(read_checkpoint(checkpoint))
    with pytest.raises(CheckpointStorageError):
        [read_restored(None, file) for file in read_checkpoint(checkpoint).files()]
    with pytest.raises(CheckpointStorageError):
        read_snapshot(checkpoint).verify()


def test_a_directory_that_is_a_link_is_not_followed_either(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_bytes(CONTENT)
    checkpoint = written(tmp_path, encode_manifest(manifest(handle("shared/op-totals/a"))))
    shared = Path(checkpoint).parent / "shared"
    shared.mkdir()
    (shared / "op-totals").symlink_to(elsewhere)

    with pytest.raises(CheckpointStorageError):
        check_files(read_checkpoint(checkpoint))
    claimed = ClaimedCheckpoint(checkpoint, JobId("new"))
    claimed.take()
    claimed.remove()

    assert (elsewhere / "a").read_bytes() == CONTENT


def test_the_directory_of_checkpoints_may_be_a_link(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, encode_manifest(manifest(handle("shared/op-totals/a"))))
    shared = Path(checkpoint).parent / "shared" / "op-totals"
    shared.mkdir(parents=True)
    (shared / "a").write_bytes(CONTENT)
    (tmp_path / "link").symlink_to(tmp_path / "jobs")

    check_files(read_checkpoint(f"{tmp_path}/link/old/chk-2"))


@pytest.mark.timeout(60)
def test_a_list_of_checkpoints_reads_regular_files_in_its_directory_only(
    tmp_path: Path, victim: Path
) -> None:
    jobs = tmp_path / "jobs"
    written(tmp_path, encode_manifest(manifest()))
    for name in ("zero", "pipe", "outside"):
        (jobs / name / "chk-1").mkdir(parents=True)
    (jobs / "zero" / "chk-1" / "MANIFEST").symlink_to("/dev/zero")
    os.mkfifo(jobs / "pipe" / "chk-1" / "MANIFEST")
    (jobs / "outside" / "chk-1" / "MANIFEST").symlink_to(victim)
    (jobs / "loop").symlink_to(jobs)
    (jobs / "everything").symlink_to("/")

    found = stored_checkpoints(str(jobs))

    assert [one.path for one in found if one.manifest is not None] == [f"{jobs}/old/chk-2"]


@pytest.mark.parametrize("name", ["../../victim.txt", "{root}/victim.txt"])
def test_a_checksum_names_no_file(tmp_path: Path, victim: Path, name: str) -> None:
    """Local copies have the checksum as their name, and damaged ones are deleted."""
    data = encode_manifest(manifest(handle("shared/op-totals/a")))
    body = data.partition(b"\n")[2].replace(handle("").sha256.encode(), name.format(root=tmp_path).encode())
    header = f"tidegate-checkpoint 1 {hashlib.sha256(body).hexdigest()}\n".encode()
    checkpoint = written(tmp_path, header + body)
    copies = LocalSnapshots(str(tmp_path / "local" / "copies"))

    with pytest.raises(CorruptCheckpointError, match="sha256"):
        [copies.read(file) for file in read_checkpoint(checkpoint).files()]

    assert victim.exists()


@pytest.fixture
def requests() -> Iterator[list[str]]:
    """Addresses that were requested from a server on this machine; the first is the server's own."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        do_HEAD = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    asked.append(f"127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "address",
    [
        "http://{server}/state",
        "ftp://{server}/state",
        "simplecache::http://{server}/state",
        "zip://state::http://{server}/state.zip",
        "s3://bucket/state?endpoint_override=http://{server}",
        "file://{root}/victim.txt",
        "local://{root}/victim.txt",
        "reference://x",
        "shared/simplecache::file://{root}/victim.txt",
    ],
)
def test_a_manifest_opens_no_address(tmp_path: Path, victim: Path, requests: list[str], address: str) -> None:
    path = address.format(server=requests[0], root=tmp_path)
    checkpoint = written(tmp_path, hostile(path))

    with pytest.raises(CorruptCheckpointError, match="path"):
        check_files(read_checkpoint(checkpoint))

    assert requests[1:] == []
