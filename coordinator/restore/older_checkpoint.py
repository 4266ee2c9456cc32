"""Starting from an older checkpoint although newer ones lie beside it: a step back that somebody chose.

A job never steps back by itself: its sinks may have committed what the newest checkpoint covers. Whoever
names an older one in `execution.state-recovery.path` decides that, and is told what it means.
"""

from __future__ import annotations

from ...protocol.checkpoints.checkpoint_paths import stored_ids
from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId
from ...state.storage.checkpoint_storage import open_storage
from .claim_mode import checkpoint_directory, storage_root


def newer_checkpoints(path: str, manifest: CheckpointManifest) -> list[CheckpointId]:
    """The checkpoints of the same job beside `path` that were taken after it, oldest first.

    They are named by their manifests; whether they can be read is not looked at. A savepoint has none.

    Raises:
        CheckpointStorageError: Storage refuses.
    """
    if manifest.kind is SnapshotKind.SAVEPOINT:
        return []
    found = stored_ids(open_storage(storage_root(checkpoint_directory(path))).list_files(""))
    return [each for each in found if each > manifest.checkpoint_id]


def step_back_warning(path: str, newer: list[CheckpointId], claims_restored: bool) -> str:
    """What somebody should know who starts a job from `path` although there are `newer` ones."""
    names = ", ".join(f"chk-{each}" for each in newer[-5:])
    fate = "claims only the one it starts from, and leaves them" if claims_restored else "leaves them"
    return (
        f"the job starts from {path}, and newer checkpoints lie beside it: {names}. What came after the "
        f"older one is processed again. Sinks may have committed it already, and then it comes twice; put "
        f"their output back to that moment if it must not. The job {fate} as they are: they are nobody's, "
        f"and the ids of its own checkpoints are above theirs"
    )
