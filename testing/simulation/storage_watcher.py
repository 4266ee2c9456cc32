"""Watches what is created and deleted in the storage of a simulation."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from ...coordinator.checkpoints.savepoints import CLAIM_NAME, decode_claim
from ...coordinator.checkpoints.takeover_records import decode_takeover
from ...protocol.checkpoints.checkpoint_paths import numbers
from ...protocol.checkpoints.handles import FileHandle
from ...protocol.checkpoints.manifest import decode_manifest
from ...protocol.checkpoints.takeover import counts
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId, JobId
from ...state.storage.checkpoint_storage import is_absolute, verified

SAVEPOINTS = "savepoints"
"""The directory of all savepoints."""
_CHECKPOINT = re.compile(r"([^/]+)/chk-(\d+)/MANIFEST")
_SAVEPOINT = re.compile(rf"({SAVEPOINTS}/[^/]+)/MANIFEST")


class StorageWatcher:
    """Knows every manifest that exists, and what it needs.

    Args:
        files: Everything that is stored, from its root.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._needed: dict[str, set[str]] = {}
        self.completed: set[tuple[str, int]] = set()
        """Job and id of every checkpoint that ever had a manifest."""
        self.savepoints: set[str] = set()
        """The directories of those savepoints that somebody was told of, and has not removed."""
        self.files_read = 0
        self._claims: dict[str, str] = {}
        self._ended: set[str] = set()
        self._late: set[str] = set()
        self._abandoned: set[str] = set()
        self._restored: dict[str, str] = {}

    def abandoned(self, job: str) -> None:
        """Another job has started from a checkpoint of this one, which may still run: no job cleans it up."""
        self._abandoned.add(job)

    def is_restored(self, directory: str, job: str) -> None:
        """A job starts from this checkpoint, and needs it until it has one of its own, or has ended."""
        self._restored[directory] = job

    def ended(self, job: str) -> None:
        """A job has ended, and its coordinator has cleaned up."""
        self._ended.add(job)
        self._restored = {path: starting for path, starting in self._restored.items() if starting != job}

    def written(self, path: str) -> None:
        """A file was written. Nobody knows of what is written to a job that has ended."""
        if posixpath.basename(path) == CLAIM_NAME:
            self._claims[posixpath.dirname(path)] = decode_claim(self._files[path], path)
        if path.partition("/")[0] in self._ended:
            self._late.add(path)

    def created(self, path: str) -> None:
        """A file was created: if it is a manifest, all it names must be there."""
        checkpoint, savepoint = _CHECKPOINT.fullmatch(path), _SAVEPOINT.fullmatch(path)
        if checkpoint is None and savepoint is None:
            return
        manifest = decode_manifest(self._files[path], path)
        if checkpoint is not None:
            assert manifest.checkpoint_id == int(checkpoint[2]), f"{path} is of {manifest.checkpoint_id}"
            assert manifest.kind is not SnapshotKind.SAVEPOINT, f"{path} is of a savepoint"
            self.completed.add((checkpoint[1], int(checkpoint[2])))
            root = checkpoint[1]
        else:
            assert savepoint is not None
            assert manifest.kind is SnapshotKind.SAVEPOINT, f"{path} is of a {manifest.kind.value}"
            root = savepoint[1]
        if self.is_fenced_off(path):
            # A coordinator wrote it that was replaced: its files may be gone, and nobody will ever read it.
            return
        handles = [handle for handle in manifest.files() if not handle.is_inline]
        self._needed[path] = {self._whole(root, handle) for handle in handles}

    def _whole(self, root: str, handle: FileHandle) -> str:
        """The path of a file that a manifest in `root` names, and that must be there and intact."""
        assert not is_absolute(handle.path), f"a manifest in {root} names {handle.path}, which is another's"
        path = f"{root}/{handle.path}"
        assert path in self._files, f"a manifest in {root} names {handle.path}, which is not there"
        verified(handle, self._files[path], root)
        return path

    def may_be_deleted(self, path: str) -> None:
        """Raise `AssertionError` if somebody needs the file: a checkpoint that counts, or a person."""
        directory = posixpath.dirname(path)
        for savepoint in self.savepoints:
            if path.startswith(f"{savepoint}/"):
                assert self._is_replaced(savepoint), f"{path} is deleted, and the savepoint is somebody's"
        if _CHECKPOINT.fullmatch(path) or _SAVEPOINT.fullmatch(path):
            if directory in self._restored:
                starting = self._restored[directory]
                assert self._has_its_own(starting), f"{path} is deleted, but {starting} starts from it"
            if directory in self._claims:
                assert self._is_replaced(directory), f"{path} is deleted, but its new owner has nothing else"
            self._needed.pop(path, None)
            return
        for manifest, files in self._needed.items():
            assert path not in files or self.is_fenced_off(manifest), (
                f"{path} is deleted; {manifest} needs it"
            )

    def _is_replaced(self, directory: str) -> bool:
        """Whether a job has claimed it, and needs it no more: it has checkpoints of its own, or ended."""
        return self._has_its_own(self._claims.get(directory, ""))

    def _has_its_own(self, job: str) -> bool:
        """Whether a job no longer needs what it started from: it has its own checkpoint, or has ended."""
        has_completed = any(each == job for each, _ in self.completed)
        return has_completed or any(path.startswith(f"ended/{job}.") for path in self._files)

    def is_fenced_off(self, manifest: str) -> bool:
        """Whether a coordinator that was replaced wrote it too late to count, see ADR 009."""
        match = _CHECKPOINT.fullmatch(manifest)
        if match is None:
            return False
        if not any(path.startswith(f"{match[1]}/epochs/") for path in self._files):
            return True
        accepted = [path for path in self._files if path.startswith(f"{match[1]}/accepted/")]
        takeovers = [
            decode_takeover(self._files[path], path, JobId(match[1]), number)
            for path, number in zip(accepted, numbers(accepted), strict=True)
        ]
        return not counts(CheckpointId(int(match[2])), takeovers)

    def told(self, directory: str) -> None:
        """Somebody was told that a savepoint is complete, and owns it from now on."""
        assert f"{directory}/MANIFEST" in self._files, f"{directory} is told to be complete, and is not"
        self.savepoints.add(directory)

    def moved(self, directory: str, to: str) -> None:
        """Somebody moved a savepoint."""
        files = self._needed.pop(f"{directory}/MANIFEST")
        self._needed[f"{to}/MANIFEST"] = {f"{to}/{path.removeprefix(f'{directory}/')}" for path in files}
        self.savepoints = {*self.savepoints - {directory}, to}
        if directory in self._claims:
            self._claims[to] = self._claims.pop(directory)

    def removed(self, directory: str) -> None:
        """Somebody removed a savepoint, or all checkpoints of a job that has ended."""
        for manifest in [path for path in self._needed if path.startswith(f"{directory}/")]:
            del self._needed[manifest]
        self.savepoints.discard(directory)

    # ------------------------------------------------------------ in the end

    def orphans(self) -> list[str]:
        """Files of state that no checkpoint needs, apart from those that came after the end of their job."""
        needed = {path for files in self._needed.values() for path in files}
        stored = (path for path in self._files if "/shared/" in path and path not in self._late)
        return [
            path
            for path in stored
            if path not in needed and path.partition("/")[0] not in {SAVEPOINTS, *self._abandoned}
        ]

    def check_savepoints(self) -> None:
        """Raise `AssertionError` unless every savepoint that somebody has can still be read, by itself."""
        for directory in self.savepoints:
            path = f"{directory}/MANIFEST"
            if path not in self._files:
                assert self._is_replaced(directory), f"the savepoint {directory} is gone"
                continue
            for handle in decode_manifest(self._files[path], path).files():
                if not handle.is_inline:
                    self._whole(directory, handle)
