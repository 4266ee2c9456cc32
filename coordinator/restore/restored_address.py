"""Explains why a checkpoint to start from is not found: a local path can differ between machines."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ...common.errors import CheckpointNotFoundError


@contextmanager
def looked_for(path: str, by: str) -> Iterator[None]:
    """While this is open, an error that a local path does not exist names the machine that was asked.

    Args:
        path: The checkpoint, or `latest:` and a directory.
        by: The process that looks for it: `driver` or `coordinator`.

    Raises:
        CheckpointNotFoundError: As raised inside, with the machine and the remedy.
    """
    try:
        yield
    except CheckpointNotFoundError as error:
        if "://" in path:
            raise
        where = f"The {by} looked for it on host {socket.gethostname()}"
        raise CheckpointNotFoundError(
            f"{str(error).rstrip('.')}. {where}. A local path must name the same directory for the driver "
            f"and on all nodes: use a shared file system, or a URL such as s3://…"
        ) from error
