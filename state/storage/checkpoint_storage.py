"""Checkpoint storage: the six operations that checkpoints need, and what each guarantees."""

from __future__ import annotations

import hashlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import BinaryIO

from ...common.errors import CheckpointStorageError, ConfigurationError, CorruptCheckpointError
from ...common.secrets import masked_text
from ...protocol.checkpoints.handles import FileHandle
from ...protocol.checkpoints.manifest import MAX_MANIFEST_BYTES
from ...protocol.checkpoints.stored_path import stored_path_problem

MAX_READ_BYTES = MAX_MANIFEST_BYTES
"""Of a file that is read without a handle. No other such file is as large as a manifest."""


class CheckpointStorage(ABC):
    """A directory of immutable files, local or remote.

    Paths are relative to the root, with `/` between parts. Guarantees of every implementation:

    * a file is never visible half-written: readers see the whole file or none;
    * a file that was written or created survives a power failure, unless the storage was opened without that;
    * `create_exclusive` succeeds for exactly one of several callers with one path, unless
      `why_not_exclusive` says otherwise;
    * reading by handle verifies length and SHA-256, so damage is an error and never data;
    * no path leads out of the root: it has one spelling and no `..`, and on local file systems only regular
      files count and no link is followed;
    * a read is bounded, by the handle's length or by `MAX_READ_BYTES`;
    * instances may be pickled and used from several threads at once.

    Every failure is a `CheckpointStorageError` that names the path and a remedy.
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """Address of the root; `open_storage(uri)` opens the same place again."""

    @abstractmethod
    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        """Store `data` under `path`, replacing any older file there, and return its handle."""

    @abstractmethod
    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Store `data` under `path` unless the path exists; return whether this call created it.

        Where the answer to a first try is lost, a retry finds the file. It then counts as created by this
        call if its content is `data`. So `data` must be empty, or such that no other caller creates the same.
        """

    def why_not_exclusive(self) -> str:
        """Why two callers at the same time may both create one file; an empty text if they cannot."""
        return ""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Content of the file under `path`, up to `MAX_READ_BYTES`.

        Raises:
            CheckpointStorageError: when there is none, or it is larger.
        """

    @abstractmethod
    def read_file(self, handle: FileHandle) -> bytes:
        """Content of a file, verified; that of an inline one is in its handle.

        `handle.root` may name another directory: the file is of another job's checkpoint.

        Raises:
            CorruptCheckpointError: when it is missing, or length or SHA-256 differ from the handle's.
        """

    def open_file(self, handle: FileHandle) -> BinaryIO:
        """A stored file for random access, for readers that want little of it; to be closed.

        Verifies the length, but perhaps not the SHA-256: that would read everything.

        Raises:
            CorruptCheckpointError: when it is missing, or its length differs from the handle's.
        """
        return io.BytesIO(self.read_file(handle))

    @abstractmethod
    def list_files(self, prefix: str) -> list[str]:
        """Sorted paths of all files below the directory `prefix` (`""` is the root)."""

    def list_unfinished(self, prefix: str) -> list[str]:
        """What writers that died have left half-written below `prefix`, and writers at work have now.

        No other method shows these files but `delete`, which removes them.
        """
        return []

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Remove files. A missing file is no error, nor one that somebody else deletes at the same time;
        absolute URIs are refused, never deleted. Directories that become empty go too."""

    def delete_all(self) -> None:
        """Remove everything below the root, and the root itself where there are directories."""
        self.delete(self.list_files(""))

    @property
    def unretried(self) -> CheckpointStorage:
        """The same storage, for callers that must not wait for retries."""
        return self

    @abstractmethod
    def sub(self, prefix: str) -> CheckpointStorage:
        """The storage rooted at the directory `prefix` of this one."""


_SCHEMES: dict[str, Callable[[str], CheckpointStorage]] = {}
_FILE_SYSTEMS: list[Callable[[str, bool], CheckpointStorage]] = []
"""What opens addresses of other schemes: one function, which `storage_kinds` registers."""


def register_scheme(scheme: str, open_path: Callable[[str], CheckpointStorage]) -> None:
    """Let `open_storage` open addresses `<scheme>://<path>` in this process.

    Args:
        scheme: Of the addresses; one that is registered already is replaced.
        open_path: Takes what follows `://`.
    """
    _SCHEMES[scheme] = open_path


def register_file_systems(open_uri: Callable[[str, bool], CheckpointStorage]) -> None:
    """Let `open_storage` open addresses of all schemes that are not registered.

    Args:
        open_uri: Takes the arguments of `open_storage`.
    """
    _FILE_SYSTEMS[:] = [open_uri]


def open_storage(uri: str, is_synced: bool = True) -> CheckpointStorage:
    """Open the checkpoint storage at `uri`.

    Args:
        uri: a local path, `file://…`, `s3://…`, `gs://…`, `hdfs://…`, or any other URL that an
            installed fsspec file system knows; `memory://name` is shared within this process. What
            `register_scheme` was told of comes first.
        is_synced: Whether files on disks of this machine must survive a power failure once they are written.

    Raises:
        CheckpointStorageError: when no file system for the URI is available.
    """
    scheme, separator, path = uri.partition("://")
    if separator and scheme in _SCHEMES:
        return _SCHEMES[scheme](path)
    return _FILE_SYSTEMS[0](uri, is_synced)


def check_exclusive(storage: CheckpointStorage, existing: str) -> None:
    """Raise `ConfigurationError` unless only one of several coordinators can create a file.

    Args:
        storage: Of a job.
        existing: The path of a file in it.
    """
    reason = storage.why_not_exclusive()
    if not reason and storage.create_exclusive(existing, b"checks that an existing file is not replaced"):
        reason = "it ignores the condition of a write and replaces a file that exists"
    if reason:
        raise ConfigurationError(
            f"execution.checkpointing.dir {masked_text(storage.uri)} cannot be used for exactly-once: two "
            f"coordinators of one job could both commit. Reason: {reason}. Use another storage, or set "
            f"execution.checkpointing.mode to AT_LEAST_ONCE"
        )


def is_absolute(path: str) -> bool:
    """Whether a handle's path names a file outside the storage that reads it."""
    return "://" in path or path.startswith("/")


def absolute_address(path: str) -> str:
    """The address of a directory for other processes, which have other working directories.

    Args:
        path: A URL or a local path. A relative path starts from the working directory of this process.
    """
    return path if is_absolute(path) else os.path.abspath(os.path.expanduser(path))


def checked_relative(path: str) -> str:
    """A path below the root; any other is refused.

    Raises:
        CheckpointStorageError: `path` is absolute, an address, or leads elsewhere in another way.
    """
    problem = stored_path_problem(path)
    if problem is not None:
        raise CheckpointStorageError(
            f"{path[:200]!r} is no path in checkpoint storage: {problem}. Files of another job's checkpoint "
            f"are never written or deleted from here"
        )
    return path


def check_readable_size(path: str, size_bytes: int) -> None:
    """Raise `CheckpointStorageError` for a file that is too large to be read as a whole."""
    if size_bytes > MAX_READ_BYTES:
        raise CheckpointStorageError(
            f"checkpoint file {path!r} has {size_bytes} bytes; no such file has more than {MAX_READ_BYTES}"
        )


class MissingFileError(CheckpointStorageError):
    """There is no file under the path."""


class TransientStorageError(CheckpointStorageError):
    """An operation failed, but the same one may succeed a moment later.

    After one of `create_exclusive` the file may exist or not.
    """


def read_verified(storage: CheckpointStorage, handle: FileHandle) -> bytes:
    """Content of a stored file, as `CheckpointStorage.read_file` promises it.

    A manifest is written after the files it names, so one that is not there is damage like any other:
    trying again would not bring it back.
    """
    if handle.data is not None:
        return verified(handle, handle.data, "")
    if handle.root:
        return open_storage(handle.root).read_file(handle.relative())
    try:
        data = storage.read(handle.path)
    except MissingFileError as error:
        raise missing_file(handle, storage.uri) from error
    return verified(handle, data, storage.uri)


def read_restored(storage: CheckpointStorage | None, handle: FileHandle) -> bytes:
    """Content of a file that state is restored from, verified.

    Args:
        storage: The job's own, `None` for a job that takes no checkpoints. Such a one can only be restored
            from what another job stored, whose handles say where it is.
        handle: The file.

    Raises:
        CorruptCheckpointError: It is missing, or length or SHA-256 differ from the handle's.
    """
    if storage is None and handle.data is not None:
        return verified(handle, handle.data, "")
    return (storage or open_storage(handle.root)).read_file(handle)


def _named(handle: FileHandle, uri: str) -> str:
    """Where a file is, as its owner can look for it."""
    if handle.is_inline:
        return f"{handle.path!r} in its checkpoint's manifest"
    return repr(f"{uri.rstrip('/')}/{handle.path}")


def missing_file(handle: FileHandle, uri: str) -> CorruptCheckpointError:
    """The error for a file that a manifest names and that is not there."""
    return CorruptCheckpointError(
        f"checkpoint file {_named(handle, uri)} is missing; restore another checkpoint or savepoint"
    )


def check_length(handle: FileHandle, size_bytes: int, uri: str) -> None:
    """Raise `CorruptCheckpointError` unless a stored file is as long as its handle says."""
    if size_bytes != handle.size_bytes:
        raise CorruptCheckpointError(
            f"checkpoint file {_named(handle, uri)} is damaged: {size_bytes} bytes instead of "
            f"{handle.size_bytes}; restore another checkpoint or savepoint"
        )


def verified(handle: FileHandle, data: bytes, uri: str) -> bytes:
    """`data`, after comparing it with what the handle says.

    Raises:
        CorruptCheckpointError: naming the file, when length or SHA-256 differ.
    """
    check_length(handle, len(data), uri)
    if hashlib.sha256(data).hexdigest() != handle.sha256:
        raise CorruptCheckpointError(
            f"checkpoint file {_named(handle, uri)} is damaged: its SHA-256 does not match; "
            f"restore another checkpoint or savepoint"
        )
    return data
