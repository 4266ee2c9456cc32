"""What an error of TLS means, and what to do about it."""

from __future__ import annotations

import ssl

from .tls_files import AUTHORITY, CERTIFICATE, SAME_ON_BOTH, SWITCH, TlsFiles

_EXPIRED, _NOT_YET_VALID = 10, 9
_NO_CHAIN = (2, 18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose signer is unknown."""

_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")


class TlsError(ConnectionError):
    """A connection with TLS could not be opened, or is of no use any more."""


def explained(error: ssl.SSLError, files: TlsFiles) -> TlsError:
    """An error of OpenSSL with its cause and remedy.

    Args:
        error: What OpenSSL raised.
        files: The certificate of this process.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(_about_theirs(error, files))
    reason = error.reason or ""
    if "ALERT" in reason:
        return TlsError(_about_mine(reason, files))
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return TlsError(f"the other end has no certificate. Set {SWITCH} and {CERTIFICATE} on its node")
    if reason in _NOT_TLS:
        return TlsError(f"the other end does not use TLS. {SAME_ON_BOTH}")
    return TlsError(f"TLS failed: {reason or error}")


def ended_early() -> TlsError:
    """What to raise when the connection ended before both ends had verified each other."""
    return TlsError(
        f"the other end closed the connection in the handshake of TLS. Check its log. {SAME_ON_BOTH}"
    )


def about_own(error: ssl.SSLError, files: TlsFiles) -> str:
    """What is wrong with the certificate of this process, and what to do.

    Args:
        error: What OpenSSL raised for it.
        files: Where it is.
    """
    mine = f"the certificate {files.certificate} ({CERTIFICATE})"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"{mine} cannot be used: {error.reason or error}. Create a certificate for TLS 1.2 or later"
    if error.verify_code == _EXPIRED:
        return f"{mine} has expired. Renew it"
    if error.verify_code == _NOT_YET_VALID:
        return f"{mine} is not valid yet. Check the clock of this node"
    if error.verify_code in _NO_CHAIN:
        return (
            f"{mine} is not signed by a certificate in {files.authority} ({AUTHORITY}). Use one CA for all "
            f"nodes"
        )
    return f"{mine} is not valid: {error.verify_message}. Create one that servers and clients of TLS may use"


def _about_theirs(error: ssl.SSLCertVerificationError, files: TlsFiles) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return f"the certificate of the other end has expired. Renew the file that {CERTIFICATE} names there"
    if code == _NOT_YET_VALID:
        return "the certificate of the other end is not valid yet. Check the clocks of both nodes"
    if code in _NO_CHAIN:
        return (
            f"the certificate of the other end is not signed by a certificate in {files.authority} "
            f"({AUTHORITY}). Use one CA for all nodes"
        )
    return f"the certificate of the other end is not valid: {error.verify_message}"


def _about_mine(reason: str, files: TlsFiles) -> str:
    mine = f"the certificate {files.certificate} ({CERTIFICATE})"
    if "EXPIRED" in reason:
        return f"{mine} of this process has expired. Renew it"
    if "UNKNOWN_CA" in reason:
        return (
            f"{mine} of this process is not signed by a CA that the other end accepts ({AUTHORITY} there). "
            f"Use one CA for all nodes"
        )
    if "REQUIRED" in reason:
        return f"the other end requires a certificate, and {mine} was not sent"
    if "PROTOCOL_VERSION" in reason:
        return "the other end does not accept TLS 1.2 or later"
    alert = reason.rpartition("ALERT_")[2].lower().replace("_", " ")
    return f"the other end does not accept {mine} of this process: {alert}"
