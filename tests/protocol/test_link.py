"""A link delivers every numbered frame once and in order, whatever happens to the connections below it."""

from __future__ import annotations

import hmac
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tidegate.protocol.channels import link as link_module
from tidegate.protocol.channels.frame_reader import FrameReader, new_scratch
from tidegate.protocol.channels.frame_reader import _LargeFrame as LargeFrame
from tidegate.protocol.channels.frames import (
    LIMIT_BYTES,
    MAX_BUFFERS,
    PREFIX,
    DataKind,
    Frame,
    FrameKind,
    Hello,
    LargePayload,
    Refusal,
    data_of,
    data_parts,
    refusal_frame,
)
from tidegate.protocol.channels.link import Dialer, LinkId, LinkRefused, Listener, Progress
from tidegate.protocol.channels.link_watch import LONGEST_PAUSE_MS, LinkWatch
from tidegate.protocol.ids import Attempt, ChannelId

from ..simulation.mutants.base import Mutant
from . import link_world
from .link_world import ATTEMPT, PASSING, SECRET, TIMEOUT_MS, LinkWorld, run_link

SEEDS = 300


@pytest.mark.parametrize("first", range(0, SEEDS, 100))
def test_everything_arrives_once_and_in_order_over_connections_that_are_lost(first: int) -> None:
    for seed in range(first, first + 100):
        assert run_link(seed) == [], f"seed {seed}"


def gives_up_in_time(seed: int) -> bool:
    """Whether both ends give a link up whose proofs are all refused, after few attempts."""
    world = LinkWorld(seed)
    world.is_calm = True
    world.ends[1].refuses += [world.random.choice(PASSING)] * 10_000
    while len(world.problems) < 2 and world.now_ms < 2 * TIMEOUT_MS:
        world.now_ms += 50
        for end in world.ends.values():
            world.carry(end, 1_000)
    assert all("gives up" in problem for problem in world.problems)
    return len(world.problems) == 2 and world.opened < 2 * TIMEOUT_MS // LONGEST_PAUSE_MS


def test_a_link_whose_proofs_are_all_refused_is_given_up_after_a_few_attempts() -> None:
    assert all(gives_up_in_time(seed) for seed in range(3))


REFUSAL_BYTES = len(refusal_frame(Refusal.BUSY).encoded())


@pytest.mark.parametrize("piece_bytes", range(1, REFUSAL_BYTES + 1))
def test_a_refusal_of_the_proof_may_arrive_in_pieces_among_what_both_ends_send(piece_bytes: int) -> None:
    for before, between, why in itertools.product(range(3), range(3), PASSING):
        world = LinkWorld(1)
        dialer, listener = world.ends[0], world.ends[1]
        world.is_calm = True
        listener.refuses = [why]
        for _ in range(before):
            world.send(dialer)
            world.send(listener)
        while listener.refuses:
            for end in (dialer, listener):
                world.carry(end, 1_000)
        assert dialer.connection is not None
        for _ in range(between):
            world.send(dialer)
        while dialer.connection is not None and dialer.connection.can_read(0):
            dialer.read(dialer.connection, piece_bytes)
            world.send(dialer)
        assert world.opened == 1
        world.settle()
        assert world.check() == []
        assert world.opened == 2


# ---------------------------------------------------------------- planted bugs


def _resumes_nothing(original: Any) -> Any:
    return lambda self, received: (original(self, received), ())[1]


def _resumes_one_late(original: Any) -> Any:
    return lambda self, received: original(self, received)[1:]


def _resumes_one_early(original: Any) -> Any:
    def resumes(self: Progress, received: int) -> Any:
        last = self._kept[0] if self._kept else None
        parts = original(self, received)
        return (last, *parts) if last is not None and last not in parts else parts

    return resumes


def _resumes_unchecked(original: Any) -> Any:
    def resumes(self: Progress, received: int) -> Any:
        return tuple(self._kept)

    return resumes


def _confirms_one_too_many(original: Any) -> Any:
    def confirms(self: Progress, received: int) -> None:
        original(self, min(self.sent, received + 1))

    return confirms


def _confirms_nothing_after_sending_again(original: Any) -> Any:
    def confirms(self: Progress, received: int) -> None:
        if received < self.confirmed:
            raise link_module.FrameError("an older count")
        original(self, received)

    return confirms


def _sends_unnumbered(original: Any) -> Any:
    def sends(self: Progress, parts: Any) -> None:
        if len(parts) > 1:
            original(self, parts)

    return sends


def _old_connection_still_counts(original: Any) -> Any:
    def check(self: Listener, frame: Any, dialer: Any) -> int:
        received_of, self._received_of = self._received_of, lambda _: dialer.challenge.received
        try:
            return int(original(self, frame, dialer))
        finally:
            self._received_of = received_of

    return check


def _loses_the_rest_of_a_piece(original: Any) -> Any:
    def buffers(self: FrameReader) -> Any:
        self._rest = b""
        return original(self)

    return buffers


def _forgets_start_of_large(original: Any) -> Any:
    def begin(self: FrameReader, kind: FrameKind, length: int, buffers: int, start: int) -> Any:
        self._filled = min(self._filled, start + 8 * buffers)
        return original(self, kind, length, buffers, start)

    return begin


def _loses_what_follows_a_large(original: Any) -> Any:
    def take(self: FrameReader, large: Any) -> Any:
        frame = original(self, large)
        if frame is not None:
            self._start = self._filled
        return frame

    return take


def _exchanges_body_and_buffer(original: Any) -> Any:
    def frame(self: Any) -> Any:
        self._parts.reverse()
        return original(self)

    return frame


def _no_frame_after_the_handshake(original: Any) -> Any:
    def confirmed_by(frame: Frame) -> int:
        if frame.kind is FrameKind.REFUSAL:
            raise link_module.FrameError("a frame REFUSAL after the handshake")
        return int(original(frame))

    return confirmed_by


def _always(original: Any) -> Any:
    return lambda error: True


def _confirms_nothing(original: Any) -> Any:
    return lambda frame: 0 if frame.kind is FrameKind.REFUSAL else original(frame)


def _works_before_the_listener_accepts(original: Any) -> Any:
    def up(self: LinkWatch) -> None:
        original(self)
        self.works()

    return up


def _never_opens_again(original: Any) -> Any:
    def down(self: LinkWatch, cause: str) -> None:
        original(self, cause)
        if cause == Refusal.BUSY.explanation:
            self._dials = False

    return down


def _gives_up_what_is_refused(original: Any) -> Any:
    def resumes(self: Progress, received: int) -> Any:
        parts = original(self, received)
        self._kept.clear()
        self.confirmed = self.sent
        return parts

    return resumes


BUGS = [
    Mutant("no resumption", Progress, "resumes", _resumes_nothing),
    Mutant("resumption skips a frame", Progress, "resumes", _resumes_one_late),
    Mutant("resumption repeats a frame", Progress, "resumes", _resumes_one_early),
    Mutant("resumption ignores what was received", Progress, "resumes", _resumes_unchecked),
    Mutant("a frame too many is confirmed", Progress, "confirms", _confirms_one_too_many),
    Mutant("an older count is refused", Progress, "confirms", _confirms_nothing_after_sending_again),
    Mutant("credit is not numbered", Progress, "sends", _sends_unnumbered),
    Mutant("the connection before is read on", Listener, "_check", _old_connection_still_counts),
    Mutant("the rest of a piece is lost", FrameReader, "buffers", _loses_the_rest_of_a_piece),
    Mutant("the start of a large frame is lost", FrameReader, "_begin_large", _forgets_start_of_large),
    Mutant("what follows a large frame is lost", FrameReader, "_take_large", _loses_what_follows_a_large),
    Mutant("a buffer takes the place of the body", LargeFrame, "frame", _exchanges_body_and_buffer),
    # Cuts between real hosts found the next one, and this simulation did not: it carried no refusals.
    Mutant(
        "a refusal is no frame after the proof", link_world, "confirmed_by", _no_frame_after_the_handshake
    ),
    Mutant("every refusal ends the link", link_world, "ends_link", _always),
    Mutant("a refusal is taken for an answer", link_world, "confirmed_by", _confirms_nothing),
    Mutant("a refused connection worked", LinkWatch, "up", _works_before_the_listener_accepts),
    Mutant("no connection after a refusal", LinkWatch, "down", _never_opens_again),
    Mutant("what is sent after the proof has arrived", Progress, "resumes", _gives_up_what_is_refused),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.description)
def test_a_planted_bug_is_found(bug: Mutant) -> None:
    with bug.planted():
        assert any(_fails(seed) for seed in range(2_000)), f"{bug.description}: no seed finds it"


def _fails(seed: int) -> bool:
    try:
        return bool(run_link(seed)) or not gives_up_in_time(seed)
    except (AssertionError, IndexError, link_module.FrameError):
        return True


# ---------------------------------------------------------------- who may take part


def shake_hands(
    dialer: Dialer, listener: Listener, replay: Callable[[Any], Any] = lambda frame: frame
) -> int:
    challenge = listener.answer(dialer.hello)
    assert not isinstance(challenge, int)
    proof, _ = dialer.answer(challenge)
    received = listener.answer(replay(proof))
    assert isinstance(received, int)
    return received


def dialer_with(secret: bytes, attempt: Attempt = ATTEMPT, nonce: bytes = b"d" * 32) -> Dialer:
    return Dialer(LinkId(attempt, 0, 1), secret, nonce, 3)


def listener_with(secret: bytes, nonce: bytes = b"l" * 32) -> Listener:
    def secret_of(link: LinkId) -> bytes:
        if link.attempt != ATTEMPT:
            raise LinkRefused(Refusal.ATTEMPT_OVER)
        return secret

    return Listener(secret_of, lambda _: 8, nonce)


def test_a_handshake_with_the_secret_says_what_each_end_has_received() -> None:
    assert shake_hands(dialer_with(SECRET), listener_with(SECRET)) == 3


def test_a_listener_without_the_secret_is_refused() -> None:
    with pytest.raises(LinkRefused, match="did not prove that it knows the secret"):
        shake_hands(dialer_with(SECRET), listener_with(b"x" * 32))


def test_a_dialer_without_the_secret_is_refused() -> None:
    stranger, listener = dialer_with(b"x" * 32), listener_with(SECRET)
    listener.answer(stranger.hello)
    forged = hmac.digest(b"x" * 32, b"anything", "sha256")
    with pytest.raises(LinkRefused, match="did not prove"):
        listener.answer(link_module.Proof(3, forged).frame())


def test_a_proof_of_another_handshake_is_refused() -> None:
    dialer = dialer_with(SECRET)
    challenge = listener_with(SECRET, b"1" * 32).answer(dialer.hello)
    assert not isinstance(challenge, int)
    old_proof, _ = dialer.answer(challenge)
    with pytest.raises(LinkRefused, match="did not prove"):
        shake_hands(dialer_with(SECRET), listener_with(SECRET), lambda _: old_proof)


def test_a_proof_is_bound_to_the_count_that_it_carries() -> None:
    def changed(frame: Any) -> Any:
        proof = link_module.Proof.of(frame)
        return link_module.Proof(proof.received + 1, proof.mac).frame()

    with pytest.raises(LinkRefused, match="did not prove"):
        shake_hands(dialer_with(SECRET), listener_with(SECRET), changed)


def test_a_process_of_an_earlier_attempt_is_refused() -> None:
    with pytest.raises(LinkRefused, match="a later attempt"):
        shake_hands(dialer_with(SECRET, Attempt(4)), listener_with(SECRET))


def test_another_version_is_refused() -> None:
    hello = Hello(99, ATTEMPT, 0, 1, b"d" * 32).frame()
    with pytest.raises(LinkRefused, match="install one Tidegate everywhere"):
        listener_with(SECRET).answer(hello)


def test_a_stranger_cannot_announce_a_long_frame() -> None:
    reader = FrameReader()
    data = (1 << 30).to_bytes(8, "big") + bytes([FrameKind.HELLO, 0, 0])
    reader.buffers()[0][: len(data)] = data
    reader.received(len(data))
    with pytest.raises(link_module.FrameError, match="before the handshake is over"):
        reader.next_frame()


def proved_reader_of(data: bytes) -> FrameReader:
    reader = FrameReader()
    reader.is_proved = True
    reader.buffers()[0][: len(data)] = data
    reader.received(len(data))
    return reader


def test_a_frame_that_is_longer_than_the_limit_with_its_buffers_is_an_error() -> None:
    lengths = [(LIMIT_BYTES // 2 + 1).to_bytes(8, "big")] * 2
    reader = proved_reader_of(PREFIX.pack(40, FrameKind.DATA, 2) + b"".join(lengths))
    with pytest.raises(link_module.FrameError, match=f"a frame DATA of {LIMIT_BYTES + 42} bytes"):
        reader.next_frame()


@pytest.mark.parametrize(("kind", "buffers"), [(FrameKind.DATA, MAX_BUFFERS + 1), (FrameKind.CREDIT, 1)])
def test_a_frame_with_more_buffers_than_its_kind_may_have_is_an_error(kind: FrameKind, buffers: int) -> None:
    with pytest.raises(link_module.FrameError, match=f"{kind.name} with {buffers} buffers"):
        proved_reader_of(PREFIX.pack(40, kind, buffers)).next_frame()


def test_a_large_frame_is_read_into_memory_of_its_own_that_then_stays_as_it_is() -> None:
    allocated: list[int] = []

    def allocate(size: int) -> memoryview:
        allocated.append(size)
        return memoryview(bytearray(size))

    reader = FrameReader(allocate)
    reader.is_proved = True
    payload = LargePayload(b"d" * 10, (memoryview(b"a" * 100_000), memoryview(b"b" * 20_000)))
    data = b"".join(data_parts(0, ChannelId(1, 2, 3), 4, DataKind.ELEMENTS, payload)) * 2
    frames = []
    while data:
        buffer = reader.buffers()[0][: len(data)]
        buffer[:], data = data[: len(buffer)], data[len(buffer) :]
        reader.received(len(buffer))
        while (frame := reader.next_frame()) is not None:
            frames.append(frame)
    assert [size for size in allocated if size > 100] == [100_000, 20_000] * 2
    for frame in frames:
        received = data_of(frame)[4]
        assert received == payload
        assert all(buffer.readonly for buffer in frame.buffers)
    assert len(frames) == 2


def test_readers_that_share_memory_keep_what_has_arrived_of_a_frame_for_themselves() -> None:
    scratch, frame = (
        new_scratch(),
        b"".join(data_parts(0, ChannelId(1, 2, 3), 4, DataKind.ELEMENTS, b"abc" * 90)),
    )
    readers = [FrameReader(scratch=scratch) for _ in range(3)]
    taken: list[list[Frame]] = [[] for _ in readers]
    for reader in readers:
        reader.is_proved = True
    stream = frame * 3
    for position in range(0, len(stream), 100):
        for reader, frames in zip(readers, taken, strict=True):
            piece = stream[position : position + 100]
            assert reader.buffers()  # Before a read that brings nothing.
            readers[0].buffers()[0][: len(piece)] = b"?" * len(piece)
            reader.buffers()[0][: len(piece)] = piece
            reader.received(len(piece))
            while (whole := reader.next_frame()) is not None:
                frames.append(whole)
    assert [[data_of(each)[4] for each in frames] for frames in taken] == [[b"abc" * 90] * 3] * 3


def test_what_was_confirmed_is_not_kept() -> None:
    progress = Progress()
    for number in range(3):
        progress.sends((b"%d" % number,))
    progress.confirms(2)
    assert progress.resumes(2) == ((b"2",),)


def test_a_process_that_lost_its_memory_fails_the_link() -> None:
    progress = Progress()
    for _ in range(3):
        progress.sends((b"x",))
    progress.confirms(2)
    with pytest.raises(LinkRefused, match="data was lost"):
        progress.resumes(1)


def test_the_simulation_loses_connections_and_opens_them_again() -> None:
    world = LinkWorld(3)
    for _ in range(400):
        world.step()
    assert len(world.connections) > 3
