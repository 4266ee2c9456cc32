"""The answer of a call that takes its time (name of `pyflink.common.completable_future`)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Future[T]):
    """A `concurrent.futures.Future`, under the name that PyFlink programs use.

    `result()` waits and raises what went wrong; `exception()` returns that instead.
    """
