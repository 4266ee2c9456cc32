"""Makes frames of the bytes that arrive on a direct connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .frames import (
    HANDSHAKE_LIMIT_BYTES,
    LENGTH,
    LIMIT_BYTES,
    MAX_BUFFERS,
    PREFIX,
    Frame,
    FrameError,
    FrameKind,
)

Allocate = Callable[[int], memoryview]
"""Returns writable memory of a size in bytes; what it contains does not matter."""

_SCRATCH_BYTES = 1 << 16

_PIECES = 16
"""Into how many pieces of memory is read at once."""

_START_BYTES = 1 << 12
"""What is read of the frame after a large one. It is probably large too, and its start must be copied."""


def new_scratch() -> bytearray:
    """Memory in which readers look for frames."""
    return bytearray(_SCRATCH_BYTES)


class _LargeFrame:
    """A frame that is read into memory of its own: first its body, then each of its buffers."""

    def __init__(self, kind: FrameKind, parts: Sequence[memoryview]) -> None:
        self._kind = kind
        self._parts = parts
        self._index = self._filled = 0
        self.received(0)

    def rest(self) -> list[memoryview]:
        """Where its next bytes belong: at most `_PIECES` pieces of memory."""
        first, *others = self._parts[self._index : self._index + _PIECES]
        return [first[self._filled :], *others]

    def received(self, count: int) -> int:
        """`count` bytes were written into `rest()` and after it; returns how many are not of the frame."""
        while not self.is_whole:
            room = len(self._parts[self._index]) - self._filled
            if count < room:
                self._filled += count
                return 0
            count -= room
            self._index, self._filled = self._index + 1, 0
        return count

    @property
    def is_nearly_whole(self) -> bool:
        """Whether `rest` is all that it lacks."""
        return self._index + _PIECES >= len(self._parts)

    @property
    def is_whole(self) -> bool:
        """Whether all of it has arrived."""
        return self._index == len(self._parts)

    def frame(self) -> Frame:
        """The frame, when all of it has arrived; from now on nothing writes to its memory."""
        body, *buffers = (part.toreadonly() for part in self._parts)
        return Frame(self._kind, body, tuple(buffers))


class FrameReader:
    """Makes frames of bytes that arrive in pieces of any size.

    A large body and each buffer are read into memory of their own, without a copy.

    Write what arrives into `buffers()`, say how much it was, and take frames until there is none.

    Args:
        allocate: Returns the memory for the body and the buffers of a large frame. Raises `MemoryError`.
        scratch: From `new_scratch`. Readers may share it if each takes all frames before another one reads: a
            process has hundreds of connections, and most of them are quiet.
    """

    def __init__(
        self,
        allocate: Allocate = lambda size: memoryview(bytearray(size)),
        scratch: bytearray | None = None,
    ) -> None:
        self._allocate = allocate
        self._scratch = new_scratch() if scratch is None else scratch
        self._start = self._filled = 0
        self._rest = b""
        self._most = _SCRATCH_BYTES
        self._large: _LargeFrame | None = None
        self.is_proved = False
        """Whether the other end has proved who it is; until then frames must be short."""

    def buffers(self) -> list[memoryview]:
        """Where the next bytes belong, in this order, after all frames were taken; the first is not empty."""
        scratch = memoryview(self._scratch)
        if self._large is not None:
            rest = self._large.rest()
            return [*rest, scratch[:_START_BYTES]] if self._large.is_nearly_whole else rest
        # Until something has been read, another reader may use the scratch, so the rest is kept.
        scratch[: len(self._rest)] = self._rest
        return [scratch[len(self._rest) : len(self._rest) + self._most]]

    def received(self, count: int) -> None:
        """`count` bytes were written into `buffers()`."""
        if self._large is not None:
            count = self._large.received(count)
        self._filled = len(self._rest) + count
        self._rest = b""

    def next_frame(self) -> Frame | None:
        """The next frame, `None` if it has not arrived whole.

        Raises:
            FrameError: These are no frames; the connection is of no use any more.
        """
        frame = self._next_frame()
        if frame is None and self._filled:
            # Another reader may use the scratch now.
            self._rest = bytes(memoryview(self._scratch)[self._start : self._filled])
            self._start = self._filled = 0
        return frame

    def _next_frame(self) -> Frame | None:
        if self._large is not None:
            return self._take_large(self._large)
        if self._filled - self._start < PREFIX.size:
            return None
        length, number, buffers = PREFIX.unpack_from(self._scratch, self._start)
        kind, start = self._checked(length, number, buffers), self._start + PREFIX.size
        if buffers or PREFIX.size + length > len(self._scratch):
            return self._begin_large(kind, length, buffers, start)
        if start + length > self._filled:
            return None
        self._start, self._most = start + length, _SCRATCH_BYTES
        return Frame(kind, bytes(memoryview(self._scratch)[start : start + length]))

    def _begin_large(self, kind: FrameKind, length: int, buffers: int, start: int) -> Frame | None:
        end = start + buffers * LENGTH.size
        if end > self._filled:
            return None
        lengths = [length, *(each for (each,) in LENGTH.iter_unpack(self._scratch[start:end]))]
        if sum(lengths) > LIMIT_BYTES:
            raise FrameError(f"a frame {kind.name} of {sum(lengths)} bytes")
        try:
            large = self._large = _LargeFrame(kind, [self._allocate(each) for each in lengths])
        except MemoryError as error:
            raise FrameError(
                f"a frame {kind.name} of {sum(lengths)} bytes, more than there is memory"
            ) from error
        self._start = end
        while self._start < self._filled and not large.is_whole:
            rest = large.rest()[0]
            count = min(len(rest), self._filled - self._start)
            rest[:count] = memoryview(self._scratch)[self._start : self._start + count]
            self._start += count
            large.received(count)
        if not large.is_whole:
            self._start = self._filled = 0
        return self._take_large(large)

    def _take_large(self, large: _LargeFrame) -> Frame | None:
        if not large.is_whole:
            return None
        self._large, self._most = None, _START_BYTES
        return large.frame()

    def _checked(self, length: int, number: int, buffers: int) -> FrameKind:
        try:
            kind = FrameKind(number)
        except ValueError as error:
            raise FrameError(f"a frame of unknown kind {number}") from error
        if not self.is_proved and (kind >= FrameKind.DATA or length > HANDSHAKE_LIMIT_BYTES):
            raise FrameError(f"a frame {kind.name} of {length} bytes before the handshake is over")
        if length > LIMIT_BYTES:
            raise FrameError(f"a frame {kind.name} of {length} bytes")
        if buffers > (MAX_BUFFERS if kind is FrameKind.DATA else 0):
            raise FrameError(f"a frame {kind.name} with {buffers} buffers")
        return kind
