"""Checkpoint storage on any file system that pyarrow or fsspec can reach."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

import pyarrow as pa
from pyarrow import fs

from ...common import failpoints
from ...common.errors import CheckpointStorageError, CorruptCheckpointError
from ...protocol.checkpoints.handles import FileHandle
from ...protocol.checkpoints.storage_retries import is_transient
from . import local_files
from .checkpoint_storage import (
    CheckpointStorage,
    MissingFileError,
    TransientStorageError,
    check_length,
    check_readable_size,
    checked_relative,
    missing_file,
    open_storage,
    read_verified,
    verified,
)
from .conditional_writes import NoConditionalWritesError, create_file
from .durable_files import DurableFiles, LocalDisk, is_temporary, temporary_name

_TRIES = 1_000
"""How often in a row a directory may be removed while it is listed."""


def resolve(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI and the path in it.

    Raises:
        CheckpointStorageError: when nothing installed here can open the URI.
    """
    if "://" not in uri:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(uri))
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
        return filesystem, path
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        pass  # not a scheme that pyarrow knows: fsspec has the last word
    except OSError as error:
        raise storage_error(uri, error) from error
    # Here and not above: few jobs need it, and it takes 0.05 s of each process's start.
    import fsspec

    try:
        through_fsspec, path = fsspec.core.url_to_fs(uri)
    except (ValueError, ImportError) as error:
        raise CheckpointStorageError(
            f"no file system for checkpoint storage {uri!r}: {error}; use a local path, file://, "
            f"s3://, gs:// or hdfs://, or install the fsspec package of this scheme"
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(through_fsspec)), path


class FileSystemCheckpointStorage(CheckpointStorage):
    """Files below the directory `uri`.

    `create_exclusive` is atomic on local file systems (a hard link) and on stores with conditional writes.
    Others, which `why_not_exclusive` names, are asked first and written then.

    Args:
        uri: Of the directory.
        is_synced: Whether files in local file systems must survive a power failure once they are written.
    """

    def __init__(self, uri: str, is_synced: bool = True) -> None:
        self._is_synced = is_synced
        self._uri = uri.rstrip("/") or "/"
        self._fs, self._root = resolve(self._uri)
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)
        if self._is_local and "://" not in self._uri:
            self._uri = self._root
        self._local = DurableFiles(LocalDisk(), self._root, is_synced)

    def __reduce__(self) -> tuple[type[FileSystemCheckpointStorage], tuple[str, bool]]:
        return FileSystemCheckpointStorage, (self._uri, self._is_synced)

    @property
    def uri(self) -> str:
        return self._uri

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        full = self._full(checked_relative(path))
        with _clear_errors(full):
            written = failpoints.passing("upload", data)
            if self._is_local:
                self._local.write(full, written)
            else:
                self._write_remote(full, written)
        return FileHandle(path, len(data), hashlib.sha256(data).hexdigest())

    def create_exclusive(self, path: str, data: bytes) -> bool:
        full = self._full(checked_relative(path))
        with _clear_errors(full):
            if self._is_local:
                return self._local.create(full, data)
            if not self.why_not_exclusive():
                return create_file(self._fs, self._uri)(full, data)
            if self._fs.get_file_info(full).type != fs.FileType.NotFound:
                return False
            self._write_remote(full, data)
            return True

    def why_not_exclusive(self) -> str:
        if self._is_local:
            return ""
        try:
            create_file(self._fs, self._uri)
        except NoConditionalWritesError as error:
            return str(error)
        return ""

    def read(self, path: str) -> bytes:
        full = self._full(checked_relative(path))
        with _clear_errors(full), self._opened(path) as file:
            size_bytes = file.size()
            check_readable_size(full, size_bytes)
            data: bytes = file.read(size_bytes)
            return data

    def read_file(self, handle: FileHandle) -> bytes:
        if handle.is_inline or handle.root:
            return read_verified(self, handle)
        with closing(self.open_file(handle)) as file, _clear_errors(self._full(handle.path)):
            data = file.read(handle.size_bytes)
        return verified(handle, data, self._uri)

    def open_file(self, handle: FileHandle) -> BinaryIO:
        if handle.is_inline:
            return super().open_file(handle)
        if handle.root:
            return open_storage(handle.root).open_file(handle.relative())
        full = self._full(checked_relative(handle.path))
        try:
            with _clear_errors(full):
                file = self._opened(handle.path)
                size_bytes = file.size()
        except MissingFileError as error:
            raise missing_file(handle, self._uri) from error
        check_length(handle, size_bytes, self._uri)
        opened: BinaryIO = file
        return opened

    def _opened(self, path: str) -> pa.NativeFile:
        if not self._is_local:
            return self._fs.open_input_file(self._full(path))
        descriptor = local_files.open_regular(self._root, path)
        try:
            # pyarrow opens paths only; this one is the file that was checked, whatever is in its place now.
            return pa.OSFile(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def list_files(self, prefix: str) -> list[str]:
        return [path for path in self._list(prefix) if not is_temporary(path)]

    def list_unfinished(self, prefix: str) -> list[str]:
        return [path for path in self._list(prefix) if is_temporary(path)]

    def _list(self, prefix: str) -> list[str]:
        below = self._full(prefix) if prefix else self._root
        if self._is_local:
            with _clear_errors(below):
                return sorted(local_files.regular_files(self._root, prefix))
        selector = fs.FileSelector(below, allow_not_found=True, recursive=True)
        with _clear_errors(below):
            infos = self._infos(selector)
        start = len(self._root.rstrip("/")) + 1
        return sorted(info.path[start:] for info in infos if info.type == fs.FileType.File)

    def _infos(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        for _ in range(_TRIES):
            # A directory that becomes empty goes; one that goes while it is listed holds no files.
            with suppress(FileNotFoundError):
                return list(self._fs.get_file_info(selector))
        return list(self._fs.get_file_info(selector))

    def delete(self, paths: Iterable[str]) -> None:
        for path in [checked_relative(path) for path in paths]:
            with _clear_errors(self._full(path)):
                self._delete(path)

    def _delete(self, path: str) -> None:
        """Somebody else may delete it at the same time: gone is gone."""
        full = self._full(path)
        if not self._is_local:
            if self._fs.get_file_info(full).type != fs.FileType.NotFound:
                with suppress(FileNotFoundError):
                    self._fs.delete_file(full)
            return
        try:
            local_files.unlink(self._root, path)
        except CorruptCheckpointError:
            # A link leads there: no file of this storage has the path.
            return
        except (FileNotFoundError, NotADirectoryError):
            pass
        # A job makes a directory for every checkpoint; in the long run they would use up the disk's inodes.
        directory = os.path.dirname(full)
        with suppress(OSError):
            while len(directory) > len(self._root):
                os.rmdir(directory)
                directory = os.path.dirname(directory)

    def delete_all(self) -> None:
        with _clear_errors(self._root):
            if self._fs.get_file_info(self._root).type == fs.FileType.Directory:
                self._fs.delete_dir(self._root)

    def sub(self, prefix: str) -> CheckpointStorage:
        return FileSystemCheckpointStorage(f"{self._uri}/{prefix}", self._is_synced)

    def _full(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"

    def _write_remote(self, full: str, data: bytes | memoryview) -> None:
        # An object appears when its upload is complete. Other remote file systems need the rename.
        if isinstance(self._fs, fs.S3FileSystem | fs.GcsFileSystem):
            _write_stream(self._fs, full, data)
            return
        self._fs.create_dir(full.rpartition("/")[0], recursive=True)
        temporary = temporary_name(full)
        _write_stream(self._fs, temporary, data)
        self._fs.move(temporary, full)


def _write_stream(filesystem: fs.FileSystem, path: str, data: bytes | memoryview) -> None:
    with filesystem.open_output_stream(path) as stream:
        stream.write(data)


@contextmanager
def _clear_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise storage_error(path, error) from error


def storage_error(path: str, error: BaseException) -> CheckpointStorageError:
    """What went wrong at `path`, with a remedy."""
    code = getattr(error, "errno", None)
    if code in (errno.ENOSPC, errno.EDQUOT):
        remedy = "the disk is full: free space, or move the checkpoint directory"
    elif code in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "give this user the right to read and write there"
    elif code in (errno.ENOENT, errno.ENOTDIR):
        remedy = "check the checkpoint path"
    else:
        remedy = "check the path, the credentials and that the file system can be reached"
    kind = CheckpointStorageError
    if isinstance(error, FileNotFoundError):
        kind = MissingFileError
    elif is_transient(error) and not isinstance(error, CheckpointStorageError):
        # A fail point is no storage error of the system: it must be seen.
        kind = TransientStorageError
    return kind(f"checkpoint storage failed at {path}: {error}; {remedy}")
