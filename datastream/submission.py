"""What the command line sees of a driver program: its jobs, before anything starts or while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..coordinator.control.job_client import JobClient
from ..coordinator.spec import JobSpec

_interceptors: list[Callable[[JobSpec], None]] = []
_watchers: list[Callable[[JobClient], None]] = []


class JobIntercepted(BaseException):
    """Ends a driver whose job was taken. No `Exception`, so that the driver does not handle it."""


@contextmanager
def intercepted_submissions(take: Callable[[JobSpec], None]) -> Iterator[None]:
    """While this is open, `execute` of any environment hands its job to `take` and raises.

    Nothing is validated, written or deployed: `execute`, `execute_async` and `execute_and_collect` build
    the graph and raise `JobIntercepted`.
    """
    _interceptors.append(take)
    try:
        yield
    finally:
        _interceptors.pop()


def offer(spec: JobSpec) -> None:
    """Called with every job before it is validated and started; raises `JobIntercepted` if it is taken."""
    if _interceptors:
        _interceptors[-1](spec)
        raise JobIntercepted


@contextmanager
def watched_submissions(watch: Callable[[JobClient], None]) -> Iterator[None]:
    """While this is open, `watch` gets every job that an environment has started."""
    _watchers.append(watch)
    try:
        yield
    finally:
        _watchers.pop()


def submitted(client: JobClient) -> None:
    """Called with every job once it is started."""
    if _watchers:
        _watchers[-1](client)
