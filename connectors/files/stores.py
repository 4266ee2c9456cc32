"""Where the file sink writes: directories with rename, and object stores without.

A staged file becomes visible by one atomic step: a rename in a directory; in an object store a copy that the
store makes by itself, which is there in whole or not at all. See ADR 029.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ...common import failpoints
from .errors import FileConnectorError, file_errors
from .location import Location
from .parts import STAGING, StagedFile


class StagedStream(io.RawIOBase):
    """A file being written below staging.

    Attributes:
        size_bytes: How many bytes were written.
    """

    def __init__(self, stream: Any, path: str, is_local: bool) -> None:
        self._stream = stream
        self.path = path
        self._is_local = is_local
        self._is_discarded = False
        self.size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        size_bytes = view.nbytes
        while len(view) and not self._is_discarded:
            # A raw file may take less than it was offered.
            taken = self._stream.write(view)
            view = view[len(view) if taken is None else taken :]
        self.size_bytes += size_bytes
        return size_bytes

    def flush(self) -> None:
        """Nothing waits here: `make_durable` is what counts."""

    def make_durable(self) -> None:
        """End the file; a crash does not lose it any more, once its directory is synchronised."""
        if self._is_local:
            os.fsync(self._stream.fileno())
        self._stream.close()

    def discard(self) -> None:
        """Take no more bytes: a format that must write an end to be closed can do so on a full disk."""
        self._is_discarded = True

    def let_go(self) -> None:
        """Close what was discarded."""
        self._stream.close()


class Store(ABC):
    """A directory in some file system, with its staging area."""

    def __init__(self, location: Location) -> None:
        self.directory = location.path
        self.staging = f"{location.path}/{STAGING}"

    @abstractmethod
    def prepare(self) -> None:
        """Make the staging area."""

    @abstractmethod
    def create(self, name: str) -> StagedStream:
        """Begin a file in staging."""

    @abstractmethod
    def synchronise(self) -> None:
        """Make the names of staged files durable."""

    @abstractmethod
    def publish_all(self, staged: Sequence[StagedFile], where: str) -> None:
        """Show files; those that were shown already are left alone.

        Files of a restored checkpoint appear in the directory that they were written for, which may not be
        this sink's: they belong to the output of that time.

        Raises:
            FileConnectorError: A file is neither staged nor at its final path, or cannot be shown.
        """

    def _lost(self, file: StagedFile, where: str, reason: str = "") -> FileConnectorError:
        """The error for a file that is neither staged nor at its final path."""
        elsewhere = (
            f" It belongs to a checkpoint of a sink that wrote to {file.directory}; this sink writes to "
            f"{self.directory}, and such files are committed where they were written: the earlier directory "
            f"must exist at its path, on the same file system as the new one."
            if file.directory != self.directory
            else ""
        )
        return FileConnectorError(
            f"{where}: {file.final_path} cannot be committed: it does not exist, and its staged file "
            f"{file.staged_path} is gone{reason and f' ({reason})'}.{elsewhere} Put the file back at either "
            f"path, or its records are lost"
        )

    @abstractmethod
    def remove(self, path: str) -> None:
        """Delete a file that may be gone already."""

    @abstractmethod
    def staged_names(self) -> list[str]:
        """Names of the files in staging."""


def open_store(location: Location) -> Store:
    """The store for a location."""
    return DirectoryStore(location) if location.is_local else RemoteStore(location)


class DirectoryStore(Store):
    """A directory of the operating system."""

    def prepare(self) -> None:
        os.makedirs(self.staging, exist_ok=True)

    def create(self, name: str) -> StagedStream:
        path = f"{self.staging}/{name}"
        return StagedStream(io.FileIO(path, "wb"), path, is_local=True)

    def synchronise(self) -> None:
        _sync(self.staging)

    def publish_all(self, staged: Sequence[StagedFile], where: str) -> None:
        directories: dict[str, None] = {}
        for number, file in enumerate(staged):
            if number:
                failpoints.reach("commit_mid")
            with file_errors(where, "committing", file.final_path):
                directory = os.path.dirname(file.final_path)
                if file.directory and not os.path.isdir(file.directory):
                    raise self._lost(file, where)
                if directory not in directories:
                    directories.update(_made(directory, file.directory or directory))
                try:
                    os.rename(file.staged_path, file.final_path)
                except FileNotFoundError:
                    # Committed before the failure, or just now by a task of an attempt that is being fenced.
                    if not os.path.exists(file.final_path):
                        raise self._lost(file, where) from None
        for directory in directories:
            with file_errors(where, "committing in", directory):
                _sync(directory)

    def remove(self, path: str) -> None:
        try:
            os.remove(path)
        except FileNotFoundError:
            return

    def staged_names(self) -> list[str]:
        return os.listdir(self.staging)


class RemoteStore(Store):
    """A file system of pyarrow: S3, Google Cloud Storage, Azure, HDFS, or one of fsspec."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self._file_system = location.file_system
        self._has_rename = isinstance(location.file_system, fs.HadoopFileSystem)

    def prepare(self) -> None:
        if self._has_rename:
            self._file_system.create_dir(self.staging)

    def create(self, name: str) -> StagedStream:
        path = f"{self.staging}/{name}"
        return StagedStream(self._file_system.open_output_stream(path), path, is_local=False)

    def synchronise(self) -> None:
        """An object is durable when its upload has ended."""

    def publish_all(self, staged: Sequence[StagedFile], where: str) -> None:
        for number, file in enumerate(staged):
            if number:
                failpoints.reach("commit_mid")
            with file_errors(where, "committing", file.final_path):
                self._publish(file, where)

    def _publish(self, file: StagedFile, where: str) -> None:
        try:
            found = self._file_system.get_file_info([file.staged_path, file.final_path])
        except pa.ArrowInvalid as error:
            # The paths are those of another kind of file system.
            raise self._lost(file, where, str(error)) from error
        is_staged, is_final = (info.type is fs.FileType.File for info in found)
        if not is_staged:
            if not is_final:
                raise self._lost(file, where)
            return
        if self._has_rename:
            self._file_system.create_dir(file.final_path.rpartition("/")[0])
            self._file_system.move(file.staged_path, file.final_path)
            return
        # The second time it puts the same bytes there again.
        self._file_system.copy_file(file.staged_path, file.final_path)
        self.remove(file.staged_path)

    def remove(self, path: str) -> None:
        try:
            self._file_system.delete_file(path)
        except FileNotFoundError:
            return

    def staged_names(self) -> list[str]:
        selector = fs.FileSelector(self.staging, allow_not_found=True)
        return [info.base_name for info in self._file_system.get_file_info(selector)]


def _made(directory: str, top: str) -> dict[str, None]:
    """Make a directory of a bucket; it and those above it up to `top`, whose names are to become durable."""
    os.makedirs(directory, exist_ok=True)
    above = (str(parent) for parent in PurePosixPath(directory).parents if parent.is_relative_to(top))
    return dict.fromkeys((directory, *above))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
