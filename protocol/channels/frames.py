"""The frames of a direct connection between two task processes.

A frame is, big endian, the length of its body (8 bytes), its kind (1 byte), the number of its buffers (2
bytes), their lengths (8 bytes each), its body, and its buffers. Before both ends have proved that they know
the attempt's secret, only the frames of the handshake are valid, and they are short. The bodies of all later
frames begin with how many numbered frames the sender has received: that confirms them to the other end.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..ids import ChannelId

VERSION = 2
"""Of this format; the two ends of a connection must have the same."""

HANDSHAKE_LIMIT_BYTES = 1 << 10
"""The longest body that a stranger may announce."""

LIMIT_BYTES = 1 << 40
"""The longest frame: a longer one is damage."""

MAX_BUFFERS = 512
"""The most buffers of a frame. The kernel writes at most 1,024 pieces at once."""

MAGIC = b"tidegate"
NONCE_BYTES = 32
MAC_BYTES = 32

PREFIX = struct.Struct(">QBH")
"""The length of the body, the kind, and the number of buffers."""

LENGTH = struct.Struct(">Q")
"""The length of a buffer."""

_GREETING = struct.Struct(f">{len(MAGIC)}sH")
"""How a `Hello` of any version begins. Neither that nor the frame of a refusal may ever change."""
_HELLO = struct.Struct(f">{len(MAGIC)}sHQII{NONCE_BYTES}s")
_CHALLENGE = struct.Struct(f">{NONCE_BYTES}sQ{MAC_BYTES}s")
_PROOF = struct.Struct(f">Q{MAC_BYTES}s")
_DATA = struct.Struct(">QIIIQB")
_RECEIVED = struct.Struct(">Q")
_CREDIT = struct.Struct(">IIIQ")

Bytes = bytes | memoryview


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

    @property
    def is_suspicious(self) -> bool:
        """Whether it does not occur between the processes of a job, also while it restarts."""
        return self in (Refusal.VERSION, Refusal.SECRET)


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
    """A kind, the bytes that follow it, and buffers with memory of their own."""

    kind: FrameKind
    body: Bytes
    buffers: tuple[memoryview, ...] = ()

    def encoded(self) -> bytes:
        """The frame as it travels; for frames without buffers."""
        return b"".join([PREFIX.pack(len(self.body), self.kind, 0), self.body])


@dataclass(frozen=True, slots=True)
class LargePayload:
    """The payload of a message that is large or has buffers.

    Attributes:
        data: What a small payload would be.
        buffers: Memory that `data` refers to; never changed.
    """

    data: Bytes
    buffers: tuple[memoryview, ...] = ()

    def __len__(self) -> int:
        return len(self.data) + sum(map(len, self.buffers))


Payload = bytes | LargePayload


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
        _, *fields = _unpacked(_HELLO, frame, FrameKind.HELLO)
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


def version_of(frame: Frame) -> int:
    """The version of the frames that the sender of a `Hello` uses; the rest depends on the version.

    Raises:
        FrameError: It is something else.
    """
    if frame.kind is not FrameKind.HELLO or len(frame.body) < _GREETING.size:
        raise FrameError(f"a frame {frame.kind.name} of {len(frame.body)} bytes instead of HELLO")
    magic, version = _GREETING.unpack_from(frame.body)
    if magic != MAGIC:
        raise FrameError("it does not begin with Tidegate's magic bytes")
    return int(version)


def refusal_frame(why: Refusal) -> Frame:
    """Says to the other end why the connection is closed."""
    return Frame(FrameKind.REFUSAL, bytes([why]))


def refusal_of(frame: Frame) -> Refusal:
    """The reverse of `refusal_frame`. Raises `FrameError` if it is something else."""
    try:
        return Refusal(frame.body[0] if len(frame.body) == 1 else 0)
    except ValueError as error:
        raise FrameError("a refusal without a known reason") from error


def data_parts(
    received: int, channel: ChannelId, sequence_number: int, kind: DataKind, payload: Payload
) -> tuple[Bytes, ...]:
    """The frame of a message on a channel, in pieces that need not be joined.

    Args:
        received: How many numbered frames this end has received.
        channel: The channel.
        sequence_number: The message's number in its channel.
        kind: What the message is for.
        payload: The elements; the pieces refer to its memory.
    """
    head = _DATA.pack(
        received, channel.edge_id, channel.upstream_index, channel.downstream_index, sequence_number, kind
    )
    if isinstance(payload, bytes):
        return PREFIX.pack(len(head) + len(payload), FrameKind.DATA, 0) + head, payload
    buffers = payload.buffers
    prefix = PREFIX.pack(len(head) + len(payload.data), FrameKind.DATA, len(buffers))
    lengths = b"".join([LENGTH.pack(len(buffer)) for buffer in buffers])
    return prefix + lengths + head, payload.data, *buffers


def data_of(frame: Frame) -> tuple[int, ChannelId, int, DataKind, Payload]:
    """The reverse of `data_parts`.

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
    data = frame.body[_DATA.size :]
    payload = data if isinstance(data, bytes) and not frame.buffers else LargePayload(data, frame.buffers)
    return received, ChannelId(edge, upstream, downstream), number, what, payload


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
