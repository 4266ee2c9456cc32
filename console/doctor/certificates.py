"""Whether the processes of this node can use Ray's certificates, where Ray uses TLS."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ...runtime.network.tls_errors import about_own
from ...runtime.network.tls_files import AUTHORITY, CERTIFICATE, KEY, TlsFiles, TlsFilesError, TlsIdentities
from .finding import Finding, Severity, ok

_CHECK = "certificates"
_DAY_S = 86_400
_SOON_DAYS = 14
_OUTSIDE = "192.0.2.1"
"""An address to which no packet is sent: the kernel only says from which of its own it would go."""


def check_certificates(address: str | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the files exist and fit each other, and are valid now and for the address of this node.

    Args:
        address: Of the cluster; without one, and without RAY_ADDRESS, that of a Ray of the job's own.
        environment: The variables that Ray reads.
    """
    try:
        files = TlsFiles.from_environment(environment)
        if files is not None:
            yield _checked(files, own_address(address or environment.get("RAY_ADDRESS") or ""))
    except TlsFilesError as error:
        text, _, remedy = str(error).partition(". ")
        remedy = remedy or f"set {CERTIFICATE}, {KEY} and {AUTHORITY} to PEM files of this node"
        yield Finding(_CHECK, Severity.ERROR, text, remedy)


def _checked(files: TlsFiles, mine: str) -> Finding:
    try:
        certificate = _connected(files, None)
    except ssl.SSLError as error:
        text, _, remedy = about_own(error, files).partition(". ")
        return Finding(_CHECK, Severity.ERROR, text, remedy)
    try:
        _connected(files, mine)
    except ssl.SSLCertVerificationError:
        return Finding(
            _CHECK,
            Severity.ERROR,
            f"{files.certificate} ({CERTIFICATE}) is not valid for {mine}, the address of this node, but for "
            f"{_names(certificate)}; Ray's processes refuse it",
            f"create a certificate for this node with {mine} as a subject alternative name (IP)",
        )
    return _until(files, certificate, mine)


def own_address(cluster: str) -> str:
    """The address of this node in the network of a cluster.

    Args:
        cluster: The address of the cluster, with or without a port; may be empty.
    """
    host = cluster.rpartition("://")[2].rpartition(":")[0].strip("[]") or _OUTSIDE
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 1))
        except OSError:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        return str(probe.getsockname()[0])


def _connected(files: TlsFiles, address: str | None) -> dict[str, Any]:
    """Connect this process to itself in memory, as two processes of the node would do.

    Args:
        files: What both ends use.
        address: What the certificate must be valid for, `None` for anything.

    Returns:
        The certificate.

    Raises:
        TlsFilesError: A file is missing or cannot be used.
        ssl.SSLError: An end does not accept the other one.
    """
    identity = TlsIdentities(files).current()
    identity.client.check_hostname = address is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = identity.client.wrap_bio(to_client, to_server, server_hostname=address)
    left = [client, identity.server.wrap_bio(to_server, to_client, server_side=True)]
    while left:
        for end in list(left):
            try:
                end.do_handshake()
                left.remove(end)
            except ssl.SSLWantReadError:
                continue
    return dict(client.getpeercert() or {})


def _names(certificate: dict[str, Any]) -> str:
    return ", ".join(name for _, name in certificate.get("subjectAltName", ())) or "no name"


def _until(files: TlsFiles, certificate: dict[str, Any], address: str) -> Finding:
    end = str(certificate["notAfter"])
    days = int((ssl.cert_time_to_seconds(end) - time.time()) / _DAY_S)
    if days >= _SOON_DAYS:
        return ok(_CHECK, f"valid for {address}, for {days} more days")
    return Finding(
        _CHECK,
        Severity.WARNING,
        f"{files.certificate} ({CERTIFICATE}) expires within {days + 1} days, on {end}",
        "renew it; task processes use a new file for their next connections, Ray when it is restarted",
    )
