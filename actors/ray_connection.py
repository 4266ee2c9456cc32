"""Connects this process to a Ray cluster that is running."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ray
from ray._private.services import canonicalize_bootstrap_address
from ray._raylet import AuthenticationTokenLoader, Config, GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError, RayError

from ..common.errors import ClusterUnreachableError, ConfigurationError
from .cluster_address import MODE, check_reachable, refused_token, token_place, unreachable
from .serializers import make_serializers

_FAILURES = (RayError, OSError, RuntimeError, ValueError)
_REMEDY = "Give its address with --address or RAY_ADDRESS"
_STDERR = 2
_TOKEN_BYTES = 32
_connected_as: str | None = None
"""The address that was given: a name may belong to another address by now."""


def connect(address: str | None) -> None:
    """Connect this process to a Ray cluster, unless it is connected to it.

    Args:
        address: Of the cluster; `None` for the one that this process is connected to, else the one in
            `RAY_ADDRESS`, else the one on this machine.

    Raises:
        ClusterUnreachableError: There is no such cluster, it refuses the token, or this process is connected
            to another one.
        ConfigurationError: `RAY_AUTH_TOKEN_PATH` names a file without a token.
    """
    global _connected_as
    wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
    if ray.is_initialized():
        if address not in (None, "auto", _connected_as):
            _check_connected_to(wanted)
        return
    try:
        ray.init(address=_checked(wanted), logging_level=logging.WARNING, log_to_driver=False)
        make_serializers()
    except (ClusterUnreachableError, ConfigurationError):
        raise
    except _FAILURES as error:
        where = "on this machine" if wanted == "auto" else f"at {wanted}"
        raise unreachable(where, error, _REMEDY) from error
    _connected_as = address


def connect_driver(address: str, runtime_env: Mapping[str, Any] | None) -> None:
    """Connect a driver to the cluster in `RAY_ADDRESS`.

    Raises:
        ClusterUnreachableError: There is no such cluster, or it refuses the token.
        ConfigurationError: `RAY_AUTH_TOKEN_PATH` names a file without a token.
    """
    try:
        ray.init(address=_checked(address), runtime_env=runtime_env, logging_level=logging.WARNING)
        make_serializers()
    except (ClusterUnreachableError, ConfigurationError):
        raise
    except _FAILURES as error:
        remedy = "Check the address, or unset RAY_ADDRESS to start an embedded Ray"
        raise unreachable(f"at RAY_ADDRESS={address}", error, remedy) from error


def use_token(is_created: bool = False) -> None:
    """Send the token to a cluster on this machine, as Ray itself does; but Ray also prints a warning.

    Args:
        is_created: Whether a missing token is created, in a file that other users cannot read.
    """
    if os.environ.get(MODE, "token") != "token":
        return
    if is_created and not _has_token():
        path = Path(token_place())
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            # Another process may be as fast.
            contextlib.suppress(FileExistsError),
            open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file,
        ):
            file.write(secrets.token_hex(_TOKEN_BYTES))
        AuthenticationTokenLoader.instance().reset_cache()
    if MODE not in os.environ and _has_token():
        os.environ[MODE] = "token"
        Config.initialize("")


def _has_token() -> bool:
    try:
        return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))
    except AuthenticationError as error:
        raise ConfigurationError(
            f"RAY_AUTH_TOKEN_PATH names {token_place()}, which cannot be opened or is empty. Name a file "
            f"that holds the token of the cluster, or unset the variable"
        ) from error


def _address_on_this_machine() -> str:
    try:
        # In ray.init() it would log how it searches.
        with _no_native_log():
            found = canonicalize_bootstrap_address("auto")
    except ConnectionError:
        found = None
    if found is None:
        raise ConnectionError("no Ray cluster is running here")
    return found


def _check_connected_to(address: str) -> None:
    own = ray.get_runtime_context().gcs_address
    try:
        if canonicalize_bootstrap_address(address) == own:
            return
        check_reachable(address)
    except _FAILURES as error:
        raise unreachable(f"at {address}", error, _REMEDY) from error
    cause = f"this process is connected to the cluster at {own}"
    raise unreachable(f"at {address}", ValueError(cause), "Use another process, or call ray.shutdown() first")


def _checked(address: str) -> str:
    """The address of a cluster that answers; Ray itself would try for 20 seconds, and log each attempt.

    Raises:
        OSError: Nothing listens at the address.
        ClusterUnreachableError: The cluster refuses the token, or requires one.
        RayError: It does not answer.
    """
    if address == "auto":
        address = _address_on_this_machine()
        use_token()
    check_reachable(address)
    if ":" not in address or "/" in address:
        return address
    has_token = _has_token()
    mode = os.environ.get(MODE)
    if mode == "token" and not has_token:
        # Ray would end this process.
        raise refused_token(address, mode, has_token)
    try:
        with _no_native_log():
            GcsClient(address=canonicalize_bootstrap_address(address))
    except AuthenticationError as error:
        raise refused_token(address, mode, has_token) from error
    return address


@contextlib.contextmanager
def _no_native_log() -> Iterator[None]:
    """Drop what Ray's native code writes to standard error, which no setting of Ray's turns off here."""
    saved = os.dup(_STDERR)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR)
        yield
    finally:
        os.dup2(saved, _STDERR)
        os.close(saved)
