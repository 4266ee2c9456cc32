"""What the exit code of a command says; `docs/cli.md` has the same table."""

from __future__ import annotations

import enum

from ..common.errors import (
    CheckpointNotFoundError,
    ClusterUnreachableError,
    JobCancelledError,
    JobExecutionError,
    JobNotFoundError,
    JobTimeoutError,
)


class ExitCode(enum.IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    JOB_FAILED = 5
    JOB_CANCELLED = 6
    TIMED_OUT = 7
    WARNINGS = 8
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


_OF_ERRORS: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (JobNotFoundError, ExitCode.NOT_FOUND),
    (CheckpointNotFoundError, ExitCode.NOT_FOUND),
    (ClusterUnreachableError, ExitCode.UNREACHABLE),
    (JobCancelledError, ExitCode.JOB_CANCELLED),
    (JobTimeoutError, ExitCode.TIMED_OUT),
    (JobExecutionError, ExitCode.JOB_FAILED),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code for an error; the first kind that fits."""
    return next((code for kind, code in _OF_ERRORS if isinstance(error, kind)), ExitCode.FAILED)
