"""Takes the job of a driver program instead of running it, for checks before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..coordinator.spec import JobSpec

_interceptors: list[Callable[[JobSpec], None]] = []


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
