"""Ray's certificates, for the direct connections between nodes when Ray uses TLS (`RAY_USE_TLS`)."""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from ...common.errors import ConfigurationError

SWITCH = "RAY_USE_TLS"
CERTIFICATE = "RAY_TLS_SERVER_CERT"
KEY = "RAY_TLS_SERVER_KEY"
AUTHORITY = "RAY_TLS_CA_CERT"

SAME_ON_BOTH = f"Set {SWITCH} to the same value on both nodes"

_END = "-----END CERTIFICATE-----"
_BEGIN = "-----BEGIN CERTIFICATE-----"


class TlsFilesError(ConfigurationError, OSError):
    """A certificate or key cannot be used; an `OSError` because it keeps a connection from being opened."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the certificate of a process is.

    Attributes:
        certificate: Path of the process's certificate, in PEM.
        key: Path of its private key.
        authority: Path of the certificates that must have signed those of other processes.
    """

    certificate: str
    key: str
    authority: str

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> TlsFiles | None:
        """The files that Ray uses, `None` if Ray does not use TLS.

        Raises:
            TlsFilesError: Ray is to use TLS, but a variable that names a file is not set.
        """
        if environment.get(SWITCH, "").lower() not in ("1", "true"):
            return None
        missing = [name for name in (CERTIFICATE, KEY, AUTHORITY) if not environment.get(name)]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise TlsFilesError(
                f"{SWITCH} is on, but {' and '.join(missing)} {verb} not set. Set {CERTIFICATE}, {KEY} and "
                f"{AUTHORITY} to PEM files on every node, in the environment of `ray start`"
            )
        return TlsFiles(environment[CERTIFICATE], environment[KEY], environment[AUTHORITY])


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """What a process needs for connections with TLS.

    Attributes:
        files: Where it comes from.
        server: For connections that other processes open.
        client: For connections that this process opens.
        fingerprint: SHA-256 of the process's certificate.
    """

    files: TlsFiles
    server: ssl.SSLContext
    client: ssl.SSLContext
    fingerprint: bytes


class TlsIdentities:
    """The current identity of a process; files that were renewed apply to the next connection.

    Args:
        files: Where the certificate and the key are.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamps: list[tuple[int, int, int]] = []
        self._current: TlsIdentity | None = None

    def current(self) -> TlsIdentity:
        """The identity that the files describe now.

        Raises:
            TlsFilesError: A file is missing or cannot be used.
        """
        files = self._files
        stamps = [
            _stamp(CERTIFICATE, files.certificate),
            _stamp(KEY, files.key),
            _stamp(AUTHORITY, files.authority),
        ]
        if self._current is None or stamps != self._stamps:
            self._current = TlsIdentity(
                files,
                _context(files, ssl.PROTOCOL_TLS_SERVER),
                _context(files, ssl.PROTOCOL_TLS_CLIENT),
                _fingerprint(files.certificate),
            )
            self._stamps = stamps
        return self._current


def _stamp(variable: str, path: str) -> tuple[int, int, int]:
    """Changes when the file does."""
    try:
        with open(path, "rb"):
            status = os.stat(path)
    except OSError as error:
        raise TlsFilesError(
            f"cannot read {path} ({variable}): {error.strerror}. {SWITCH} is on, so every process needs a "
            f"certificate; create the file or correct {variable} on node {os.uname().nodename}"
        ) from error
    return status.st_ino, status.st_size, status.st_mtime_ns


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The secret of the attempt, bound to both certificates, says who the other end is; see `link`.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    try:
        context.load_verify_locations(files.authority)
    except ssl.SSLError as error:
        raise TlsFilesError(
            f"{files.authority} ({AUTHORITY}) contains no certificates in PEM: {error.reason}"
        ) from error
    try:
        # Without the password OpenSSL would ask at the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except ssl.SSLError as error:
        raise TlsFilesError(_pair_problem(files, error)) from error
    return context


def _pair_problem(files: TlsFiles, error: ssl.SSLError) -> str:
    certificate, key = f"{files.certificate} ({CERTIFICATE})", f"{files.key} ({KEY})"
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the private key {key} does not belong to the certificate {certificate}. Set both to one pair"
    try:
        _fingerprint(files.certificate)
    except ValueError:
        return f"{certificate} contains no certificate in PEM"
    return (
        f"{key} contains no private key in PEM, or one with a password, which Ray cannot use either: {error}"
    )


def _fingerprint(path: str) -> bytes:
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read()
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise ValueError(f"no certificate in {path}")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)])).digest()
