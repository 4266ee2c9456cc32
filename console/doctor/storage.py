"""Whether checkpoints can be stored where they are to be stored."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...common.errors import TidegateError
from ...state.storage.checkpoint_storage import CheckpointStorage, open_storage
from ..text import size
from .finding import Finding, Severity, ok

_LITTLE_SPACE_BYTES = 1 << 30
_PROBE = b"tidegate doctor"


def check_storage(check: str, uri: str, is_shared: bool) -> Iterator[Finding]:
    """Write, list, read and delete a file there, as a job would.

    Args:
        check: What the directory is for.
        uri: Of the directory.
        is_shared: Whether processes on other nodes have to find it, too.
    """
    try:
        with without_trace(uri):
            problem = _tried(open_storage(uri))
    except TidegateError as error:
        yield Finding(check, Severity.ERROR, f"{uri}: {error}", "correct the address or the rights")
        return
    if problem:
        yield Finding(
            check, Severity.ERROR, f"{uri}: {problem}", "use a storage that keeps what it was given"
        )
        return
    yield ok(check, f"{uri} can be written, listed, read and emptied")
    path = _local(uri)
    if path is not None:
        yield from _local_findings(check, path, is_shared)


@contextmanager
def without_trace(uri: str) -> Iterator[None]:
    """Remove the local directories that are made for `uri` while this is open, if they are empty again."""
    path = _local(uri)
    above = () if path is None else (path.absolute(), *path.absolute().parents)
    made = [each for each in above if not each.exists()]
    try:
        yield
    finally:
        for each in made:
            with suppress(OSError):
                each.rmdir()


def _tried(storage: CheckpointStorage) -> str:
    """What went otherwise than it should; an empty text if nothing did."""
    path = f"doctor-{uuid.uuid4().hex}/probe"
    try:
        if not storage.create_exclusive(path, _PROBE):
            return "a file that nobody else can know was there already"
        if storage.why_not_exclusive():
            return f"exactly-once jobs cannot use it: {storage.why_not_exclusive()}"
        if storage.create_exclusive(path, b"another content"):
            return "the same file could be created twice, so that nothing fences a lost coordinator"
        if storage.read(path) != _PROBE:
            return "a file had another content than was written"
        if path not in storage.list_files(path.partition("/")[0]):
            return "a file that was written is not listed"
    finally:
        storage.delete([path])
    return "a deleted file is still listed" if storage.list_files(path.partition("/")[0]) else ""


def _local(uri: str) -> Path | None:
    path = uri.removeprefix("file://")
    return None if "://" in path else Path(path)


def _local_findings(check: str, path: Path, is_shared: bool) -> Iterator[Finding]:
    nearest = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    free = shutil.disk_usage(nearest).free
    if free < _LITTLE_SPACE_BYTES:
        yield Finding(
            check, Severity.WARNING, f"{path}: {size(free)} free", "free space, or choose another disk"
        )
    else:
        yield ok(check, f"{size(free)} free")
    if is_shared and not path.is_absolute():
        yield Finding(
            check,
            Severity.ERROR,
            f"{path} is relative: each process would look in its own working directory",
            f"give {path.absolute()}, or a URL",
        )
