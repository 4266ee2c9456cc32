"""What a task reports when it fails."""

from __future__ import annotations

import traceback

from ...common.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    KeyTypeError,
    LostMessageError,
    SerializationError,
    StateError,
    StateMigrationError,
    UserCodeError,
)
from ...protocol.task_events import TaskFailed
from ..ports import TaskDeployment

UNRECOVERABLE = (
    ConfigurationError,
    CorruptCheckpointError,
    KeyTypeError,
    SerializationError,
    StateMigrationError,
)
"""A restart meets the same error again, or would hide it."""

PROGRAM_ERRORS = (
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    StateError,
    SyntaxError,
    TypeError,
    UserCodeError,
)
"""What the code of a program raises because it is wrong, whatever the world around it does."""


def failure_of(deployment: TaskDeployment, error: BaseException, is_starting: bool = False) -> TaskFailed:
    """The report of a subtask that an error ended, perhaps while it was initialised."""
    return TaskFailed(
        deployment.attempt,
        deployment.subtask_id,
        f"task {deployment.subtask.name}: {type(error).__name__}: {error}",
        "".join(traceback.format_exception(error)),
        not isinstance(error, UNRECOVERABLE),
        is_starting and is_program_error(error),
        isinstance(error, LostMessageError),
    )


def is_program_error(error: BaseException) -> bool:
    """Whether an error, and every one that it was raised from or during, is one of the program.

    A `TypeError` that follows from a lost connection is not.
    """
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        if not isinstance(each, PROGRAM_ERRORS):
            return False
        seen.add(id(each))
        left += [each.__cause__, each.__context__]
    return True
