"""What can go wrong with files, as one clear error."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ...common.errors import TidegateError

_ADVICE = {
    errno.ENOSPC: "free some space there; nothing that was committed is lost",
    errno.EDQUOT: "raise the quota or free some space; nothing that was committed is lost",
    errno.EACCES: "give the user of the job write permission there",
    errno.EPERM: "give the user of the job write permission there",
    errno.EROFS: "the file system is read-only; choose another directory",
    errno.ENOTDIR: "part of the path is a file; choose another directory",
    errno.EEXIST: "the path is a file; choose another directory",
}


class FileConnectorError(TidegateError):
    """A file could not be read or written. The cause is chained; the message names it and the operator."""


@contextmanager
def file_errors(where: str, action: str, path: str) -> Iterator[None]:
    """Turn an `OSError` inside into a `FileConnectorError`.

    Args:
        where: The operator and subtask, as `operator name (1/2)`.
        action: What is being done, as `writing`.
        path: The file or directory.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        advice = _ADVICE.get(error.errno or 0)
        hint = f"; {advice}" if advice is not None else ""
        raise FileConnectorError(f"{where}: {action} {path} failed: {reason}{hint}") from error
