"""Whole lines of a file, in blocks: in time linear in their length, within a bound, and in bounded steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, TypeVar

from .formats import FileSplit

BLOCK_BYTES = 4 << 20
"""Size of the blocks that are parsed as one. The last line of a block may make it larger."""

STEP_BYTES = 8 << 20
"""How much is read before the task does something else. Blocks of short lines take one step."""

_FIRST_BYTES = 4_096
_NEXT_BYTES = 1 << 20
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""Work that is interrupted from time to time, and what it returns."""


def done(steps: Steps[_T]) -> _T:
    """What some work returns, without an interruption."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: _T = end.value
            return returned


def codec_of(path: str) -> str | None:
    """How a file is compressed, by its name."""
    return _CODECS.get(path.rpartition(".")[2])


class Lines:
    """The lines of a split.

    Args:
        newlines_in_values: Line ends within double quotes do not end a line.
        max_line_bytes: A longer line, without its end, is an error.
    """

    def __init__(
        self, file_system: Any, split: FileSplit, newlines_in_values: bool, max_line_bytes: int
    ) -> None:
        self._file_system = file_system
        self._split = split
        self._newlines_in_values = newlines_in_values
        self._max_line_bytes = max_line_bytes
        self._stream = self._open()

    def _open(self) -> _LineStream:
        path = self._split.path
        codec = codec_of(path)
        if codec is None:
            stream = self._file_system.open_input_file(path)
        else:
            stream = self._file_system.open_input_stream(path, compression=codec)
        return _LineStream(stream, codec is None, self._newlines_in_values, self._max_line_bytes)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def beginning(self, size_bytes: int) -> Steps[bytes]:
        """Whole lines from the start of the file, of at least `size_bytes` if the file has as much.

        Raises:
            ValueError: A line is too long.
        """
        stream = self._open()
        try:
            return (yield from stream.take(min(size_bytes, self._max_line_bytes)))
        finally:
            stream.close()

    def blocks(self, header_bytes: int) -> Iterator[tuple[int, bytes] | None]:
        """Offset and bytes of one block after the other; each begins and ends with a line.

        `None` in between means that a step has ended before a block was complete.

        Raises:
            ValueError: A line is too long, or the file ends before the split.
        """
        stream, split = self._stream, self._split
        if split.start > header_bytes:
            # The line that reaches over the start belongs to the split before, unless it ends right there.
            yield from stream.skip(split.start - 1)
            yield from stream.skip_line()
        else:
            yield from stream.skip(header_bytes)
        while split.end is None or stream.offset < split.end:
            most = min(BLOCK_BYTES, self._max_line_bytes)
            offset = stream.offset
            block = yield from stream.take(most if split.end is None else min(most, split.end - offset))
            if not block:
                return
            yield offset, block


class _LineStream:
    """Bytes of a file up to line ends, or up to those outside of quotes.

    Attributes:
        offset: Of the next byte.
    """

    def __init__(self, stream: Any, can_seek: bool, newlines_in_values: bool, max_line_bytes: int) -> None:
        self._stream = stream
        self._can_seek = can_seek
        self._newlines_in_values = newlines_in_values
        self._max_line_bytes = max_line_bytes
        self._ahead = bytearray()
        self._stepped = 0
        self.offset = 0

    def skip(self, size_bytes: int) -> Steps[None]:
        """Begin at an offset; called before anything was read."""
        if self._can_seek:
            self._stream.seek(size_bytes)
            self.offset = size_bytes
        while self.offset < size_bytes:
            skipped = len(self._stream.read(min(size_bytes - self.offset, _NEXT_BYTES)))
            if not skipped:
                raise ValueError(f"it ends at byte {self.offset} and was read to byte {size_bytes} before")
            self.offset += skipped
            yield from self._step(skipped)

    def skip_line(self) -> Steps[None]:
        """Pass over the rest of a line, however long it is."""
        while True:
            data = self._stream.read(_FIRST_BYTES if not self._stepped else _NEXT_BYTES)
            end = data.find(b"\n") + 1
            self.offset += end or len(data)
            if end or not data:
                self._ahead += data[end:]
                return
            yield from self._step(len(data))

    def take(self, size_bytes: int) -> Steps[bytes]:
        """At least `size_bytes` and the rest of the line; less where the file ends before.

        Args:
            size_bytes: At most as long as a line may be.
        """
        data = self._ahead
        search = _Search(size_bytes, self._newlines_in_values)
        next_bytes = max(_FIRST_BYTES, size_bytes - len(data))
        while not (end := search.line_end(data)):
            self._check_length(search, data, len(data))
            more = self._stream.read(next_bytes)
            if not more:
                end = len(data)
                break
            data += more
            next_bytes = min(_NEXT_BYTES, max(_FIRST_BYTES, len(data) - size_bytes))
            yield from self._step(len(more))
        self._check_length(search, data, end - data.endswith(b"\n", 0, end))
        with memoryview(data) as view:
            taken = bytes(view[:end])
        del data[:end]
        self.offset += end
        self._stepped = 0
        return taken

    def _check_length(self, search: _Search, data: bytearray, end: int) -> None:
        if end > self._max_line_bytes:
            start = search.start_of_last_line(data)
            if end - start > self._max_line_bytes:
                quoted = " (or a quote that is not closed)" if self._newlines_in_values else ""
                raise ValueError(
                    f"the line at byte {self.offset + start} has more than {self._max_line_bytes} bytes"
                    f"{quoted}; if lines can be longer, raise max_line_bytes of the format"
                )

    def _step(self, size_bytes: int) -> Steps[None]:
        self._stepped += size_bytes
        if self._stepped >= STEP_BYTES:
            self._stepped = 0
            yield

    def close(self) -> None:
        self._stream.close()


class _Search:
    """Looks for the end of the first line that reaches to `size_bytes`, at each byte once."""

    def __init__(self, size_bytes: int, newlines_in_values: bool) -> None:
        self._newlines_in_values = newlines_in_values
        self._least = size_bytes - 1
        self._searched = self._least
        self._counted = 0
        self._is_quoted = False
        self._start: int | None = None

    def line_end(self, data: bytearray) -> int:
        """The offset after the line; 0 if it does not end in the data. Between calls the data only grow."""
        while True:
            end = data.find(b"\n", self._searched) + 1
            if self._newlines_in_values:
                counted = end or len(data)
                self._is_quoted ^= bool(data.count(b'"', self._counted, counted) % 2)
                self._counted = counted
            self._searched = end or max(self._searched, len(data))
            if not end or not self._is_quoted:
                return end

    def start_of_last_line(self, data: bytearray) -> int:
        """Where that line begins."""
        if self._start is None:
            self._start = data.rfind(b"\n", 0, self._least) + 1
            if self._newlines_in_values:
                self._start = self._start_outside_of_quotes(data)
        return self._start

    def _start_outside_of_quotes(self, data: bytearray) -> int:
        start = counted = 0
        is_quoted = False
        while (end := data.find(b"\n", counted, self._least) + 1) > 0:
            is_quoted ^= bool(data.count(b'"', counted, end) % 2)
            counted = end
            start = start if is_quoted else end
        return start
