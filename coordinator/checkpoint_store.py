"""Completed checkpoints of one job in checkpoint storage.

Layout below the job's directory:

    epochs/<n>           claimed by the n-th coordinator of the job, create-if-absent
    ids/<n>              checkpoint ids up to n may have been given
    chk-<id>/MANIFEST    written last; its presence means the checkpoint exists
    shared/<uid>/…       files of state, referred to by manifests (small ones are in the manifests)

Nothing that a manifest refers to is ever deleted: every file is classified first, deleted after.
"""

from __future__ import annotations

from ..common.errors import CheckpointStorageError
from ..protocol.ids import CheckpointId
from ..protocol.manifest import CheckpointManifest, decode_manifest, encode_manifest
from ..state.storage import CheckpointStorage
from ..state.stored_checkpoint import MANIFEST_NAME

ID_BLOCK = 256


class FencedError(CheckpointStorageError):
    """Another coordinator of the same job has taken over; this one must stop."""


class CheckpointStore:
    """The completed checkpoints of one job, newest last.

    Args:
        storage: The job's own directory.
        num_retained: How many completed checkpoints to keep.
    """

    def __init__(self, storage: CheckpointStorage, num_retained: int) -> None:
        self._storage = storage
        self._num_retained = num_retained
        self._retained: dict[CheckpointId, CheckpointManifest] = {}
        self._reserved_until = 0
        self.epoch = 0

    @property
    def storage(self) -> CheckpointStorage:
        """The job's directory."""
        return self._storage

    def claim(self) -> int:
        """Become the job's coordinator; returns the epoch, higher than any before."""
        taken = [int(path.rsplit("/", 1)[-1]) for path in self._storage.list_files("epochs")]
        epoch = max(taken, default=0) + 1
        while not self._storage.create_exclusive(f"epochs/{epoch}", b""):
            epoch += 1
        self.epoch = epoch
        return epoch

    def first_free_id(self) -> int:
        """An id above every one that any coordinator of this job may have given."""
        reserved = [int(path.rsplit("/", 1)[-1]) for path in self._storage.list_files("ids")]
        self._reserved_until = max([0, *reserved, *self._stored_ids()])
        return self._reserved_until + 1

    def reserve(self, checkpoint_id: int) -> None:
        """Make durable that ids up to at least `checkpoint_id` are used."""
        while self._reserved_until < checkpoint_id:
            until = self._reserved_until + ID_BLOCK
            self._storage.create_exclusive(f"ids/{until}", b"")
            self._reserved_until = until

    def load(self) -> CheckpointManifest | None:
        """Read all completed checkpoints and return the newest.

        A damaged newest checkpoint is an error and not a step back: sinks may have committed it. A
        damaged older one is an error too, since what it refers to could not be told from orphans.

        Raises:
            CorruptCheckpointError: A manifest is damaged.
        """
        stored = sorted(self._stored_ids())
        if not stored:
            return None
        for checkpoint_id in stored:
            path = _manifest_path(checkpoint_id)
            self._retained[checkpoint_id] = decode_manifest(
                self._storage.read(path), f"{self._storage.uri}/{path}"
            )
        return self._retained[stored[-1]]

    @property
    def newest(self) -> CheckpointManifest | None:
        """The newest completed checkpoint."""
        return self._retained[max(self._retained)] if self._retained else None

    @property
    def retained(self) -> list[CheckpointManifest]:
        """The retained checkpoints, oldest first."""
        return [self._retained[checkpoint_id] for checkpoint_id in sorted(self._retained)]

    def directory_of(self, checkpoint_id: CheckpointId) -> str:
        """Address of a checkpoint, as `execution.state-recovery.path` takes it."""
        return f"{self._storage.uri.rstrip('/')}/chk-{checkpoint_id}"

    def complete(self, manifest: CheckpointManifest) -> None:
        """Make a checkpoint exist.

        Raises:
            FencedError: Another coordinator took over, or the id is already used.
            CheckpointStorageError: The manifest could not be written.
        """
        self._check_fence()
        path = _manifest_path(manifest.checkpoint_id)
        if not self._storage.create_exclusive(path, encode_manifest(manifest)):
            raise FencedError(f"{path} exists already: another coordinator completed it")
        self._retained[manifest.checkpoint_id] = manifest

    def _check_fence(self) -> None:
        newer = f"epochs/{self.epoch + 1}"
        if newer in self._storage.list_files("epochs"):
            raise FencedError(f"coordinator of epoch {self.epoch} is fenced: a newer one claimed the job")

    def drop_old(self) -> list[CheckpointId]:
        """Remove checkpoints beyond the number to keep, and the files only they refer to."""
        excess = sorted(self._retained)[: -self._num_retained]
        if not excess:
            return []
        dropped = [self._retained[checkpoint_id] for checkpoint_id in excess]
        self._delete(dropped, keeping=[m for m in self.retained if m not in dropped])
        for checkpoint_id in excess:
            del self._retained[checkpoint_id]
        return excess

    def _delete(self, dropped: list[CheckpointManifest], keeping: list[CheckpointManifest]) -> None:
        unneeded = _stored_paths(dropped) - _stored_paths(keeping)
        own = sorted(path for path in unneeded if "://" not in path and not path.startswith("/"))
        # The manifest goes first: a checkpoint with missing files must not seem to exist.
        self._storage.delete([_manifest_path(manifest.checkpoint_id) for manifest in dropped])
        self._storage.delete(own)

    def remove_orphans(self) -> list[str]:
        """Delete files of state that no retained checkpoint refers to; only while no task runs."""
        needed = _stored_paths(self.retained)
        orphans = [path for path in self._storage.list_files("shared") if path not in needed]
        self._storage.delete(orphans)
        return orphans

    def remove_all(self) -> None:
        """Delete everything of this job; for jobs that do not keep their checkpoints."""
        manifests = [path for path in self._storage.list_files("") if path.endswith(MANIFEST_NAME)]
        self._storage.delete(manifests)
        self._storage.delete(self._storage.list_files(""))
        self._retained.clear()

    def _stored_ids(self) -> list[CheckpointId]:
        ids = []
        for path in self._storage.list_files(""):
            directory, _, name = path.rpartition("/")
            if name == MANIFEST_NAME and directory.startswith("chk-"):
                ids.append(CheckpointId(int(directory.removeprefix("chk-"))))
        return ids


def _stored_paths(manifests: list[CheckpointManifest]) -> set[str]:
    """The files in storage that these checkpoints refer to."""
    files = (handle for manifest in manifests for handle in manifest.files())
    return {handle.path for handle in files if not handle.is_inline}


def _manifest_path(checkpoint_id: CheckpointId) -> str:
    return f"chk-{checkpoint_id}/{MANIFEST_NAME}"
