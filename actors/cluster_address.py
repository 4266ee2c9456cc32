"""Whether a Ray cluster can be reached, and why not."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from ..common.errors import ClusterUnreachableError

HEAD_AWAY_S = 40
"""How long the head of a cluster may be away: it may be restarted, but Ray ends a driver after 60 seconds."""
MODE = "RAY_AUTH_MODE"
"""The variable that says whether Ray uses a token."""
_CONNECT_TIMEOUT_S = 10


def check_reachable(address: str) -> None:
    """Return if somebody listens at an address, or if that cannot be asked; Ray itself would try for minutes.

    Raises:
        OSError: Nobody listens there.
    """
    host, separator, port = address.rpartition(":")
    if separator and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()


def unreachable(where: str, error: BaseException, remedy: str) -> ClusterUnreachableError:
    """The error for a cluster that Ray could not connect to.

    Args:
        where: Such as "at 10.0.0.1:6379".
        error: What Ray raised.
        remedy: What to do about the address, without a full stop.
    """
    return ClusterUnreachableError(
        f"Cannot reach the Ray cluster {where}: {str(error).strip().rstrip('.')}. {remedy}."
    )


def refused_token(address: str, mode: str | None, has_token: bool) -> ClusterUnreachableError:
    """The error for a cluster that requires another token than it gets.

    Args:
        address: Of the cluster.
        mode: The value of `RAY_AUTH_MODE`.
        has_token: Whether this process has a token.
    """
    head = "of the cluster's head node (`ray get-auth-token` prints it there)"
    if not has_token:
        cause = f"it requires a token, and {token_place()} holds none"
        remedy = f"Copy the token {head} to RAY_AUTH_TOKEN or ~/.ray/auth_token, and set {MODE}=token"
    elif mode != "token":
        cause = f"it requires a token, and {MODE} is {mode or 'not set'}, so none was sent"
        remedy = f"Set {MODE}=token"
    else:
        cause = f"it refuses the token in {token_place()}"
        remedy = f"Replace it by the token {head}"
    return unreachable(f"at {address}", ValueError(cause), remedy)


def token_place() -> str:
    """Where Ray looks for its token: the name of a variable, or a path."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    return os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")


class HeadWatch:
    """Tells that a cluster is gone to which a process was connected; Ray would end the process instead.

    Args:
        address: Of the cluster's head.
        now_s: A clock that only goes forward.
    """

    def __init__(self, address: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._now_s = now_s
        self._away_since_s: float | None = None

    def check(self) -> None:
        """Look for the head, when something was not answered.

        Raises:
            ClusterUnreachableError: It has been away for `HEAD_AWAY_S` seconds.
        """
        try:
            check_reachable(self._address)
        except OSError as error:
            now_s = self._now_s()
            if self._away_since_s is None:
                self._away_since_s = now_s
            away_s = now_s - self._away_since_s
            if away_s >= HEAD_AWAY_S:
                raise ClusterUnreachableError(
                    f"the Ray cluster at {self._address} is gone: nobody has listened there for "
                    f"{away_s:.0f} s ({error}). What was asked last may have happened or not. Start the "
                    f"cluster again, and the job from its newest checkpoint if it kept one "
                    f"(execution.state-recovery.path)"
                ) from error
        else:
            self._away_since_s = None
