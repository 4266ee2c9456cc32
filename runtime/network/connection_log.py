"""What goes wrong with connections and is not the failure of a link: one line in the log, not thousands."""

from __future__ import annotations

import errno
import logging

logger = logging.getLogger(__name__)

INTERVAL_MS = 10_000
"""Between two warnings about the same matter."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_SCARCE = (*_EXHAUSTED, errno.ENOBUFS, errno.ENOMEM)


def is_exhausted(error: OSError) -> bool:
    """Whether the process or the machine has no descriptor or memory left for another connection."""
    return error.errno in _SCARCE


def explained(error: OSError) -> str:
    """An error of the operating system, with what to do where that is known."""
    if error.errno in _EXHAUSTED:
        whose = "this process" if error.errno == errno.EMFILE else "this machine"
        return f"{whose} has too many open files. Raise the limit (ulimit -n) where Ray starts on this node"
    return str(error)


class ConnectionLog:
    """Logs warnings, and how many of the same kind it left out."""

    def __init__(self) -> None:
        self._quiet_until_ms: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def refused(self, where: str, cause: str, now_ms: int) -> None:
        """A connection that another process opened was closed before it proved who it is.

        Args:
            where: Where it came from.
            cause: Why it was closed.
            now_ms: The time in milliseconds.
        """
        self._warn(
            "refused",
            f"closed a connection from {where} to a task process: {cause}. If that is no process of this "
            "job, keep it away from this port, for example with a network policy",
            now_ms,
        )

    def cannot_accept(self, error: OSError, now_ms: int) -> None:
        """No connection can be accepted now.

        Args:
            error: Why.
            now_ms: The time in milliseconds.
        """
        self._warn("accept", f"connections of other task processes wait: {explained(error)}", now_ms)

    def _warn(self, kind: str, message: str, now_ms: int) -> None:
        if now_ms < self._quiet_until_ms.get(kind, now_ms):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._quiet_until_ms[kind] = now_ms + INTERVAL_MS
        left_out = self._left_out.pop(kind, 0)
        logger.warning("%s%s", message, f" ({left_out} more were not logged)" if left_out else "")
