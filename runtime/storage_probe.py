"""Checks that a task sees the coordinator's files, before it processes anything.

A path that exists on every node without being shared would otherwise show at the first restart only, when
state that was acknowledged is not there.
"""

from __future__ import annotations

from ..common.errors import CheckpointStorageError, ConfigurationError
from ..state.storage.checkpoint_storage import MissingFileError
from .ports import TaskDeployment


def check_storage_is_shared(deployment: TaskDeployment) -> None:
    """Look for the file that the coordinator wrote when it took the job over.

    Raises:
        ConfigurationError: It is not there, so the job cannot work like this.
        CheckpointStorageError: It is not there, but the job has worked before: another try, perhaps on
            another node, may help. Or the storage cannot be reached.
    """
    settings = deployment.settings
    if settings.storage is None or settings.storage_probe is None:
        return
    try:
        settings.storage.read(settings.storage_probe)
    except MissingFileError as error:
        is_resumed = deployment.restored is not None and deployment.restored_is_owned
        has_worked = deployment.attempt_number > 0 or is_resumed
        kind = CheckpointStorageError if has_worked else ConfigurationError
        raise kind(
            f"the coordinator's file {settings.storage_probe!r} is not in {settings.storage.uri} here, so "
            f"this process and the coordinator do not share the checkpoint directory; set "
            f"execution.checkpointing.dir to a directory that is mounted on every node of the cluster, or "
            f"to a URL such as s3://bucket/checkpoints"
        ) from error
