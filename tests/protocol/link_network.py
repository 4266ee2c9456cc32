"""The network below a link: connections that are cut, lose what they carry, or fall silent."""

from __future__ import annotations

from random import Random


class Wire:
    """One direction of a connection: bytes that were written and not read.

    Where it `is_cut`, the reader sees its end behind them.
    """

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.is_cut = False
        self.is_closed = False
        """Whether its reader has closed it."""


class Connection:
    """Both directions. A connection that is lost may still hold bytes that its reader has not seen.

    A silent one carries nothing any more, not even its end.
    """

    def __init__(self) -> None:
        self.wires = {0: Wire(), 1: Wire()}
        """By the number of the reader."""
        self.is_silent = False

    def write(self, reader: int, data: bytes) -> None:
        """The other end writes."""
        wire = self.wires[reader]
        if not wire.is_cut and not self.is_silent:
            wire.bytes += data

    def close(self, mine: int) -> None:
        """One end reads no more; the other end sees the end behind what was written."""
        self.wires[mine].bytes.clear()
        self.wires[mine].is_cut = self.wires[mine].is_closed = True
        if not self.is_silent:
            self.wires[1 - mine].is_cut = True

    def cut(self, random: Random, loses: bool) -> None:
        """It is lost: each end sees that when it has read what the network still brings."""
        for wire in self.wires.values():
            wire.is_cut = True
            if loses and wire.bytes:
                del wire.bytes[random.randrange(len(wire.bytes)) :]

    def fall_silent(self) -> None:
        """Bring nothing any more."""
        self.is_silent = True
        for wire in self.wires.values():
            wire.bytes.clear()

    def can_read(self, reader: int) -> bool:
        """Whether an end finds something to read, or the end."""
        wire = self.wires[reader]
        return not wire.is_closed and (bool(wire.bytes) or wire.is_cut)
