"""Credentials on a connection of our own: SASL PLAIN (RFC 4616) and SCRAM (RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable

from ...common.errors import ConfigurationError
from .client import KafkaConnectorError, KafkaProperties

Call = Callable[[int, int, bytes], bytes]

_HANDSHAKE, _AUTHENTICATE = 17, 36
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def check_sasl(properties: KafkaProperties) -> None:
    """Raise `ConfigurationError` if the mechanism is none that is spoken here."""
    mechanism = _mechanism(properties)
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise ConfigurationError(
            f"an exactly-once Kafka sink recovers transactions over a connection of its own, which knows "
            f"sasl.mechanism PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, not {mechanism}; choose one of these, "
            f"or DeliveryGuarantee.AT_LEAST_ONCE"
        )


def authenticate(call: Call, properties: KafkaProperties) -> None:
    """Say who we are, if the protocol asks for it.

    Raises:
        KafkaConnectorError: The broker does not take the credentials.
    """
    if not (properties.get("security.protocol") or "").upper().startswith("SASL"):
        return
    mechanism = _mechanism(properties)
    name = mechanism.encode()
    answer = call(_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)
    if struct.unpack_from(">h", answer)[0]:
        raise KafkaConnectorError(f"the broker does not offer sasl.mechanism {mechanism}")
    user, password = properties.get("sasl.username") or "", properties.get("sasl.password") or ""
    if mechanism == "PLAIN":
        _exchange(call, f"\0{user}\0{password}".encode())
    else:
        _scram(call, _HASHES[mechanism], user, password)


def _mechanism(properties: KafkaProperties) -> str:
    return (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI").upper()


def _exchange(call: Call, data: bytes) -> bytes:
    answer = call(_AUTHENTICATE, 0, struct.pack(">i", len(data)) + data)
    (error, length) = struct.unpack_from(">hh", answer)
    at = 4 + max(0, length)
    if error:
        reason = answer[4:at].decode(errors="replace")
        raise KafkaConnectorError(
            f"the broker refuses the credentials ({reason}); correct sasl.username and sasl.password"
        )
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def _scram(call: Call, algorithm: str, user: str, password: str) -> None:
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={secrets.token_urlsafe(24)}"
    challenge = _exchange(call, f"n,,{first}".encode()).decode()
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salt, rounds = base64.b64decode(parts["s"]), int(parts["i"])
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    final = f"c=biws,r={parts['r']}"
    signed = f"{first},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = _exchange(call, f"{final},p={base64.b64encode(proof).decode()}".encode()).decode()
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    expected = base64.b64encode(hmac.digest(server_key, signed, algorithm)).decode()
    if not hmac.compare_digest(answer.partition("v=")[2], expected):
        raise KafkaConnectorError("the broker does not know the password itself; is it the right broker?")
