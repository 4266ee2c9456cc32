"""Runs driver programs, to their end or far enough to know their job."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

from ..common.errors import ConfigurationError
from ..coordinator.spec import JobSpec
from ..datastream.submission import JobIntercepted, intercepted_submissions


def job_of_driver(path: str, arguments: Sequence[str]) -> JobSpec:
    """The job that a driver program executes first; nothing of it is deployed.

    What the program prints goes to standard error: standard output is for the result.

    Args:
        path: the program.
        arguments: what it finds in `sys.argv[1:]`.

    Raises:
        ConfigurationError: it ended without executing a job, or raised.
    """
    jobs: list[JobSpec] = []
    with as_main_program(path, arguments), intercepted_submissions(jobs.append), redirect_stdout(sys.stderr):
        try:
            runpy.run_path(path, run_name="__main__")
        except JobIntercepted:
            pass
        except SystemExit as error:
            raise ConfigurationError(
                f"{path} ended with exit code {error.code} before it executed a job"
            ) from error
        except Exception as error:
            raise ConfigurationError(
                f"{path} raised {type(error).__name__} before it executed a job: {error}"
            ) from error
    if not jobs:
        raise ConfigurationError(
            f"{path} executed no job: it has to call execute(), execute_async() or execute_and_collect()"
        )
    return jobs[0]


@contextmanager
def as_main_program(path: str, arguments: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and `sys.path` as `python path arguments` would have them."""
    argv, search = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search


def print_error(path: str, error: BaseException) -> None:
    """Print the traceback of an error in a driver program, from the program on, as Python would."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
