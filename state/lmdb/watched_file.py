"""Notices that the file of a memory map was cut short from outside.

Reading a page of a map that its file no longer has ends the process by SIGBUS, which Python cannot catch.
So its size is compared before each use, in less than a microsecond. A truncation in the moment between the
comparison and the use still ends the process.
"""

from __future__ import annotations

import os

from ...common.errors import CheckpointStorageError


class WatchedFile:
    """An open file that may grow, but never gets shorter.

    Args:
        path: The file, which exists.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        self._most_bytes = os.fstat(self._descriptor).st_size

    def check(self, where: str) -> None:
        """Compare its size with the largest that was seen.

        Args:
            where: Whose file it is, for the error message.

        Raises:
            CheckpointStorageError: It is shorter.
        """
        size = os.fstat(self._descriptor).st_size
        if size > self._most_bytes:
            self._most_bytes = size
        elif size < self._most_bytes:
            raise CheckpointStorageError(
                f"{where}: the file {self._path} of its local state was truncated while it was in use: "
                f"it has {size:,} bytes and had {self._most_bytes:,}. Another program did that, such as a "
                f"cleaner of temporary files: keep it away from that directory, or choose another one with "
                f"tidegate.local-dir. The state is restored from the newest checkpoint"
            )

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)
