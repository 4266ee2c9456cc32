"""Credentials on a connection of our own: SASL PLAIN (RFC 4616) and SCRAM (RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from typing import NamedTuple

from ...common.errors import ConfigurationError
from .answers import Answer
from .client import KafkaConnectorError, KafkaProperties

Call = Callable[[int, int, bytes], Answer]

_HANDSHAKE, _AUTHENTICATE = 17, 36
_MOST_ROUNDS = 1_000_000
"""Brokers use 4,096 to 16,384; a million take a second."""
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
    if answer.short():
        raise KafkaConnectorError(f"the broker does not offer sasl.mechanism {mechanism}")
    user, password = properties.get("sasl.username") or "", properties.get("sasl.password") or ""
    if mechanism == "PLAIN":
        _exchange(call, f"\0{user}\0{password}".encode())
    else:
        _scram(call, _HASHES[mechanism], user, password)


def _mechanism(properties: KafkaProperties) -> str:
    return (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI").upper()


def _exchange(call: Call, data: bytes) -> Answer:
    """One step of the exchange; an answer that is left at the broker's data."""
    answer = call(_AUTHENTICATE, 0, struct.pack(">i", len(data)) + data)
    error, reason = answer.short(), answer.string()
    if error:
        raise KafkaConnectorError(
            f"the broker refuses the credentials ({reason:.300}); correct sasl.username and sasl.password"
        )
    return answer


def _scram(call: Call, algorithm: str, user: str, password: str) -> None:
    name = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    first = f"n={name},r={nonce}"
    answer = _exchange(call, f"n,,{first}".encode())
    challenge = _Challenge.of(answer, nonce)
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), challenge.salt, challenge.rounds)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    final = f"c=biws,r={challenge.nonce}"
    signed = f"{first},{challenge.text},{final}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = _exchange(call, f"{final},p={base64.b64encode(proof).decode()}".encode()).data()
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    expected = base64.b64encode(hmac.digest(server_key, signed, algorithm))
    if not hmac.compare_digest(verdict.partition(b"v=")[2], expected):
        raise KafkaConnectorError("the broker does not know the password itself; is it the right broker?")


class _Challenge(NamedTuple):
    """The first message of a SCRAM server."""

    text: str
    nonce: str
    salt: bytes
    rounds: int

    @staticmethod
    def of(answer: Answer, nonce: str) -> _Challenge:
        """Read it.

        Raises:
            MalformedAnswerError: It is not one, is not for us, or would cost hours of computing.
        """
        try:
            text = answer.data().decode()
            parts = dict(part.split("=", 1) for part in text.split(","))
            found = _Challenge(text, parts["r"], base64.b64decode(parts["s"]), int(parts["i"]))
        except (ValueError, KeyError) as error:
            raise answer.malformed("it is no challenge of SCRAM") from error
        if not found.nonce.startswith(nonce) or not 0 < found.rounds <= _MOST_ROUNDS:
            raise answer.malformed(
                f"its challenge of SCRAM has another nonce, or not 1 to {_MOST_ROUNDS} iterations"
            )
        return found
