"""Which directories a savepoint may be sent to through the console."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from ...common.errors import ConfigurationError


class TargetRefusedError(ConfigurationError):
    """A savepoint was to go where the console sends none."""


def checked_target(target: str, roots: Iterable[str]) -> str:
    """A directory for savepoints, normalised, if it is one of some directories or below one.

    A local one may be below a root by its name, but not through a link that leads elsewhere.

    Raises:
        TargetRefusedError: It is not, or it is not the address of a directory.
    """
    wanted = _normal(target)
    if wanted is None:
        raise TargetRefusedError(
            "the target directory of a savepoint must be an absolute path, or the URL of a directory without "
            "'..', '%', '?' or '#'"
        )
    allowed = [root for root in map(_normal, roots) if root is not None]
    if not any(_is_below(wanted, root) for root in allowed):
        raise TargetRefusedError(
            "the target directory is outside of those that savepoints may go to: the job's "
            "execution.checkpointing.savepoint-dir, and what the console was started with as --savepoint-root"
        )
    return wanted


def _normal(address: str) -> str | None:
    """An address in the one form in which it can be compared; `None` if there is none."""
    if not address.isprintable() or "\\" in address:
        return None
    if "://" not in address:
        return _normal_path(address)
    parts = urlsplit(address)
    path = _normal_path(parts.path or "/")
    if path is None or parts.query or parts.fragment or set("?#%") & set(address) or "@" in parts.netloc:
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return path
    # Buckets and hosts are not the same in other letters everywhere: compared as they are.
    return f"{parts.scheme.lower()}://{parts.netloc}{path}".rstrip("/")


def _normal_path(path: str) -> str | None:
    if not path.startswith("/") or ".." in unquote(path).split("/"):
        return None
    # POSIX leaves two slashes at the start alone.
    return "/" + posixpath.normpath(path).strip("/")


def _is_below(address: str, root: str) -> bool:
    if not _has_prefix(address, root):
        return False
    is_local = address.startswith("/")
    return not is_local or _has_prefix(os.path.realpath(address), os.path.realpath(root))


def _has_prefix(address: str, root: str) -> bool:
    return address == root or address.startswith(f"{root.rstrip('/')}/")
