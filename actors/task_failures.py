"""What a task reports when it fails."""

from __future__ import annotations

import traceback

from ..common.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    KeyTypeError,
    SerializationError,
    StateMigrationError,
)
from ..protocol.task_events import TaskFailed
from .ports import TaskDeployment

UNRECOVERABLE = (
    ConfigurationError,
    CorruptCheckpointError,
    KeyTypeError,
    SerializationError,
    StateMigrationError,
)
"""A restart meets the same error again, or would hide it."""


def failure_of(deployment: TaskDeployment, error: BaseException) -> TaskFailed:
    """The report of a subtask that an error ended."""
    return TaskFailed(
        deployment.attempt,
        deployment.subtask_id,
        f"task {deployment.subtask.name}: {type(error).__name__}: {error}",
        "".join(traceback.format_exception(error)),
        not isinstance(error, UNRECOVERABLE),
    )
