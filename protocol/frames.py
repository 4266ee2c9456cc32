"""The frames of a direct connection between two task processes.

A frame is its length (8 bytes, big endian, of what follows the kind), its kind (1 byte) and its body. Before
both ends have proved that they know the attempt's secret, only the frames of the handshake are valid, and
they are short. All later frames begin with how many numbered frames the sender has received: that confirms
them to the other end.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .ids import ChannelId

VERSION = 1
"""Of this format; the two ends of a connection must have the same."""

HANDSHAKE_LIMIT_BYTES = 1 << 10
"""The longest body that a stranger may announce."""

LIMIT_BYTES = 1 << 40
"""The longest body of any frame: a longer one is damage."""

MAGIC = b"tidegate"
NONCE_BYTES = 32
MAC_BYTES = 32

_PREFIX = struct.Struct(">QB")
_HELLO = struct.Struct(f">{len(MAGIC)}sHQII{NONCE_BYTES}s")
_CHALLENGE = struct.Struct(f">{NONCE_BYTES}sQ{MAC_BYTES}s")
_PROOF = struct.Struct(f">Q{MAC_BYTES}s")
_DATA = struct.Struct(">QIIIQB")
_RECEIVED = struct.Struct(">Q")
_CREDIT = struct.Struct(">IIIQ")

_SCRATCH_BYTES = 1 << 16


class FrameError(Exception):
    """What arrived is not a frame, or none that is valid now."""


class FrameKind(enum.IntEnum):
    """What a frame is; those from `DATA` on need a proved peer."""

    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    REFUSAL = 4
    DATA = 5
    CREDIT = 6
    PING = 7
    PONG = 8

    @property
    def is_numbered(self) -> bool:
        """Whether the receiver counts it, so that it can be sent again when a connection was lost."""
        return self in (FrameKind.DATA, FrameKind.CREDIT)


class Refusal(enum.IntEnum):
    """Why a process closes a connection that another one opened."""

    VERSION = 1
    ATTEMPT_OVER = 2
    ATTEMPT_UNKNOWN = 3
    PROCESS_UNKNOWN = 4
    SECRET = 5
    PROGRESS = 6
    BUSY = 7

    @property
    def explanation(self) -> str:
        """What that means."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Refusal.VERSION: f"it does not use version {VERSION} of the frames; install one Tidegate everywhere",
    Refusal.ATTEMPT_OVER: "the job has begun a later attempt",
    Refusal.ATTEMPT_UNKNOWN: "it has not been deployed for this attempt yet",
    Refusal.PROCESS_UNKNOWN: "it is another process of the job, or exchanges no records with this one",
    Refusal.SECRET: "the other end did not prove that it knows the secret of the attempt",
    Refusal.BUSY: "it still received something on the connection before",
    Refusal.PROGRESS: "both ends disagree on what was received, so data was lost",
}


class DataKind(enum.IntEnum):
    """What a message on a channel is for."""

    ELEMENTS = 0
    END_OF_INPUT = 1
    PROBE = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """A kind and the bytes that follow it."""

    kind: FrameKind
    body: bytes | memoryview

    def encoded(self) -> bytes:
        """The frame as it travels."""
        return b"".join([_PREFIX.pack(len(self.body), self.kind), self.body])


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame, from the end that opened the connection. Processes are numbered within an attempt."""

    version: int
    attempt: int
    sender: int
    receiver: int
    nonce: bytes

    def frame(self) -> Frame:
        """As a frame."""
        body = _HELLO.pack(MAGIC, self.version, self.attempt, self.sender, self.receiver, self.nonce)
        return Frame(FrameKind.HELLO, body)

    @staticmethod
    def of(frame: Frame) -> Hello:
        """The reverse of `frame`. Raises `FrameError` if it is something else."""
        magic, *fields = _unpacked(_HELLO, frame, FrameKind.HELLO)
        if magic != MAGIC:
            raise FrameError("it does not begin with Tidegate's magic bytes")
        return Hello(*fields)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The answer to `Hello`: proves the listener, and asks the other end for its proof."""

    nonce: bytes
    received: int
    mac: bytes

    def frame(self) -> Frame:
        """As a frame."""
        return Frame(FrameKind.CHALLENGE, _CHALLENGE.pack(self.nonce, self.received, self.mac))

    @staticmethod
    def of(frame: Frame) -> Challenge:
        """The reverse of `frame`. Raises `FrameError` if it is something else."""
        return Challenge(*_unpacked(_CHALLENGE, frame, FrameKind.CHALLENGE))


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer to `Challenge`."""

    received: int
    mac: bytes

    def frame(self) -> Frame:
        """As a frame."""
        return Frame(FrameKind.PROOF, _PROOF.pack(self.received, self.mac))

    @staticmethod
    def of(frame: Frame) -> Proof:
        """The reverse of `frame`. Raises `FrameError` if it is something else."""
        return Proof(*_unpacked(_PROOF, frame, FrameKind.PROOF))


def refusal_frame(why: Refusal) -> Frame:
    """Says to the other end why the connection is closed."""
    return Frame(FrameKind.REFUSAL, bytes([why]))


def refusal_of(frame: Frame) -> Refusal:
    """The reverse of `refusal_frame`. Raises `FrameError` if it is something else."""
    try:
        return Refusal(frame.body[0] if len(frame.body) == 1 else 0)
    except ValueError as error:
        raise FrameError("a refusal without a known reason") from error


def data_head(
    received: int, channel: ChannelId, sequence_number: int, kind: DataKind, payload_bytes: int
) -> bytes:
    """What comes before the payload of a message on a channel.

    Args:
        received: How many numbered frames this end has received.
        channel: The channel.
        sequence_number: The message's number in its channel.
        kind: What the message is for.
        payload_bytes: The length of the payload.
    """
    return _PREFIX.pack(_DATA.size + payload_bytes, FrameKind.DATA) + _DATA.pack(
        received, channel.edge_id, channel.upstream_index, channel.downstream_index, sequence_number, kind
    )


def data_of(frame: Frame) -> tuple[int, ChannelId, int, DataKind, bytes]:
    """The reverse of `data_head`, and the payload.

    Raises:
        FrameError: It is no message.
    """
    if len(frame.body) < _DATA.size:
        raise FrameError("a message without a whole head")
    received, edge, upstream, downstream, number, kind = _DATA.unpack_from(frame.body)
    try:
        what = DataKind(kind)
    except ValueError as error:
        raise FrameError(f"a message of unknown kind {kind}") from error
    return received, ChannelId(edge, upstream, downstream), number, what, bytes(frame.body[_DATA.size :])


def credit_frame(received: int, credits: Iterable[tuple[ChannelId, int]]) -> Frame:
    """Gives credit back, in bytes for each of some channels."""
    parts = [
        _CREDIT.pack(channel.edge_id, channel.upstream_index, channel.downstream_index, size_bytes)
        for channel, size_bytes in credits
    ]
    return Frame(FrameKind.CREDIT, b"".join([_RECEIVED.pack(received), *parts]))


def credit_of(frame: Frame) -> tuple[int, list[tuple[ChannelId, int]]]:
    """The reverse of `credit_frame`. Raises `FrameError` if it is something else."""
    received = received_of(frame)
    entries = memoryview(frame.body)[_RECEIVED.size :]
    if len(entries) % _CREDIT.size:
        raise FrameError("credit that ends within a channel")
    return received, [(ChannelId(*ids), size_bytes) for *ids, size_bytes in _CREDIT.iter_unpack(entries)]


def bare_frame(kind: FrameKind, received: int) -> Frame:
    """A ping or its answer."""
    return Frame(kind, _RECEIVED.pack(received))


def received_of(frame: Frame) -> int:
    """How many numbered frames the sender of any frame after the handshake had received."""
    if len(frame.body) < _RECEIVED.size:
        raise FrameError("a frame that confirms nothing")
    received: int = _RECEIVED.unpack_from(frame.body)[0]
    return received


def _unpacked(layout: struct.Struct, frame: Frame, kind: FrameKind) -> tuple[Any, ...]:
    if frame.kind is not kind or len(frame.body) != layout.size:
        raise FrameError(f"a frame {frame.kind.name} of {len(frame.body)} bytes instead of {kind.name}")
    return layout.unpack(frame.body)


class FrameReader:
    """Makes frames of bytes that arrive in pieces of any size; a body that is large is copied once.

    Write what arrives into `buffer()`, say how much it was, and take frames until there is none.
    """

    def __init__(self) -> None:
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._start = self._filled = 0
        self._large = bytearray()
        self._large_kind: FrameKind | None = None
        self.is_proved = False
        """Whether the other end has proved who it is; until then frames must be short."""

    def buffer(self) -> memoryview:
        """Where the next bytes belong, after all frames were taken; never empty."""
        if self._large_kind is not None:
            return memoryview(self._large)[self._filled :]
        if self._start:
            left = self._filled - self._start
            self._scratch[:left] = self._scratch[self._start : self._filled]
            self._start, self._filled = 0, left
        return memoryview(self._scratch)[self._filled :]

    def received(self, count: int) -> None:
        """`count` bytes were written into `buffer()`."""
        self._filled += count

    def next_frame(self) -> Frame | None:
        """The next frame, `None` if it has not arrived whole.

        Raises:
            FrameError: These are no frames; the connection is of no use any more.
        """
        if self._large_kind is not None:
            return self._take_large()
        if self._filled - self._start < _PREFIX.size:
            return None
        length, number = _PREFIX.unpack_from(self._scratch, self._start)
        kind, start = self._checked(length, number), self._start + _PREFIX.size
        if start + length <= self._filled:
            self._start = start + length
            return Frame(kind, bytes(memoryview(self._scratch)[start : start + length]))
        if _PREFIX.size + length > len(self._scratch):
            self._begin_large(kind, length, start)
        return None

    def _take_large(self) -> Frame | None:
        if self._large_kind is None or self._filled < len(self._large):
            return None
        frame = Frame(self._large_kind, memoryview(self._large))
        self._large, self._large_kind, self._filled = bytearray(), None, 0
        return frame

    def _begin_large(self, kind: FrameKind, length: int, start: int) -> None:
        there = self._filled - start
        self._large, self._large_kind = bytearray(length), kind
        self._large[:there] = self._scratch[start : self._filled]
        self._start, self._filled = 0, there

    def _checked(self, length: int, number: int) -> FrameKind:
        try:
            kind = FrameKind(number)
        except ValueError as error:
            raise FrameError(f"a frame of unknown kind {number}") from error
        if not self.is_proved and (kind >= FrameKind.DATA or length > HANDSHAKE_LIMIT_BYTES):
            raise FrameError(f"a frame {kind.name} of {length} bytes before the handshake is over")
        if length > LIMIT_BYTES:
            raise FrameError(f"a frame {kind.name} of {length} bytes")
        return kind
