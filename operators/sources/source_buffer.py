"""What a source's thread hands over to its task: bounded, in order, in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ...protocol.elements import RowBatch, StreamElement


class SourceCancelled(BaseException):
    """Ends a source's thread inside `collect`. Not an `Exception`, so that no retry loop swallows it."""


class SourceBuffer:
    """Records and control elements between two threads.

    Args:
        capacity: At most so many records wait; who adds more waits for the task to take them.
        wake: Called in the source's thread when there is something again for a task that found nothing.
    """

    def __init__(self, capacity: int, wake: Callable[[], None] = lambda: None) -> None:
        self._capacity = capacity
        self._wake = wake
        self._is_awaited = False
        self._mutex = threading.Lock()
        self._has_room = threading.Condition(self._mutex)
        self._elements: list[StreamElement] = []
        self._values: list[Any] = []
        self._timestamps: list[int] | None = None
        self._count = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether a record cannot be added at once, for want of room or because the buffer is closed."""
        return self._count >= self._capacity

    def wait_for_room(self) -> None:
        """Block while the buffer is full. Raises `SourceCancelled` once it is closed."""
        with self._mutex:
            self._wait()

    def add(self, value: Any) -> None:
        """Add a record without event time."""
        with self._mutex:
            if self._count >= self._capacity:
                self._wait()
            if self._timestamps is not None:
                self._end_batch()
            self._values.append(value)
            self._count += 1
            if self._is_awaited:
                self._wake_task()

    def add_with_timestamp(self, value: Any, timestamp_ms: int) -> None:
        """Add a record with its event time."""
        with self._mutex:
            if self._count >= self._capacity:
                self._wait()
            if self._timestamps is None:
                self._end_batch()
                self._timestamps = []
            self._values.append(value)
            self._timestamps.append(timestamp_ms)
            self._count += 1
            if self._is_awaited:
                self._wake_task()

    def add_control(self, element: StreamElement) -> None:
        """Add a control element behind the records so far; one of the kind right before it is replaced."""
        with self._mutex:
            if self._is_closed:
                raise SourceCancelled
            self._end_batch()
            if self._elements and type(self._elements[-1]) is type(element):
                # Else a source that emits nothing else could fill the memory.
                self._elements.pop()
            self._elements.append(element)
            self._wake_task()

    def take(self) -> list[StreamElement]:
        """Everything that waits, in order. If that is nothing, the task is woken by what comes next."""
        with self._mutex:
            if not self._values and not self._elements:
                self._is_awaited = True
                return []
            self._end_batch()
            taken, self._elements = self._elements, []
            if not self._is_closed:
                self._count = 0
                self._has_room.notify_all()
            return taken

    def ended(self) -> None:
        """Nothing follows: the task need not wait to find that out."""
        with self._mutex:
            self._wake_task()

    def _wake_task(self) -> None:
        if self._is_awaited:
            self._is_awaited = False
            self._wake()

    def close(self) -> None:
        """Let nobody wait, and nobody add anything, any more."""
        with self._mutex:
            self._is_closed = True
            # One comparison is all that a record costs, so closed is full for ever.
            self._count = self._capacity
            self._has_room.notify_all()

    def _wait(self) -> None:
        while self._count >= self._capacity and not self._is_closed:
            self._has_room.wait()
        if self._is_closed:
            raise SourceCancelled

    def _end_batch(self) -> None:
        if self._values:
            self._elements.append(RowBatch(self._values, self._timestamps))
            self._values = []
        self._timestamps = None
