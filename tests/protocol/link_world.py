"""Two processes with a link between them, and a network that cuts, delays and splits what it carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tidegate.protocol.channels.frame_reader import FrameReader
from tidegate.protocol.channels.frames import (
    VERSION,
    Bytes,
    Challenge,
    DataKind,
    Frame,
    FrameError,
    FrameKind,
    Hello,
    LargePayload,
    Payload,
    Proof,
    Refusal,
    bare_frame,
    credit_frame,
    credit_of,
    data_of,
    data_parts,
    refusal_frame,
    refusal_of,
)
from tidegate.protocol.channels.link import (
    Dialer,
    LinkId,
    LinkRefused,
    Listener,
    Progress,
    confirmed_by,
    ends_link,
)
from tidegate.protocol.channels.link_watch import LinkAction, LinkWatch
from tidegate.protocol.ids import Attempt, ChannelId

from .link_network import Connection

SECRET = b"s" * 32
CHANNEL = ChannelId(7, 1, 2)
ATTEMPT = Attempt(5)
TIMEOUT_MS = 60_000
HANDSHAKE_MS = 5_000
KERNEL_MS = 5_000
"""After this time the kernel ends a connection that is silent."""
CALM_MS = 5
"""Between two reads when no more faults occur."""
PASSING = tuple(each for each in Refusal if each is not Refusal.PROGRESS)
"""Refusals of one connection, after which another one may be accepted."""


@dataclass(eq=False)
class Shaking:
    """A handshake under way at one end."""

    connection: Connection
    answers: Dialer | Listener
    deadline_ms: int
    reader: FrameReader = field(default_factory=FrameReader)


class End:
    """One process's end of the link, and the handshakes and the connection that it is in."""

    def __init__(self, world: LinkWorld, number: int) -> None:
        self.world = world
        self.link = LinkId(ATTEMPT, number, 1 - number)
        self.progress = Progress()
        self.watch = LinkWatch(TIMEOUT_MS, self.link.dials, 0)
        self.connection: Connection | None = None
        self.reader = FrameReader()
        self.dialing: Shaking | None = None
        self.listening: list[Shaking] = []
        self.refuses: list[Refusal] = []
        """Why this end refuses the next proofs."""
        self.is_deployed = True
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
            self.connection.write(self.link.theirs, data)

    # ------------------------------------------------------------ connections

    def look(self, now_ms: int) -> None:
        """Do what is due."""
        for each in [*self.listening, *([self.dialing] if self.dialing else [])]:
            if each.deadline_ms <= now_ms:
                self.lose(each.connection, "the other end did not answer the handshake in time")
        action = self.watch.look(
            now_ms, self.dialing is not None, self.progress.confirmed < self.progress.sent
        )
        if action is LinkAction.DIAL:
            self._dial()
        elif action is LinkAction.PING:
            self.ping()
        elif action is LinkAction.BREAK and self.connection is not None:
            self.lose(self.connection, "silent")
        elif action is LinkAction.FAIL:
            self.world.problems.append(f"end {self.link.mine} gives up: {self.watch.cause}")

    def _dial(self) -> None:
        """Begin a handshake."""
        connection = self.world.new_connection()
        dialer = Dialer(self.link, SECRET, self.world.nonce(), self.progress.received)
        self.dialing = Shaking(connection, dialer, self.world.now_ms + HANDSHAKE_MS)
        connection.write(self.link.theirs, dialer.hello.encoded())
        self.world.reaches(connection, self.link.theirs)

    def accept(self, connection: Connection) -> None:
        """Another process has opened a connection."""

        def secret_of(link: LinkId) -> bytes:
            assert link == self.link
            if not self.is_deployed:
                raise LinkRefused(Refusal.ATTEMPT_UNKNOWN)
            return SECRET

        listener = Listener(secret_of, lambda _: self.progress.received, self.world.nonce())
        self.listening.append(Shaking(connection, listener, self.world.now_ms + HANDSHAKE_MS))

    def read(self, connection: Connection, most: int) -> None:
        """Take some bytes of a connection."""
        wire = connection.wires[self.link.mine]
        data, wire.bytes = bytes(wire.bytes[:most]), wire.bytes[most:]
        try:
            if connection is self.connection:
                self._feed(self.reader, data)
                self._take_frames()
            elif self.dialing is not None and connection is self.dialing.connection:
                self._dialing(self.dialing, data)
            else:
                self._listening(connection, data)
        except (FrameError, LinkRefused) as error:
            self._failed(connection, error)
        if wire.is_cut and not wire.bytes:
            self.lose(connection, "the other end closed the connection")

    def _failed(self, connection: Connection, error: FrameError | LinkRefused) -> None:
        is_final = connection is self.connection and ends_link(error)
        if is_final or isinstance(error, FrameError):
            self.world.problems.append(f"{type(error).__name__}: {error}")
        is_mine = any(each.connection is connection for each in self.listening)
        if is_mine and isinstance(error, LinkRefused):
            connection.write(self.link.theirs, refusal_frame(error.why).encoded())
        self.lose(connection, str(error))

    def lose(self, connection: Connection, cause: str) -> None:
        """This end closes a connection, or sees that it has ended."""
        connection.close(self.link.mine)
        if connection is self.connection:
            self.connection = None
            self.watch.down(cause)
        if self.dialing is not None and connection is self.dialing.connection:
            self.dialing = None
            self.watch.down(cause)
        self.listening = [each for each in self.listening if each.connection is not connection]

    @staticmethod
    def _feed(reader: FrameReader, data: bytes) -> None:
        left = data
        for buffer in reader.buffers():
            part, left = left[: len(buffer)], left[len(buffer) :]
            buffer[: len(part)] = part
        assert not left
        reader.received(len(data))

    def _dialing(self, shaking: Shaking, data: bytes) -> None:
        assert isinstance(shaking.answers, Dialer)
        self._feed(shaking.reader, data)
        frame = shaking.reader.next_frame()
        if frame is None:
            return
        if frame.kind is FrameKind.REFUSAL:
            raise LinkRefused(refusal_of(frame))
        proof, received = shaking.answers.answer(frame)
        shaking.connection.write(self.link.theirs, proof.encoded())
        self.dialing = None
        self._resume(shaking, received)

    def _listening(self, connection: Connection, data: bytes) -> None:
        for shaking in self.listening:
            if shaking.connection is connection:
                self._feed(shaking.reader, data)
                self._shake_hands(shaking)
                return

    def _shake_hands(self, shaking: Shaking) -> None:
        assert isinstance(shaking.answers, Listener)
        while (frame := shaking.reader.next_frame()) is not None:
            answer = shaking.answers.answer(frame)
            if isinstance(answer, Frame):
                shaking.connection.write(self.link.theirs, answer.encoded())
                continue
            if self.refuses:
                raise LinkRefused(self.refuses.pop())
            self.listening.remove(shaking)
            self._resume(shaking, answer)
            return

    def _resume(self, shaking: Shaking, received: int) -> None:
        if self.connection is not None:
            self.connection.close(self.link.mine)
        shaking.reader.is_proved = True
        self.connection, self.reader = shaking.connection, shaking.reader
        self.watch.up()
        for parts in self.progress.resumes(received):
            self._write(b"".join(parts))
        self._take_frames()

    # ------------------------------------------------------------ in

    def _take_frames(self) -> None:
        self.watch.heard()
        while (frame := self.reader.next_frame()) is not None:
            self._take(frame)
            self.watch.works()

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.DATA:
            received, channel, number, _, payload = data_of(frame)
            assert channel == CHANNEL
            data, buffers = (payload, ()) if isinstance(payload, bytes) else (payload.data, payload.buffers)
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
            self.progress.confirms(confirmed_by(frame))
            if frame.kind is FrameKind.PING:
                self._write(bare_frame(FrameKind.PONG, self.progress.received).encoded())


class LinkWorld:
    """Everything that can happen to a link, as a seed says."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.connections: list[Connection] = []
        self.opened = 0
        self.silent: list[tuple[Connection, int]] = []
        """Silent connections, and when the kernel ends them."""
        self.ends = {number: End(self, number) for number in (0, 1)}
        self.sent = {0: 0, 1: 0}
        self.credited = {0: 0, 1: 0}
        self.problems: list[str] = []
        self.is_calm = False

    def nonce(self) -> bytes:
        return self.random.randbytes(32)

    def new_connection(self) -> Connection:
        connection = Connection()
        self.connections.append(connection)
        self.opened += 1
        return connection

    def reaches(self, connection: Connection, dialed: int) -> None:
        """A connection is opened; sometimes it reaches a process that does not know the secret."""
        if self.is_calm or self.random.random() > 0.1:
            self.ends[dialed].accept(connection)
        elif self.random.random() < 0.5:
            connection.write(1 - dialed, refusal_frame(self.random.choice(list(Refusal))).encoded())
            connection.close(dialed)
        else:
            connection.write(1 - dialed, Challenge(self.nonce(), 0, self.nonce()).frame().encoded())

    def stranger(self) -> None:
        """A process that does not know the secret opens a connection."""
        connection = self.new_connection()
        for frame in (Hello(VERSION, ATTEMPT, 0, 1, self.nonce()), Proof(0, self.nonce())):
            connection.write(1, frame.frame().encoded())
        connection.close(0)
        self.ends[1].accept(connection)

    def step(self) -> None:
        """One thing happens."""
        random, kind = self.random, self.random.random()
        self.now_ms += random.choice((0, 0, 1, 60, 200))
        end = self.ends[random.randrange(2)]
        mine = end.link.mine
        if kind < 0.25:
            self.send(end)
        elif kind < 0.35:
            self.credited[mine] += 1
            end.give_credit(self.credited[mine])
        elif kind < 0.39:
            end.ping()
        elif kind < 0.46 and self.connections:
            self.fault(random.choice(self.connections[-2:]))
        elif kind < 0.5:
            self.refusal()
        else:
            self.carry(end, random.choice((1, 7, 100, 5_000, 60_000)))

    def send(self, end: End) -> None:
        """An end sends its next message."""
        end.send(self.sent[end.link.mine])
        self.sent[end.link.mine] += 1

    def fault(self, connection: Connection) -> None:
        """Something happens to a connection."""
        if self.random.random() < 0.2:
            connection.fall_silent()
            self.silent.append((connection, self.now_ms + KERNEL_MS))
        else:
            connection.cut(self.random, loses=self.random.random() < 0.7)

    def refusal(self) -> None:
        """A process is refused, or will be."""
        listener = self.ends[1]
        kind = self.random.random()
        if kind < 0.4:
            listener.refuses.append(self.random.choice(PASSING))
        elif kind < 0.7:
            listener.is_deployed = not listener.is_deployed
        else:
            self.stranger()

    def carry(self, end: End, most: int) -> None:
        """An end reads, and does what is due."""
        for connection, until_ms in self.silent:
            if until_ms <= self.now_ms:
                connection.cut(self.random, loses=True)
        self.silent = [each for each in self.silent if each[1] > self.now_ms]
        readable = [each for each in self.connections if each.can_read(end.link.mine)]
        if readable:
            connection = self.random.choice(readable)
            end.read(connection, min(most, self._room(end, connection)))
        end.look(self.now_ms)

    @staticmethod
    def _room(end: End, connection: Connection) -> int:
        if connection is end.connection:
            return sum(map(len, end.reader.buffers()))
        return 1_000

    def settle(self) -> None:
        """No more faults: everything that was sent arrives, or something is wrong."""
        self.is_calm = self.ends[1].is_deployed = True
        for connection in self.connections:
            connection.cut(self.random, loses=True)
        for _ in range(100_000):
            if self.is_quiet() or self.problems:
                return
            self.now_ms += CALM_MS
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
