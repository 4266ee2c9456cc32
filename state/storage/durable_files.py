"""Files that survive a power failure once they are written, and appear as a whole.

A write that has returned may still be in the memory of the operating system, in three parts: the content of
the file, the entry in its directory, and the entries of new directories in theirs. So each write syncs the
content first, then gives the file its name, and then syncs all directories up to the parent of the root.
A manifest is written after the files it names, so it never outlives them.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from ...common.errors import CheckpointStorageError

_NUMBERS = itertools.count()
_TEMPORARY = ".tmp-"
_TRIES = 1_000
"""How often in a row a concurrent deletion may remove a directory that became empty while it was needed."""
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})
"""What file systems answer that cannot sync directories, and need not."""


class Disk(Protocol):
    """What is needed of a file system. Nothing is durable before it is synced. Errors are `OSError`s."""

    def write(self, path: str, data: bytes | memoryview, is_synced: bool) -> None:
        """Write a new file; sync its content if asked to."""

    def replace(self, path: str, name: str) -> None:
        """Give a file another name, which may be in use."""

    def link(self, path: str, name: str) -> None:
        """Give a file a second name; `FileExistsError` if the name is in use."""

    def unlink(self, path: str) -> None:
        """Remove a name."""

    def make_directories(self, path: str) -> None:
        """Make a directory and those above it that are missing."""

    def has_directory(self, path: str) -> bool:
        """Whether there is a directory of this name."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable. One that is gone needs no sync."""


class LocalDisk:
    """The file systems of this machine."""

    def write(self, path: str, data: bytes | memoryview, is_synced: bool) -> None:
        with open(path, "wb") as stream:
            try:
                stream.write(data)
                stream.flush()
                if is_synced:
                    _sync(stream.fileno(), path)
            except (OSError, CheckpointStorageError):
                os.unlink(path)
                raise

    def replace(self, path: str, name: str) -> None:
        os.replace(path, name)

    def link(self, path: str, name: str) -> None:
        try:
            os.link(path, name)
        except FileExistsError:
            # A network file system repeats a request whose answer was lost, and finds its own link.
            if os.stat(path).st_nlink < 2:
                raise

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def has_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def sync_directory(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, PermissionError):
            # Without the right to read a directory, this process cannot have made names in it either, except
            # in one that others manage.
            return
        try:
            _sync(descriptor, path)
        finally:
            os.close(descriptor)


def _sync(descriptor: int, path: str) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return
        # Not a transient error: after a failed sync, a second one succeeds although data may be lost.
        raise CheckpointStorageError(
            f"{path} could not be synced to disk: {error}; its content may be lost. Check the disk"
        ) from error


class DurableFiles:
    """Writes files below a root.

    Args:
        disk: Where they are.
        root: The directory above all of them.
        is_synced: Whether they must survive a power failure.
    """

    def __init__(self, disk: Disk, root: str, is_synced: bool = True) -> None:
        self._disk = disk
        self._root = root
        self._is_synced = is_synced

    def write(self, path: str, data: bytes | memoryview) -> None:
        """Store `data` under `path`, replacing any older file there."""
        temporary, made = self._write_temporary(path, data)
        self._disk.replace(temporary, path)
        self._sync_directories(path, made)

    def create(self, path: str, data: bytes | memoryview) -> bool:
        """Store `data` under `path` unless there is a file; return whether this call created it."""
        temporary, made = self._write_temporary(path, data)
        try:
            self._disk.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            self._disk.unlink(temporary)
        self._sync_directories(path, made)
        return True

    def _write_temporary(self, path: str, data: bytes | memoryview) -> tuple[str, list[str]]:
        temporary = temporary_name(path)
        made: list[str] = []
        for _ in range(_TRIES):
            try:
                self._disk.write(temporary, data, self._is_synced)
                return temporary, made
            except FileNotFoundError:
                made += [each for each in _above(path, "") if not self._disk.has_directory(each)]
                # It reports that the directory exists when another process removes it in between.
                with suppress(FileNotFoundError, FileExistsError):
                    self._disk.make_directories(os.path.dirname(path))
        self._disk.write(temporary, data, self._is_synced)
        return temporary, made

    def _sync_directories(self, path: str, made: list[str]) -> None:
        if not self._is_synced:
            return
        # All up to the root, not only those made here: another process may have made one and not synced its
        # name yet. The sync of an unchanged directory takes a tenth of a millisecond.
        parents = dict.fromkeys([*_above(path, self._root), os.path.dirname(self._root)])
        parents.update(dict.fromkeys(os.path.dirname(each) for each in made))
        for directory in parents:
            self._disk.sync_directory(directory)


def _above(path: str, root: str) -> Iterator[str]:
    """The directories of a path, the innermost first, up to and including `root`."""
    directory = os.path.dirname(path)
    while directory and len(directory) >= len(root):
        yield directory
        if directory == os.path.dirname(directory):
            return
        directory = os.path.dirname(directory)


def is_temporary(path: str) -> bool:
    """Whether a file is only there until it gets its name."""
    return _TEMPORARY in path.rpartition("/")[2]


def temporary_name(path: str) -> str:
    """A name that no other writer of the same path uses."""
    unique = f"{os.getpid()}-{threading.get_ident()}-{next(_NUMBERS)}"
    return f"{path}{_TEMPORARY}{unique}"
