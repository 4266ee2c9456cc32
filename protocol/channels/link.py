"""One end of a direct connection between two task processes, which outlives the sockets below it.

Frames with records or credit are numbered by counting. An end keeps those that the other has not confirmed;
after a connection was lost and opened again, each says how many it has received, and the other sends what
comes after. So every numbered frame arrives once and in order, or the link fails. What is kept is bounded by
the credit of the channels: a receiver that gives credit back confirms what it received.

Handshake, for a secret that only the processes of one attempt know:

    end        event               answer
    dialer     the socket is open  Hello(attempt, both processes, a nonce)
    listener   Hello               Challenge(a nonce, its received, mac over all of that), or a refusal
    dialer     Challenge           if the mac is right: Proof(its received, mac over all of that), then frames
    listener   Proof               if the mac is right: frames; else a refusal

A mac is HMAC-SHA256 of what both have said so far and of who says it, so no answer can be used twice or
sent back to its author. Nothing else that arrives is looked at before. Over TLS, `bound_secret` replaces the
secret, so that a third process with a certificate cannot pass the answers on.

The dialer sends frames directly after its proof, without an answer to it. A refusal of the proof therefore
arrives like a frame of a connection in use.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ids import Attempt
from .frames import (
    VERSION,
    Bytes,
    Challenge,
    Frame,
    FrameError,
    FrameKind,
    Hello,
    Proof,
    Refusal,
    received_of,
    refusal_of,
    version_of,
)

Parts = tuple[Bytes, ...]
"""One encoded frame, in pieces that need not be joined."""


class LinkRefused(Exception):
    """The other end is not who it should be, or lost something. `why` is what it is told."""

    def __init__(self, why: Refusal) -> None:
        super().__init__(why.explanation)
        self.why = why


@dataclass(frozen=True, slots=True)
class LinkId:
    """Both ends of a link.

    Attributes:
        attempt: The attempt that both processes run.
        mine: This process's number within the attempt.
        theirs: The number of the process at the other end.
    """

    attempt: Attempt
    mine: int
    theirs: int

    @property
    def dials(self) -> bool:
        """Whether this end opens the connection."""
        return self.mine < self.theirs


def bound_secret(secret: bytes, binding: bytes) -> bytes:
    """The secret for one connection with TLS.

    Args:
        secret: That of the attempt.
        binding: The certificates that both ends see on this connection; empty without TLS.
    """
    return hmac.digest(secret, b"tls" + binding, "sha256") if binding else secret


def confirmed_by(frame: Frame) -> int:
    """Take a frame that arrived after the handshake and has neither a message nor credit.

    Returns:
        How many numbered frames the other end has received.

    Raises:
        LinkRefused: The listener refused the proof. It has taken nothing that followed the proof.
        FrameError: The frame belongs to a handshake.
    """
    if frame.kind is FrameKind.REFUSAL:
        raise LinkRefused(refusal_of(frame))
    if frame.kind not in (FrameKind.PING, FrameKind.PONG):
        raise FrameError(f"a frame {frame.kind.name} after the handshake")
    return received_of(frame)


def ends_link(error: FrameError | LinkRefused) -> bool:
    """Whether a new connection cannot help after what happened on one whose other end is proved.

    Damage would be repeated, and so would a disagreement on what was received. Any other refusal concerns
    this connection only: the listener may still read the previous one, or may not be deployed yet. If all
    connections are refused, the link fails when `LinkWatch` gives it up.
    """
    return isinstance(error, FrameError) or error.why is Refusal.PROGRESS


class Progress:
    """What one end of a link has sent and received, in numbered frames."""

    def __init__(self) -> None:
        self.sent = 0
        """Frames that this end has numbered."""
        self.confirmed = 0
        """Those of them that the other end has received for certain."""
        self.received = 0
        """Frames that came from the other end."""
        self._kept: deque[Parts] = deque()

    def sends(self, parts: Parts) -> None:
        """A frame gets its number; it is kept until it is confirmed."""
        self.sent += 1
        self._kept.append(parts)

    def confirms(self, received: int) -> None:
        """The other end says how many frames it has received.

        Raises:
            FrameError: It claims more than was sent.
        """
        if received > self.sent:
            raise FrameError(f"it confirms {received} frames of {self.sent}")
        # A frame that was sent again carries an older count.
        while self.confirmed < received:
            self._kept.popleft()
            self.confirmed += 1

    def resumes(self, received: int) -> Sequence[Parts]:
        """The other end has a new connection; returns what to send on it first.

        Raises:
            LinkRefused: It lacks frames that are not kept any more, or claims some that were never sent.
        """
        if not self.confirmed <= received <= self.sent:
            raise LinkRefused(Refusal.PROGRESS)
        self.confirms(received)
        return tuple(self._kept)


class Dialer:
    """The handshake of the end that opens a connection.

    Args:
        link: Both ends.
        secret: That of the attempt.
        nonce: 32 random bytes that were never used before.
        received: How many numbered frames this end has received.
    """

    def __init__(self, link: LinkId, secret: bytes, nonce: bytes, received: int) -> None:
        self._secret = secret
        self._received = received
        self.hello = Hello(VERSION, link.attempt, link.mine, link.theirs, nonce).frame()

    def answer(self, frame: Frame) -> tuple[Frame, int]:
        """Take the listener's challenge.

        Returns:
            The proof, and how many numbered frames the listener has received.

        Raises:
            LinkRefused: The listener does not know the secret.
            FrameError: It is no challenge.
        """
        challenge = Challenge.of(frame)
        if not _is_right(self._secret, challenge.mac, b"listener", self.hello, challenge):
            raise LinkRefused(Refusal.SECRET)
        mac = _mac(self._secret, b"dialer", self.hello, challenge, self._received)
        return Proof(self._received, mac).frame(), challenge.received


@dataclass(frozen=True, slots=True)
class _Greeted:
    """A dialer that has said what it is."""

    link: LinkId
    secret: bytes
    hello: Frame
    challenge: Challenge


class Listener:
    """The handshake of the end to which a connection was opened.

    Args:
        secret_of: The secret for what a stranger says it is. Raises `LinkRefused` for what is not expected.
        received_of: How many numbered frames this end has received from that process.
        nonce: 32 random bytes that were never used before.
    """

    def __init__(
        self,
        secret_of: Callable[[LinkId], bytes],
        received_of: Callable[[LinkId], int],
        nonce: bytes,
    ) -> None:
        self._secret_of = secret_of
        self._received_of = received_of
        self._nonce = nonce
        self._greeted: _Greeted | None = None

    @property
    def link(self) -> LinkId | None:
        """What the other end says it is; not to be believed before `answer` has returned a count."""
        return None if self._greeted is None else self._greeted.link

    def answer(self, frame: Frame) -> Frame | int:
        """Take a frame of the dialer.

        Returns:
            The challenge to send, or, when the dialer is proved, how many numbered frames it has received.

        Raises:
            LinkRefused: It is none of the peers of this process, or does not know the secret.
            FrameError: It is no frame of a handshake.
        """
        return self._greet(frame) if self._greeted is None else self._check(frame, self._greeted)

    def _greet(self, frame: Frame) -> Frame:
        if version_of(frame) != VERSION:
            raise LinkRefused(Refusal.VERSION)
        hello = Hello.of(frame)
        link = LinkId(Attempt(hello.attempt), hello.receiver, hello.sender)
        secret, received = self._secret_of(link), self._received_of(link)
        mac = _mac(secret, b"listener", frame, Challenge(self._nonce, received, b""), None)
        challenge = Challenge(self._nonce, received, mac)
        self._greeted = _Greeted(link, secret, frame, challenge)
        return challenge.frame()

    def _check(self, frame: Frame, dialer: _Greeted) -> int:
        proof = Proof.of(frame)
        expected = _mac(dialer.secret, b"dialer", dialer.hello, dialer.challenge, proof.received)
        if not hmac.compare_digest(expected, proof.mac):
            raise LinkRefused(Refusal.SECRET)
        if self._received_of(dialer.link) != dialer.challenge.received:
            # On the connection before, which had not ended here: the dialer would send that again.
            raise LinkRefused(Refusal.BUSY)
        return proof.received


def _mac(secret: bytes, who: bytes, hello: Frame, challenge: Challenge, received: int | None) -> bytes:
    said = (
        who,
        bytes(hello.body),
        challenge.nonce,
        challenge.received.to_bytes(8, "big"),
        b"" if received is None else received.to_bytes(8, "big"),
    )
    return hmac.digest(secret, b"".join(said), "sha256")


def _is_right(secret: bytes, mac: bytes, who: bytes, hello: Frame, challenge: Challenge) -> bool:
    return hmac.compare_digest(_mac(secret, who, hello, challenge, None), mac)
