"""What a job finds when it starts: its directory of checkpoint storage, and the checkpoint of another job."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.elements import CheckpointingMode
from ...state.storage.checkpoint_storage import CheckpointStorage, check_exclusive, open_storage
from ...state.storage.stored_checkpoint import read_checkpoint
from ..restore.claim_mode import ClaimedCheckpoint
from ..restore.older_checkpoint import newer_checkpoints, step_back_warning
from ..restore.restore import check_restore
from ..restore.restore_fence import (
    check_still_fenced,
    check_still_first,
    has_fenced,
    mark_continued,
    restoring_job,
)
from ..restore.restored_address import looked_for
from ..spec import JobSpec
from .checkpoint_store import CheckpointStore


def new_store(spec: JobSpec, storage: CheckpointStorage | None) -> CheckpointStore | None:
    """The completed checkpoints of a job, not claimed yet; `None` without checkpointing.

    Args:
        storage: Root of all checkpoints instead of the one in the settings.
    """
    settings = spec.settings
    if settings.checkpoint_root is None:
        return None
    root = storage or open_storage(settings.checkpoint_root, settings.syncs_to_disk)
    return CheckpointStore(
        root.sub(spec.job_id), spec.job_id, settings.num_retained, settings.deleting_threads
    )


def claim_epoch(spec: JobSpec, store: CheckpointStore) -> int:
    """Become the job's coordinator.

    Returns:
        The epoch.

    Raises:
        ConfigurationError: The job is exactly-once, but another coordinator could claim the same epoch.
    """
    epoch = store.claim()
    if spec.settings.mode is CheckpointingMode.EXACTLY_ONCE:
        # The driver checked it too, but this process may have other packages.
        check_exclusive(store.storage, store.probe)
    return epoch


def continue_ids(spec: JobSpec, store: CheckpointStore) -> None:
    """The ids of a new job's checkpoints follow those of the job that it starts from."""
    path = spec.settings.restore_path
    if path is not None and store.is_new:
        foreign = _read_restored(path)
        store.give_ids_above(max([foreign.checkpoint_id, *newer_checkpoints(path, foreign)]))


def foreign_state(
    spec: JobSpec, store: CheckpointStore | None, warn: Callable[[str], None]
) -> CheckpointManifest | None:
    """The checkpoint of another job to start from, if there is one and the job has none of its own yet.

    Raises:
        FencedError: Another job has started from the same job's checkpoints since.
        StateMigrationError: It does not fit the job.
    """
    path = spec.settings.restore_path
    is_first_start = store is None or store.newest is None
    claimed = claimed_checkpoint(spec)
    if path is None and is_first_start:
        check_still_first(spec.settings.follows, restoring_job(spec))
    if path is None or not is_first_start:
        if store is not None:
            store.owns(claimed)
        return None
    foreign = _read_restored(path)
    restoring = restoring_job(spec)
    # Before the claim: a job that was overtaken claims nothing that the later job starts from.
    check_still_fenced(path, foreign, restoring)
    if claimed is not None:
        claimed.take()
    if store is not None:
        store.owns(claimed)
        store.before_first = lambda: mark_continued(path, foreign, restoring)
    newer = newer_checkpoints(path, foreign)
    if newer:
        warn(step_back_warning(path, newer, spec.settings.claims_restored))
    check_restore(spec.graph, foreign, spec.settings.allow_non_restored_state)
    return foreign


def _read_restored(path: str) -> CheckpointManifest:
    with looked_for(path, "coordinator"):
        return read_checkpoint(path)


def claimed_checkpoint(spec: JobSpec) -> ClaimedCheckpoint | None:
    """What the job owns of another one, if anything."""
    settings = spec.settings
    if settings.restore_path is None or not settings.claims_restored or not settings.takes_checkpoints:
        return None
    return checkpoint_to_claim(spec, settings.restore_path)


def checkpoint_to_claim(spec: JobSpec, path: str) -> ClaimedCheckpoint:
    """What the job owns of another one if it starts from this path and claims it."""
    restoring = restoring_job(spec)
    return ClaimedCheckpoint(path, spec.job_id, lambda owner: has_fenced(path, restoring, owner))
