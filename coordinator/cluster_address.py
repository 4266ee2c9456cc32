"""Whether a Ray cluster can be reached, and why not."""

from __future__ import annotations

import socket

from ..common.errors import ClusterUnreachableError

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
        where: The address, and where it comes from.
        error: What Ray raised.
        remedy: What to do about the address, without a full stop.
    """
    cause = str(error).strip().rstrip(".")
    if cause.startswith("Failed to connect to Ray cluster"):
        # Somebody listens there, which was tried before; Ray itself does not tell what it was refused for.
        cause = "it refuses the connection; most likely this is not its token"
    return ClusterUnreachableError(
        f"there is no way to the Ray cluster at {where}: {cause}. {remedy}; the token of the cluster belongs "
        f"into RAY_AUTH_TOKEN or ~/.ray/auth_token, and RAY_AUTH_MODE=token says that there is one"
    )
