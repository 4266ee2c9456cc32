"""Checkpoint storage that fails at random, and reports it when a file is deleted that is still needed."""

from __future__ import annotations

import hashlib
import posixpath
import random
from collections.abc import Callable, Iterable

from ...common.errors import CheckpointStorageError
from ...protocol.checkpoints.handles import FileHandle
from ...protocol.checkpoints.storage_retries import StorageRetryPolicy
from ...state.storage.checkpoint_storage import (
    CheckpointStorage,
    MissingFileError,
    TransientStorageError,
    checked_relative,
    is_absolute,
    read_verified,
    register_scheme,
)
from ...state.storage.durable_files import DurableFiles
from ...state.storage.retrying_storage import RetryingStorage
from .faults.volatile_disk import VolatileDisk
from .simulated_scheduler import MILLISECOND, SimulatedScheduler
from .storage_watcher import SAVEPOINTS, StorageWatcher

ROOT = "simulated://storage"
_LASTING_WRITES = 0.5
_LASTING_READS = 0.05
"""How many failures outlast all retries. Writes fail for more reasons, such as a full disk."""
_RETRIES = StorageRetryPolicy(first_delay_ms=1, most_delay_ms=20)


class _WorldClock:
    """The time of a simulation: waiting for a retry delays everything else."""

    def __init__(self, scheduler: SimulatedScheduler, seeded: random.Random) -> None:
        self._scheduler = scheduler
        self._random = seeded

    def now_ms(self) -> float:
        return self._scheduler.now_ns / MILLISECOND

    def fraction(self) -> float:
        return self._random.random()

    def pause(self, delay_ms: int) -> None:
        self._scheduler.now_ns += delay_ms * MILLISECOND


class SimulatedStorage(CheckpointStorage):
    """In-memory storage of one simulation. `open_storage` opens that of the newest one, with retries.

    Args:
        scheduler: Decides which operations fail.
        failure_probability: Of one try of an operation.
        point: Called before and after each change: the calling process may die there.
        may_fail: Whether the calling process must survive failures that outlast all retries.
    """

    def __init__(
        self,
        scheduler: SimulatedScheduler,
        failure_probability: float,
        point: Callable[[], None],
        may_fail: Callable[[], bool],
    ) -> None:
        self._scheduler = scheduler
        self._failure_probability = failure_probability
        self._point = point
        self._may_fail = may_fail
        self._prefix = ""
        self.disk = VolatileDisk()
        self._files = self.disk.content
        self._durable = DurableFiles(self.disk, "")
        # Its own: the world's other choices do not depend on how often storage is used.
        self._random = random.Random(f"storage of seed {scheduler.seed}")
        self.watcher = StorageWatcher(self._files)
        self.retrying = RetryingStorage(self, _RETRIES, _WorldClock(scheduler, self._random))
        """What jobs use."""
        register_scheme("simulated", lambda path: self.retrying.sub(path.partition("/")[2]))

    @property
    def uri(self) -> str:
        return posixpath.join(ROOT, self._prefix) if self._prefix else ROOT

    def _path(self, path: str) -> str:
        if is_absolute(path):
            return path.removeprefix(f"{ROOT}/")
        return f"{self._prefix}/{path}" if self._prefix else path

    def _fails(self) -> bool:
        return self._scheduler.chance(self._failure_probability)

    def _error(self, problem: str, lasting: float = _LASTING_WRITES) -> CheckpointStorageError:
        is_lasting = self._random.random() < lasting and self._may_fail()
        kind = CheckpointStorageError if is_lasting else TransientStorageError
        return kind(f"{problem} (simulated)")

    def _may_fail_to_read(self, what: str) -> None:
        if self._random.random() < self._failure_probability:
            raise TransientStorageError(f"{what} could not be read (simulated)")

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        self._point()
        content, stored_as = bytes(data), self._path(checked_relative(path))
        if self._fails():
            # A file is there as a whole, or not at all. Those of state may be worse: they have checksums.
            if self._scheduler.chance(0.5) and ("/shared/" in stored_as or stored_as.startswith(SAVEPOINTS)):
                self._durable.write(stored_as, content[: len(content) // 2])
                self.watcher.written(stored_as)
            raise self._error(f"{path} could not be written")
        self._durable.write(stored_as, content)
        self.watcher.written(stored_as)
        self._point()
        return FileHandle(path, len(content), hashlib.sha256(content).hexdigest())

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self._point()
        fails = self._fails()
        if fails and self._scheduler.chance(0.5):
            raise self._error(f"{path} could not be created")
        stored_as = self._path(path)
        is_created = self._durable.create(stored_as, data)
        if is_created:
            self.watcher.written(stored_as)
            self.watcher.created(stored_as)
        if fails:
            raise self._error(f"whether {path} was created is not known")
        self._point()
        return is_created

    def read(self, path: str) -> bytes:
        self._may_fail_to_read(path)
        data = self._files.get(self._path(path))
        if data is None:
            raise MissingFileError(f"there is no file {path!r} in {self.uri}")
        return data

    def read_file(self, handle: FileHandle) -> bytes:
        if handle.root:
            return read_verified(self, handle)
        self.watcher.files_read += 1
        if self._fails():
            raise self._error(f"{handle.path} could not be read", _LASTING_READS)
        return read_verified(self, handle)

    def list_files(self, prefix: str) -> list[str]:
        self._may_fail_to_read(f"the directory {prefix!r}")
        below = self._path(prefix).rstrip("/")
        below = f"{below}/" if below else ""
        start = len(self._prefix) + 1 if self._prefix else 0
        return sorted(path[start:] for path in self._files if path.startswith(below))

    def delete(self, paths: Iterable[str]) -> None:
        self._point()
        for path in paths:
            if self._fails():
                raise self._error(f"{path} could not be deleted")
            stored_as = self._path(checked_relative(path))
            self.watcher.may_be_deleted(stored_as)
            if stored_as in self._files:
                self.disk.unlink(stored_as)
        self._point()

    def sub(self, prefix: str) -> CheckpointStorage:
        storage = SimulatedStorage.__new__(SimulatedStorage)
        storage.__dict__.update(self.__dict__)
        storage._prefix = self._path(prefix).rstrip("/")
        return storage

    # ------------------------------------------------------------ what people do with it

    def move(self, directory: str, to: str) -> None:
        """Move a directory as its owner would: nothing fails, and nobody is asked."""
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            self._durable.write(f"{to}/{path.removeprefix(f'{directory}/')}", self._files[path])
            self.disk.unlink(path)
        self.disk.settle()
        self.watcher.moved(directory, to)

    def lose(self, path: str) -> bytes:
        """Lose a file, of which a copy exists."""
        return self._files.pop(path)

    def restore(self, path: str, content: bytes) -> None:
        """Put a lost file back."""
        self._files[path] = content

    def remove(self, directory: str) -> None:
        """Remove a directory as its owner would."""
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            self.disk.unlink(path)
        self.disk.settle()
        self.watcher.removed(directory)
