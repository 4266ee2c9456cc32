"""Reads answers of brokers that Tidegate asks itself. Every length is checked before it is used."""

from __future__ import annotations

import struct

from .client import KafkaConnectorError

MOST_BYTES = 1 << 20
"""A longer answer is not read; those that are asked for have some hundred bytes."""

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class MalformedAnswerError(KafkaConnectorError):
    """A server answered with bytes that are not an answer of Kafka's protocol."""


class Answer:
    """The body of an answer, read from its start.

    Args:
        data: The bytes.
        sender: Host and port of the broker, for errors.
    """

    def __init__(self, data: bytes, sender: str) -> None:
        self._data = data
        self._sender = sender
        self._at = 0

    def short(self) -> int:
        """An integer of two bytes."""
        return self._unpacked(_SHORT)

    def number(self) -> int:
        """An integer of four bytes."""
        return self._unpacked(_INT)

    def long(self) -> int:
        """An integer of eight bytes."""
        return self._unpacked(_LONG)

    def string(self) -> str:
        """A text with its length in two bytes; empty where it is null."""
        data = self._bytes(max(0, self.short()))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.malformed("a text is not UTF-8") from error

    def data(self) -> bytes:
        """Bytes with their length in four bytes; empty where they are null."""
        return self._bytes(max(0, self.number()))

    def skip(self, count: int) -> None:
        """Pass over bytes."""
        self._bytes(count)

    def malformed(self, reason: str) -> MalformedAnswerError:
        """The error for an answer that makes no sense."""
        shown = self._data[:40].hex(" ")
        return MalformedAnswerError(
            f"{self._sender} does not answer as a Kafka broker: {reason} (the answer has {len(self._data)} "
            f"bytes and begins with {shown or 'nothing'}); check bootstrap.servers and security.protocol"
        )

    def _unpacked(self, form: struct.Struct) -> int:
        (number,) = form.unpack(self._bytes(form.size))
        assert isinstance(number, int)
        return number

    def _bytes(self, count: int) -> bytes:
        if len(self._data) - self._at < count:
            raise self.malformed(f"it ends {count - (len(self._data) - self._at)} bytes too early")
        self._at += count
        return self._data[self._at - count : self._at]
