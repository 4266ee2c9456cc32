"""Two processes with a link between them, and a network that cuts, delays and splits what it carries."""

from __future__ import annotations

from random import Random

from tidegate.protocol.frame_reader import FrameReader
from tidegate.protocol.frames import (
    Bytes,
    DataKind,
    Frame,
    FrameError,
    FrameKind,
    LargePayload,
    Payload,
    bare_frame,
    credit_frame,
    credit_of,
    data_of,
    data_parts,
    received_of,
)
from tidegate.protocol.ids import Attempt, ChannelId
from tidegate.protocol.link import Dialer, LinkId, LinkRefused, Listener, Progress

SECRET = b"s" * 32
CHANNEL = ChannelId(7, 1, 2)
ATTEMPT = Attempt(5)


class Wire:
    """One direction of a connection: bytes that were written and not read.

    Where it `is_cut`, the reader sees its end behind them.
    """

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.is_cut = False


class Connection:
    """Both directions. A connection that is lost may still hold bytes that its reader has not seen."""

    def __init__(self) -> None:
        self.wires = {0: Wire(), 1: Wire()}
        """By the number of the reader."""


class End:
    """One process's end of the link, and the handshake or connection that it is in."""

    def __init__(self, world: LinkWorld, number: int) -> None:
        self.world = world
        self.link = LinkId(ATTEMPT, number, 1 - number)
        self.progress = Progress()
        self.connection: Connection | None = None
        self.reader = FrameReader()
        self.dialing: tuple[Connection, Dialer, FrameReader] | None = None
        self.listening: list[tuple[Connection, Listener, FrameReader]] = []
        self.got: list[int] = []
        self.credits: list[int] = []

    # ------------------------------------------------------------ out

    def send(self, number: int) -> None:
        random = self.world.random
        payload: Payload = str(number).encode() * random.choice((1, 3, 40_000))
        if random.random() < 0.3:
            sizes = random.choices((0, 1, 900, 70_000), k=random.randrange(4))
            payload = LargePayload(payload, tuple(memoryview(bytes([number % 256]) * size) for size in sizes))
        self._numbered(data_parts(self.progress.received, CHANNEL, number, DataKind.ELEMENTS, payload))

    def give_credit(self, size_bytes: int) -> None:
        frame = credit_frame(self.progress.received, [(CHANNEL, size_bytes)])
        self._numbered((frame.encoded(),))

    def ping(self) -> None:
        self._write(bare_frame(FrameKind.PING, self.progress.received).encoded())

    def _numbered(self, parts: tuple[Bytes, ...]) -> None:
        self.progress.sends(parts)
        self._write(b"".join(parts))

    def _write(self, data: bytes) -> None:
        if self.connection is not None:
            self.world.write(self.connection, 1 - self.link.mine, data)

    # ------------------------------------------------------------ connections

    def dial(self) -> None:
        """Open a connection, after the one before was closed here."""
        self.connection = None
        connection = Connection()
        self.world.connections.append(connection)
        dialer = Dialer(self.link, SECRET, self.world.nonce(), self.progress.received)
        self.dialing = (connection, dialer, FrameReader())
        self.world.write(connection, self.link.theirs, dialer.hello.encoded())
        self.world.ends[self.link.theirs].accept(connection)

    def accept(self, connection: Connection) -> None:
        listener = Listener(self._secret_of, lambda _: self.progress.received, self.world.nonce())
        self.listening.append((connection, listener, FrameReader()))

    def _secret_of(self, link: LinkId) -> bytes:
        assert link == self.link
        return SECRET

    def read(self, connection: Connection, most: int) -> None:
        """Take some bytes of a connection."""
        wire = connection.wires[self.link.mine]
        data, wire.bytes = bytes(wire.bytes[:most]), wire.bytes[most:]
        try:
            if connection is self.connection:
                self._feed(self.reader, data)
                self._take_frames(self.reader)
            elif self.dialing is not None and connection is self.dialing[0]:
                self._dialing(data)
            else:
                self._listening(connection, data)
        except (FrameError, LinkRefused) as error:
            self.lose(connection)
            self.world.problem(connection, error)
        if wire.is_cut and not wire.bytes:
            self.lose(connection)

    def lose(self, connection: Connection) -> None:
        """This end sees that a connection has ended."""
        if connection is self.connection:
            self.connection = None
        if self.dialing is not None and connection is self.dialing[0]:
            self.dialing = None
        self.listening = [each for each in self.listening if each[0] is not connection]

    @staticmethod
    def _feed(reader: FrameReader, data: bytes) -> None:
        left = data
        for buffer in reader.buffers():
            part, left = left[: len(buffer)], left[len(buffer) :]
            buffer[: len(part)] = part
        assert not left
        reader.received(len(data))

    def _dialing(self, data: bytes) -> None:
        assert self.dialing is not None
        connection, dialer, reader = self.dialing
        self._feed(reader, data)
        frame = reader.next_frame()
        if frame is not None:
            proof, received = dialer.answer(frame)
            self.world.write(connection, self.link.theirs, proof.encoded())
            self.dialing = None
            self._resume(connection, reader, received)

    def _listening(self, connection: Connection, data: bytes) -> None:
        for known, listener, reader in self.listening:
            if known is connection:
                self._feed(reader, data)
                self._shake_hands(connection, listener, reader)
                return

    def _shake_hands(self, connection: Connection, listener: Listener, reader: FrameReader) -> None:
        while (frame := reader.next_frame()) is not None:
            answer = listener.answer(frame)
            if isinstance(answer, Frame):
                self.world.write(connection, self.link.theirs, answer.encoded())
            else:
                self.listening = [each for each in self.listening if each[0] is not connection]
                self._resume(connection, reader, answer)
                return

    def _resume(self, connection: Connection, reader: FrameReader, received: int) -> None:
        reader.is_proved = True
        self.connection, self.reader = connection, reader
        for parts in self.progress.resumes(received):
            self._write(b"".join(parts))
        self._take_frames(reader)

    # ------------------------------------------------------------ in

    def _take_frames(self, reader: FrameReader) -> None:
        while (frame := reader.next_frame()) is not None:
            if frame.kind is FrameKind.DATA:
                received, channel, number, _, payload = data_of(frame)
                assert channel == CHANNEL
                data, buffers = (
                    (payload, ()) if isinstance(payload, bytes) else (payload.data, payload.buffers)
                )
                assert bytes(data).replace(str(number).encode(), b"") == b""
                assert all(set(buffer) <= {number % 256} for buffer in buffers)
                self.progress.confirms(received)
                self.got.append(number)
                self.progress.received += 1
            elif frame.kind is FrameKind.CREDIT:
                received, credits = credit_of(frame)
                self.progress.confirms(received)
                self.credits += [size_bytes for _, size_bytes in credits]
                self.progress.received += 1
            else:
                self.progress.confirms(received_of(frame))
                if frame.kind is FrameKind.PING:
                    self._write(bare_frame(FrameKind.PONG, self.progress.received).encoded())


class LinkWorld:
    """Everything that can happen to a link, as a seed says."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.connections: list[Connection] = []
        self.ends = {number: End(self, number) for number in (0, 1)}
        self.sent = {0: 0, 1: 0}
        self.credited = {0: 0, 1: 0}
        self.problems: list[str] = []

    def nonce(self) -> bytes:
        return self.random.randbytes(32)

    def write(self, connection: Connection, reader: int, data: bytes) -> None:
        wire = connection.wires[reader]
        if not wire.is_cut:
            wire.bytes += data

    def problem(self, connection: Connection, error: Exception) -> None:
        """An end closes a connection because of what came on it; only a refusal may be, for the next try."""
        if isinstance(error, LinkRefused) and error.why.name == "BUSY":
            self.cut(connection, loses=False)
        else:
            self.problems.append(f"{type(error).__name__}: {error}")

    def cut(self, connection: Connection, loses: bool) -> None:
        """A connection is lost: each end sees that when it has read what the network still brings."""
        for wire in connection.wires.values():
            wire.is_cut = True
            if loses and wire.bytes:
                del wire.bytes[self.random.randrange(len(wire.bytes)) :]

    def step(self) -> None:
        """One thing happens."""
        random, kind = self.random, self.random.random()
        end = self.ends[random.randrange(2)]
        mine = end.link.mine
        if kind < 0.25:
            end.send(self.sent[mine])
            self.sent[mine] += 1
        elif kind < 0.35:
            self.credited[mine] += 1
            end.give_credit(self.credited[mine])
        elif kind < 0.4:
            end.ping()
        elif kind < 0.47 and self.connections:
            self.cut(random.choice(self.connections[-2:]), loses=random.random() < 0.7)
        else:
            self.carry(end, random.choice((1, 7, 100, 5_000, 60_000)))

    def carry(self, end: End, most: int) -> None:
        """An end reads, or dials if it has no connection."""
        mine = self.ends[end.link.mine]
        readable = [
            each
            for each in self.connections
            if each.wires[mine.link.mine].bytes or each.wires[mine.link.mine].is_cut
        ]
        if readable:
            connection = self.random.choice(readable)
            mine.read(connection, min(most, self._room(mine, connection)))
        if mine.link.dials and mine.connection is None and mine.dialing is None:
            mine.dial()

    @staticmethod
    def _room(end: End, connection: Connection) -> int:
        if connection is end.connection:
            return sum(map(len, end.reader.buffers()))
        return 1_000

    def settle(self) -> None:
        """No more faults: everything that was sent arrives, or something is wrong."""
        for connection in self.connections:
            self.cut(connection, loses=True)
        for _ in range(100_000):
            if self.is_quiet() or self.problems:
                return
            for end in self.ends.values():
                self.carry(end, 60_000)
        self.problems.append("what was sent never arrives")

    def is_quiet(self) -> bool:
        """Whether everything has arrived."""
        return all(
            len(self.ends[1 - number].got) >= self.sent[number]
            and len(self.ends[1 - number].credits) >= self.credited[number]
            for number in (0, 1)
        )

    def check(self) -> list[str]:
        """What is wrong in the end."""
        problems = list(self.problems)
        for number in (0, 1):
            other = self.ends[1 - number]
            if other.got != list(range(self.sent[number])):
                problems.append(f"end {1 - number} got {other.got[:20]}")
            if other.credits != list(range(1, self.credited[number] + 1)):
                problems.append(f"end {1 - number} got credit {other.credits[:20]}")
        return problems


def run_link(seed: int, steps: int = 120) -> list[str]:
    """What went wrong with the link of a seed."""
    world = LinkWorld(seed)
    for _ in range(steps):
        world.step()
        if world.problems:
            return world.check()
    world.settle()
    return world.check()
