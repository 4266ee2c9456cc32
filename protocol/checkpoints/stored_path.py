"""Which paths a checkpoint may name: those of files in its own directory, in one spelling.

A manifest comes from storage, and what it names is opened and, when a checkpoint is removed, deleted. So a
path in it never leads anywhere else: no address, nothing absolute, no `..`, and no second spelling of a path.
"""

from __future__ import annotations

from urllib.parse import unquote

MAX_STORED_PATH = 4_096
"""Characters of a path; as `PATH_MAX` of Linux. Object stores allow fewer."""

SHARED = "shared/"
"""Where a job keeps the files of state that its checkpoints share."""

_SCHEMES = frozenset({"abfs", "abfss", "file", "gcs", "gs", "hdfs", "memory", "s3", "viewfs"})


def stored_path_problem(path: str) -> str | None:
    """Why `path` cannot be that of a file in the directory of a checkpoint or a job.

    Args:
        path: As a manifest, or a caller of checkpoint storage, names it.

    Returns:
        The reason, for an error message; `None` for a path in order.
    """
    if not path:
        return "it is empty"
    if len(path) > MAX_STORED_PATH:
        return f"it has {len(path)} characters, more than {MAX_STORED_PATH}"
    if not path.isprintable():
        return "it holds control characters"
    if "://" in path or "::" in path:
        return "it is an address of another file system"
    if "\\" in path:
        return "it holds a backslash"
    if path.startswith("/"):
        return "it is absolute"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it is not a plain path below the directory"
    return None


def state_file_problem(path: str, is_savepoint: bool) -> str | None:
    """Why a manifest cannot name `path` as a file of state.

    Args:
        path: As the manifest names it.
        is_savepoint: Whether it is a savepoint, whose files are all its own. The files of a checkpoint are in
            the job's `shared` directory; others of the job are no state, and must not be read or deleted as
            such.

    Returns:
        The reason, for an error message; `None` for a path in order.
    """
    problem = stored_path_problem(path)
    if problem is None and not is_savepoint and not path.startswith(SHARED):
        return f"files of a checkpoint are below {SHARED}"
    return problem


def address_problem(address: str) -> str | None:
    """Why a stored document cannot name `address` as the directory of a checkpoint.

    Addresses that a user gives need no such check. A document says where its job kept its checkpoints, and
    opening that must not send requests anywhere else.

    Args:
        address: A local path, or the URL of a file system that keeps checkpoints.

    Returns:
        The reason, for an error message; `None` for an address in order.
    """
    scheme, separator, path = address.partition("://")
    if not separator:
        scheme, path = "file", address
    if scheme not in _SCHEMES:
        return "no checkpoints are kept in such a file system"
    if len(address) > MAX_STORED_PATH or not address.isprintable():
        return "it is too long, or holds control characters"
    if separator:
        # Those who open an address unquote its path, and take what follows ? as settings of the file system.
        path = unquote(path)
        if "?" in path or "#" in path:
            return "it holds more than a path"
    if "::" in address or "://" in path:
        return "it is a chain of file systems"
    if scheme == "file" and not path.startswith("/"):
        return "it is not absolute"
    if ".." in path.split("/"):
        return "it holds .."
    return None
