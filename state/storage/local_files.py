"""Files below a directory of the operating system: regular ones only, and never through a symbolic link.

No job puts a link, a device or a named pipe into a checkpoint's directory. Following a link would read or
delete what belongs to others, and a device or a pipe may never end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from ...common.errors import CorruptCheckpointError

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# Opening a named pipe would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK = "a symbolic link"


def open_regular(root: str, path: str) -> int:
    """Open a file for reading.

    Args:
        root: A directory, which may be reached through links.
        path: Of the file, relative to `root`, as `stored_path_problem` accepts it.

    Returns:
        A file descriptor, which the caller closes.

    Raises:
        CorruptCheckpointError: It is not a regular file, or a link leads to it.
        OSError: It does not exist, or cannot be opened.
    """
    with _parent(root, path) as (directory, name):
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise _irregular(f"{root}/{path}", _LINK)
        descriptor = os.open(name, _FILE, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _irregular(f"{root}/{path}", "a directory, a device or a pipe")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unlink(root: str, path: str) -> None:
    """Delete a file, or the link that is in its place.

    Raises:
        CorruptCheckpointError: A link leads to its directory.
        OSError: It does not exist, or cannot be deleted.
    """
    with _parent(root, path) as (directory, name):
        os.unlink(name, dir_fd=directory)


def regular_files(root: str, prefix: str) -> Iterator[str]:
    """The paths of all regular files below the directory `prefix` of `root`, relative to `root`.

    Raises:
        OSError: The directory cannot be listed. One that does not exist holds no files.
    """
    parts = prefix.strip("/").split("/") if prefix.strip("/") else []
    above = ["/".join([root, *parts[:count]]) for count in range(1, len(parts) + 1)]
    if any(map(os.path.islink, above)):
        return
    waiting = ["/".join(parts)]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(f"{root}/{directory}") as entries:
                found = list(entries)
        except FileNotFoundError:
            # A directory that becomes empty goes; one that goes while it is listed holds no files.
            continue
        for entry in found:
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path


@contextmanager
def _parent(root: str, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the directory that a file is in, reached without links; and the file's name there."""
    *directories, name = path.split("/")
    descriptor = os.open(root, _DIRECTORY)
    try:
        for part in directories:
            try:
                below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            except NotADirectoryError:
                if stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    raise _irregular(f"{root}/{path}", f"reached through {_LINK}, {part!r}") from None
                raise
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


def _irregular(path: str, what: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"checkpoint file {path!r} is {what}. Only regular files in the checkpoint's own directories are "
        f"read; put a copy of the file in its place, or restore another checkpoint or savepoint"
    )
