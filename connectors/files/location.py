"""Where files are: a file system of pyarrow, and paths in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ...common.errors import ConfigurationError

_HIDDEN = (".", "_")
"""So begin files that are not there yet, and what belongs to others: readers of data sets pass over them."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that can be read."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Location:
    """A path in a file system; picklable.

    Attributes:
        path: Without the scheme, as the file system takes it.
        text: As the user wrote it, without credentials.
    """

    file_system: Any
    path: str
    text: str

    @property
    def is_local(self) -> bool:
        """Whether it is a path of the operating system."""
        return isinstance(self.file_system, fs.LocalFileSystem)

    def files(self) -> list[FoundFile]:
        """The file itself, or all files below the directory, sorted by path; hidden ones are left out.

        Raises:
            FileNotFoundError: There is neither.
        """
        info = self.file_system.get_file_info(self.path)
        if info.type is fs.FileType.File:
            return [FoundFile(info.path, info.size)]
        selector = fs.FileSelector(self.path, recursive=True)
        found = [
            FoundFile(info.path, info.size)
            for info in self.file_system.get_file_info(selector)
            if info.type is fs.FileType.File and not _is_hidden(info.path[len(self.path) :])
        ]
        return sorted(found, key=lambda file: file.path)


def locate(path: str | os.PathLike[str], file_system: Any = None) -> Location:
    """Find the file system of a path.

    Args:
        path: A path of every node, or a URI such as `s3://bucket/dir?region=eu-west-1`, `gs://…`, `hdfs://…`,
            `abfs://…`, `file:///…`. What may stand behind `?` is in the documentation of pyarrow.
        file_system: A `pyarrow.fs.FileSystem` that the path lies in; then the path has no scheme.

    Raises:
        ConfigurationError: There is no such file system here.
    """
    text = os.fspath(path)
    if file_system is not None:
        if not isinstance(file_system, fs.FileSystem):
            raise ConfigurationError(f"{file_system!r:.200} is not a pyarrow.fs.FileSystem")
        return Location(file_system, text.rstrip("/"), text)
    if "://" not in text:
        absolute = os.path.abspath(text)
        return Location(fs.LocalFileSystem(), absolute, absolute)
    shown = _without_credentials(text)
    try:
        found, inner = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError) as error:
        # The error may repeat the URI with its credentials.
        reason = str(error).replace(text, shown)
        raise ConfigurationError(
            f"{shown} is in no file system that can be reached from here: {reason}; pass a path, a URI such "
            f"as s3://bucket/directory, or file_system="
        ) from None
    return Location(found, inner.rstrip("/"), shown)


def _without_credentials(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in relative.split("/") if part)
