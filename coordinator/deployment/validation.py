"""Checks that can be made before anything of a job runs."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from dataclasses import replace

from ...common.errors import CheckpointStorageError, ConfigurationError
from ...common.failpoints import VARIABLE
from ...operators.chain import load_operator
from ...protocol.elements import CheckpointingMode
from ...state.storage.checkpoint_storage import CheckpointStorage, check_exclusive, open_storage
from ..monitoring.local_state import memory_warning
from ..restore.restored_address import looked_for
from ..spec import JobSpec

logger = logging.getLogger("tidegate")


def prepare_start(spec: JobSpec, is_local: bool = False) -> JobSpec:
    """Check a job, and only then end the job whose checkpoint it starts from.

    Args:
        spec: The job.
        is_local: Whether all of it runs in this process.

    Returns:
        The job with the address of one checkpoint or savepoint as its restore path, if it has any.

    Raises:
        TidegateError: The job could not run, see `validate_before_start`; or the other one cannot be ended.
    """
    validate_before_start(spec, is_local)
    if spec.settings.restore_path is None:
        return spec
    # Here and not above: most jobs start without a checkpoint, and need not import what reads one.
    from ..restore.latest_checkpoint import directory_of, is_latest, secure_restored

    secured = secure_restored(spec)
    if not is_latest(spec.settings.restore_path):
        return secured
    if secured.settings.restore_path is None:
        # A warning, since that is what Python shows unasked, and a changed directory would lose the state.
        directory = directory_of(spec.settings.restore_path)
        logger.warning("No run has completed a checkpoint in %s, so the job starts from nothing", directory)
    else:
        # The job that was ended may have completed another checkpoint since the first look.
        _check_restored(secured, secured.settings.restore_path)
        logger.info("%s is %s", spec.settings.restore_path, secured.settings.restore_path)
    return secured


def validate_before_start(spec: JobSpec, is_local: bool = False) -> None:
    """Raise a clear error for a job that could not run.

    Args:
        spec: The job.
        is_local: Whether all of it runs in this process.

    Raises:
        ConfigurationError: The checkpoint directory cannot be written, an operator refuses, or a fail point
            is meant for an operator that is not there.
        CheckpointStorageError: The checkpoint to restore from does not exist, or is damaged.
        StateMigrationError: It does not fit the job.
    """
    settings = spec.settings
    _check_fail_points(spec)
    if settings.checkpoint_root is not None:
        _check_storage(open_storage(settings.checkpoint_root).sub(spec.job_id), settings.mode)
    if settings.restore_path is not None:
        with nullcontext() if is_local else looked_for(settings.restore_path, "driver"):
            _check_restorable(spec, settings.restore_path)
    _check_directory("tidegate.local-dir", settings.local_dir)
    warning = memory_warning(settings)
    if warning is not None:
        logger.warning("%s", warning)
    if settings.local_snapshots_dir is not None:
        _check_directory("execution.checkpointing.local-backup.dirs", settings.local_snapshots_dir)
    for node in spec.graph.operators:
        operator = load_operator(node)
        operator.validate()
        if settings.trigger is not None:
            operator.validate_checkpointing(settings.trigger.interval_ms, settings.trigger.timeout_ms)


def _check_storage(storage: CheckpointStorage, mode: CheckpointingMode) -> None:
    try:
        storage.write_file("epochs/0", b"")
        if mode is CheckpointingMode.EXACTLY_ONCE:
            check_exclusive(storage, "epochs/0")
        elif storage.why_not_exclusive():
            logger.warning(
                "%s. If two coordinators of the job run at the same time, checkpoints may be lost",
                storage.why_not_exclusive(),
            )
    finally:
        # Other checks follow, and a job that never starts must leave nothing.
        storage.delete_all()


def _check_directory(key: str, path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{key} {path} cannot be used: {error}; choose a directory that can be written"
        ) from error


def _check_restorable(spec: JobSpec, path: str) -> None:
    from ..restore.latest_checkpoint import check_latest, is_latest, latest_now

    if not is_latest(path):
        _check_restored(spec, path)
        return
    check_latest(spec)
    latest = latest_now(path)
    if latest is None:
        return
    try:
        _check_restored(spec, latest)
    except CheckpointStorageError as error:
        # A job that still runs may have replaced it; it is looked for again once that job is fenced.
        logger.info("%s was the latest checkpoint, and cannot be read: %s", latest, error)


def _check_restored(spec: JobSpec, path: str) -> None:
    # Here and not above: most jobs start without a checkpoint, and need not import what reads one.
    from ...state.storage.stored_checkpoint import check_files, read_checkpoint
    from ..restore.older_checkpoint import newer_checkpoints, step_back_warning
    from ..restore.restore import check_restore

    settings = spec.settings
    manifest = read_checkpoint(path)
    if settings.claims_restored:
        _check_claim(spec, path)
    check_files(manifest)
    check_restore(spec.graph, manifest, settings.allow_non_restored_state)
    newer = newer_checkpoints(path, manifest)
    if newer:
        logger.warning("%s", step_back_warning(path, newer, settings.claims_restored))


def _check_claim(spec: JobSpec, path: str) -> None:
    if not spec.settings.takes_checkpoints:
        raise ConfigurationError(
            "execution.state-recovery.claim-mode is CLAIM, but the job takes no checkpoints, so it would "
            "never know when to remove what it was started from; set execution.checkpointing.interval, or "
            "use NO_CLAIM"
        )
    from ..checkpoints.job_storage import checkpoint_to_claim

    restored = replace(spec, settings=replace(spec.settings, restore_path=path))
    checkpoint_to_claim(restored, path).check()


def _check_fail_points(spec: JobSpec) -> None:
    uids = [node.uid for node in spec.graph.operators]
    for point in spec.settings.fail_points:
        if point.uid is not None and point.uid not in uids:
            raise ConfigurationError(
                f"{VARIABLE}: {point.text!r} cannot be armed: the job has no operator with uid "
                f"{point.uid!r}; there are {', '.join(sorted(uids))}"
            )
