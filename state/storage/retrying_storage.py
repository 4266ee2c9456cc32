"""Checkpoint storage that retries what may pass by itself."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, TypeVar

from ...common.errors import CheckpointStorageError
from ...protocol.checkpoints.handles import FileHandle
from ...protocol.checkpoints.storage_retries import StorageRetryPolicy
from .checkpoint_storage import CheckpointStorage, MissingFileError, TransientStorageError

_Result = TypeVar("_Result")


class RetryClock(Protocol):
    """The time that retries need. Tests and the simulator have a virtual one."""

    def now_ms(self) -> float:
        """The time since some moment."""

    def fraction(self) -> float:
        """A random number from 0 to 1."""

    def pause(self, delay_ms: int) -> None:
        """Wait.

        Raises:
            CheckpointStorageError: The calling thread is to stop.
        """


class _Stop(threading.local):
    event: threading.Event | None = None


_stop = _Stop()


@contextmanager
def retries_stop_at(event: threading.Event) -> Iterator[None]:
    """Within, a retry of the calling thread waits no longer when `event` is set."""
    before, _stop.event = _stop.event, event
    try:
        yield
    finally:
        _stop.event = before


class ThreadClock:
    """The time of the machine; waiting blocks the calling thread."""

    def now_ms(self) -> float:
        return time.monotonic() * 1_000

    def fraction(self) -> float:
        return random.random()

    def pause(self, delay_ms: int) -> None:
        if _stop.event is None:
            time.sleep(delay_ms / 1_000)
        elif _stop.event.wait(delay_ms / 1_000):
            raise CheckpointStorageError("retries of checkpoint storage end because their task is cancelled")


class RetryingStorage(CheckpointStorage):
    """Repeats single operations that failed with a `TransientStorageError`.

    Files that `open_file` returns are the exception: what is read from them later is not retried.

    Args:
        storage: What may fail.
        policy: How often and when to retry.
        clock: Measures and passes the time in between.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        policy: StorageRetryPolicy | None = None,
        clock: RetryClock | None = None,
    ) -> None:
        self._storage = storage
        self._policy = policy or StorageRetryPolicy()
        self._clock = clock or ThreadClock()

    @property
    def uri(self) -> str:
        return self._storage.uri

    @property
    def unretried(self) -> CheckpointStorage:
        return self._storage

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        return self._retried(lambda: self._storage.write_file(path, data))

    def create_exclusive(self, path: str, data: bytes) -> bool:
        is_repeated = False

        def create() -> bool:
            nonlocal is_repeated
            was_repeated, is_repeated = is_repeated, True
            return self._storage.create_exclusive(path, data) or (was_repeated and self._is_own(path, data))

        return self._retried(create)

    def _is_own(self, path: str, data: bytes) -> bool:
        """Whether an earlier try created the file although its answer was lost."""
        if not data:
            # It could be any caller's.
            return False
        try:
            return self._storage.read(path) == data
        except MissingFileError:
            return False

    def why_not_exclusive(self) -> str:
        return self._storage.why_not_exclusive()

    def read(self, path: str) -> bytes:
        return self._retried(lambda: self._storage.read(path))

    def read_file(self, handle: FileHandle) -> bytes:
        return self._retried(lambda: self._storage.read_file(handle))

    def open_file(self, handle: FileHandle) -> BinaryIO:
        return self._retried(lambda: self._storage.open_file(handle))

    def list_files(self, prefix: str) -> list[str]:
        return self._retried(lambda: self._storage.list_files(prefix))

    def list_unfinished(self, prefix: str) -> list[str]:
        return self._retried(lambda: self._storage.list_unfinished(prefix))

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._delete(path)

    def _delete(self, path: str) -> None:
        self._retried(lambda: self._storage.delete([path]))

    def delete_all(self) -> None:
        self._retried(self._storage.delete_all)

    def sub(self, prefix: str) -> CheckpointStorage:
        return RetryingStorage(self._storage.sub(prefix), self._policy, self._clock)

    def _retried(self, work: Callable[[], _Result]) -> _Result:
        started_ms = self._clock.now_ms()
        failures = 0
        while True:
            try:
                return work()
            except TransientStorageError as error:
                failures += 1
                elapsed_ms = self._clock.now_ms() - started_ms
                delay_ms = self._policy.delay_ms(failures, elapsed_ms, self._clock.fraction())
                if delay_ms is None:
                    tries = "1 time" if failures == 1 else f"{failures} times"
                    raise CheckpointStorageError(
                        f"{error} (tried {tries} within {elapsed_ms / 1_000:.1f} s)"
                    ) from error
            self._clock.pause(delay_ms)
