"""Whether an operation of checkpoint storage is tried again, and when.

A restore reads hundreds of files, so one lost request in twenty would fail every restore. Only failures
that may pass by themselves are retried: a missing file, a refused permission, a full disk or damaged data
stay what they are.

Source: exponential backoff with jitter, as in the AWS SDKs ("Exponential Backoff And Jitter", 2015).
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

_TRANSIENT_CODES = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EINTR,
        # What a network file system answers while its server is away.
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOBUFS,
        errno.ENOTCONN,
        errno.EPIPE,
        errno.EREMOTEIO,
        errno.ESHUTDOWN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

# Object stores' clients raise errors without a code of the system: what happened is in the text.
_TRANSIENT_TEXT = re.compile(
    r"AWS Error (?:INTERNAL_FAILURE|NETWORK_CONNECTION|REQUEST_EXPIRED|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE"
    r"|SLOW_DOWN|THROTTLING)\b"
    r"|\b(?:UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED)\b"
    r"|HTTP status (?:408|409|425|429|500|502|503|504)\b",
)


def is_transient(error: BaseException) -> bool:
    """Whether an error of a file system or of an object store's client may pass by itself.

    Args:
        error: As the file system raised it.
    """
    if not isinstance(error, Exception):
        return False
    code = getattr(error, "errno", None)
    if code is not None:
        return code in _TRANSIENT_CODES
    if isinstance(error, ConnectionError | TimeoutError | InterruptedError | BlockingIOError):
        return True
    if not isinstance(error, OSError) or type(error) is not OSError:
        return False
    return _TRANSIENT_TEXT.search(str(error)) is not None


def is_transient_status(status: int) -> bool:
    """Whether an object store that answers with this HTTP status may answer otherwise a moment later."""
    return status in _TRANSIENT_STATUS


@dataclass(frozen=True, slots=True)
class StorageRetryPolicy:
    """How often one operation is tried, and how long to wait in between.

    Args:
        tries: The most tries, including the first.
        first_delay_ms: The longest wait after the first failure; it doubles with each further one.
        most_delay_ms: The longest wait.
        most_elapsed_ms: No further try begins later than this after the first one began.
    """

    tries: int = 8
    first_delay_ms: int = 100
    most_delay_ms: int = 2_000
    most_elapsed_ms: int = 20_000

    def delay_ms(self, failures: int, elapsed_ms: float, fraction: float) -> int | None:
        """How long to wait before the next try; `None` to give up.

        Args:
            failures: Failed tries of this operation, at least 1.
            elapsed_ms: Since the first try began.
            fraction: A random number from 0 to 1, so that many subtasks do not retry at the same moment.
        """
        if failures >= self.tries:
            return None
        longest = min(self.most_delay_ms, self.first_delay_ms << (failures - 1))
        delay_ms = max(1, round(longest * (0.5 + fraction / 2)))
        return None if elapsed_ms + delay_ms > self.most_elapsed_ms else delay_ms
