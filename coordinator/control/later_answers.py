"""Answers of a job as futures, as PyFlink's `JobClient` gives them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ...common.completable_future import CompletableFuture

T = TypeVar("T")


def answered(question: Callable[[], T]) -> CompletableFuture[T]:
    """The answer of a question, or the error that it raised."""
    future: CompletableFuture[T] = CompletableFuture()
    try:
        future.set_result(question())
    except Exception as error:
        future.set_exception(error)
    return future


def answered_later(question: Callable[[], T]) -> CompletableFuture[T]:
    """The answer of a question that takes its time, asked in a thread of its own."""
    future: CompletableFuture[T] = CompletableFuture()

    def ask() -> None:
        try:
            future.set_result(question())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=ask, name="tidegate-savepoint", daemon=True).start()
    return future
