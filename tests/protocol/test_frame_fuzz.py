"""Random bytes, cuts and changes: the reader of frames and the handshake take them or refuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.channels.frame_reader import FrameReader, new_scratch
from tidegate.protocol.channels.frames import (
    HANDSHAKE_LIMIT_BYTES,
    LIMIT_BYTES,
    MAX_BUFFERS,
    PREFIX,
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
    refusal_of,
)
from tidegate.protocol.channels.link import Dialer, LinkId, LinkRefused, Listener
from tidegate.protocol.ids import Attempt, ChannelId

SECRET = b"secret of the attempt, 32 bytes."
LINK = LinkId(Attempt(3), 1, 2)
MEMORY_BYTES = 1 << 24
"""More than this is not there for one test."""

numbers = st.integers(0, (1 << 32) - 1)
counts = st.integers(0, (1 << 64) - 1)
channels = st.builds(ChannelId, numbers, numbers, numbers)
small = st.binary(max_size=300)
sizes = st.sampled_from([0, 1, 4_095, 4_096, 65_490, 65_536, 140_000])


@st.composite
def payloads(draw: st.DrawFn) -> Payload:
    data = draw(small) if draw(st.booleans()) else bytes(draw(sizes))
    buffers = draw(st.lists(sizes, max_size=4))
    if not buffers:
        return data
    return LargePayload(
        data, tuple(memoryview(bytes([1 + index]) * size) for index, size in enumerate(buffers))
    )


@st.composite
def encoded_frames(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from([FrameKind.DATA, FrameKind.CREDIT, FrameKind.PING, FrameKind.PONG]))
    received = draw(counts)
    if kind is FrameKind.DATA:
        what = draw(st.sampled_from(DataKind))
        parts = data_parts(received, draw(channels), draw(counts), what, draw(payloads()))
        return b"".join(parts)
    if kind is FrameKind.CREDIT:
        return credit_frame(received, draw(st.lists(st.tuples(channels, counts), max_size=5))).encoded()
    return bare_frame(kind, received).encoded()


streams = st.lists(encoded_frames(), min_size=1, max_size=6)
pieces = st.lists(st.sampled_from([1, 2, 10, 11, 12, 100, 4_096, 65_536, 100_000]), max_size=20).map(
    lambda cuts: [*cuts, 100_000]
)

mosts = st.sampled_from([500, 4_096, 65_536])


def limited(size: int) -> memoryview:
    """Memory as a machine has it that has not much."""
    if size > MEMORY_BYTES:
        raise MemoryError
    return memoryview(bytearray(size))


def proved(scratch: bytearray | None = None) -> FrameReader:
    reader = FrameReader(limited, scratch)
    reader.is_proved = True
    return reader


def fed(reader: FrameReader, data: bytes, most: int) -> Iterator[tuple[int, Bytes, tuple[memoryview, ...]]]:
    """The frames in `data`, of which at most `most` bytes arrive at once."""
    while data:
        room = most
        count = 0
        for buffer in reader.buffers():
            piece = data[count : count + min(room - count, len(buffer))]
            buffer[: len(piece)] = piece
            count += len(piece)
            if count == room or len(piece) < len(buffer):
                break
        reader.received(count)
        data = data[count:]
        while (frame := reader.next_frame()) is not None:
            yield frame.kind, bytes(frame.body), frame.buffers
        # Before a read that brings nothing, and after it.
        reader.buffers()
        assert reader.next_frame() is None


def whole(stream: Sequence[bytes]) -> list[tuple[int, Bytes, tuple[memoryview, ...]]]:
    reader = proved()
    return [frame for each in stream for frame in fed(reader, each, len(each))]


@given(streams, pieces)
def test_every_split_of_a_stream_gives_the_same_frames(stream: list[bytes], cuts: list[int]) -> None:
    """Also with another reader that shares the memory."""
    scratch = new_scratch()
    reader, other = proved(scratch), proved(scratch)
    frames, others, data = [], [], b"".join(stream)
    while data:
        for cut in cuts:
            frames += fed(reader, data[:cut], cut)
            others += fed(other, data[:cut], cut)
            data = data[cut:]
    assert frames == others == whole(stream)
    assert len(frames) == len(stream)


@given(streams, st.integers(0, 400_000))
def test_a_stream_that_is_cut_off_gives_the_whole_frames_and_waits(stream: list[bytes], length: int) -> None:
    data = b"".join(stream)[:length]
    there, left = 0, len(data)
    while there < len(stream) and len(stream[there]) <= left:
        left -= len(stream[there])
        there += 1
    reader = proved()
    assert list(fed(reader, data, 65_536)) == whole(stream)[:there]
    assert reader.next_frame() is None


changes = st.lists(st.tuples(st.integers(0, 500_000), st.binary(max_size=12), st.integers(0, 12)), max_size=4)


def changed(data: bytes, edits: list[tuple[int, bytes, int]]) -> bytes:
    for position, replacement, removed in edits:
        # Most of what can be wrong is at the start of a frame.
        at = position % min(len(data) + 1, 200 if position % 2 else len(data) + 1)
        data = data[:at] + replacement + data[at + removed :]
    return data


@given(streams, changes, mosts)
def test_changed_bytes_give_frames_or_a_frame_error(
    stream: list[bytes], edits: list[tuple[int, bytes, int]], most: int
) -> None:
    reader = proved()
    try:
        for kind, body, buffers in fed(reader, changed(b"".join(stream), edits), most):
            read_as_peer(Frame(FrameKind(kind), body, buffers))
    except FrameError:
        return


def read_as_peer(frame: Frame) -> None:
    if frame.kind is FrameKind.DATA:
        data_of(frame)
    elif frame.kind is FrameKind.CREDIT:
        credit_of(frame)
    elif frame.kind in (FrameKind.PING, FrameKind.PONG):
        received_of(frame)


heads = st.builds(PREFIX.pack, st.integers(0, 1_200), st.integers(0, 9), st.integers(0, 2))
strange = st.lists(st.one_of(heads, small), max_size=8).map(b"".join)


@given(strange, mosts)
def test_a_stranger_causes_no_allocation_and_gives_frames_of_the_handshake_only(
    data: bytes, most: int
) -> None:
    def none(size: int) -> memoryview:
        raise AssertionError(f"{size} bytes for a stranger")

    reader = FrameReader(none)
    try:
        for kind, body, buffers in fed(reader, data, most):
            assert kind < FrameKind.DATA
            assert len(body) <= HANDSHAKE_LIMIT_BYTES
            assert not buffers
    except FrameError:
        return


@pytest.mark.parametrize("size", [MEMORY_BYTES + 1, LIMIT_BYTES, LIMIT_BYTES + 1, (1 << 64) - 1])
@pytest.mark.parametrize("buffers", [0, 1, MAX_BUFFERS])
def test_a_frame_larger_than_the_memory_is_refused(size: int, buffers: int) -> None:
    lengths = b"".join(size.to_bytes(8, "big") for _ in range(buffers))
    head = PREFIX.pack(100 if buffers else size, FrameKind.DATA, buffers) + lengths
    with pytest.raises(FrameError, match="bytes"):
        list(fed(proved(), head, len(head)))


# ------------------------------------------------------------ the handshake

kinds = st.sampled_from(FrameKind)
frames = st.builds(Frame, kinds, st.binary(max_size=200))


def listener() -> Listener:
    return Listener(lambda _: SECRET, lambda _: 5, bytes(32))


def dialer() -> Dialer:
    return Dialer(LinkId(LINK.attempt, LINK.theirs, LINK.mine), SECRET, b"n" * 32, 7)


@given(st.lists(frames, max_size=4))
def test_a_listener_refuses_every_stranger(said: list[Frame]) -> None:
    it = listener()
    try:
        for frame in said:
            assert not isinstance(it.answer(frame), int)
    except (FrameError, LinkRefused):
        return


@given(frames)
def test_a_dialer_refuses_every_stranger(said: Frame) -> None:
    with pytest.raises((FrameError, LinkRefused)):
        dialer().answer(said)


@given(st.sampled_from(["hello", "challenge", "proof"]), st.integers(0, 199), st.integers(1, 255))
def test_a_handshake_with_one_other_byte_is_refused(which: str, position: int, other: int) -> None:
    def passed(name: str, frame: Frame) -> Frame:
        body = bytearray(frame.body)
        if name == which:
            body[position % len(body)] ^= other
        return Frame(frame.kind, bytes(body))

    with pytest.raises((FrameError, LinkRefused)):
        shake_hands(passed)


def test_a_handshake_as_it_was_sent_is_accepted() -> None:
    assert shake_hands(lambda _, frame: frame) == (5, 7)


def shake_hands(passed: Callable[[str, Frame], Frame]) -> tuple[int, Frame | int]:
    """What each end learns from the other if the network passes these frames on."""
    dials, listens = dialer(), listener()
    challenge = listens.answer(passed("hello", dials.hello))
    assert isinstance(challenge, Frame)
    proof, received = dials.answer(passed("challenge", challenge))
    return received, listens.answer(passed("proof", proof))


@given(kinds, st.binary(max_size=20))
def test_a_refusal_is_read_or_is_a_frame_error(kind: FrameKind, body: bytes) -> None:
    try:
        refusal_of(Frame(kind, body))
    except FrameError:
        return
