"""Decides when to open a connection again, to ask whether the other end is there, and to give up."""

from __future__ import annotations

import enum

FIRST_PAUSE_MS = 50
"""Between a failed attempt to open a connection and the next one; doubles up to `LONGEST_PAUSE_MS`."""
LONGEST_PAUSE_MS = 1_000
LOOKS = 20
"""How often a link should be looked at within its timeout."""
_PING_AFTER = 0.2
_BREAK_AFTER = 0.4
_WORKS_AFTER = 0.2
"""A connection that has nothing to carry works if it has lasted for this part of the timeout."""


class LinkAction(enum.Enum):
    """What to do about a link."""

    NOTHING = enum.auto()
    DIAL = enum.auto()
    PING = enum.auto()
    BREAK = enum.auto()
    FAIL = enum.auto()


class LinkWatch:
    """The connection below one link.

    Only time that was observed counts: a process that was suspended finds a connection that is old by the
    clock, although the other end may have answered meanwhile.

    A connection whose handshake is over does not work yet: the dialer does not know whether the listener
    accepts its proof. Connections that end before they have worked count as attempts that failed.

    Args:
        timeout_ms: How long the link may be without a connection that works, in milliseconds.
        dials: Whether this end opens connections.
        now_ms: The time in milliseconds.
    """

    def __init__(self, timeout_ms: int, dials: bool, now_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.interval_ms = max(1, timeout_ms // LOOKS)
        self._dials = dials
        self._looked_ms = now_ms
        self._without_ms = 0
        self._idle_ms = 0
        self._silent_ms = 0
        self._pause_ms = 0
        self._next_pause_ms = FIRST_PAUSE_MS
        self._is_up = False
        self._works = False
        self._is_pinged = False
        self.cause = "no connection was opened"
        """Why the link has no connection, or had none the last time."""

    def up(self) -> None:
        """The handshake of a connection is over."""
        self._is_up, self._works, self._is_pinged = True, False, False
        self._idle_ms = self._silent_ms = 0

    def works(self) -> None:
        """A frame arrived that is not a refusal."""
        if self._is_up:
            self._works = True
            self._without_ms, self._next_pause_ms = 0, FIRST_PAUSE_MS

    def down(self, cause: str) -> None:
        """The connection was lost, or could not be opened."""
        self.cause = cause
        if self._works:
            self._pause_ms = 0
        else:
            self._pause_ms = self._next_pause_ms
            self._next_pause_ms = min(2 * self._next_pause_ms, LONGEST_PAUSE_MS)
        self._is_up = self._works = False

    def heard(self) -> None:
        """Something arrived."""
        if self._is_up:
            self._silent_ms, self._is_pinged = 0, False

    def look(self, now_ms: int, is_dialing: bool, awaits: bool) -> LinkAction:
        """What to do at this time.

        Args:
            now_ms: The time in milliseconds.
            is_dialing: Whether a connection is being opened.
            awaits: Whether the other end has something to confirm.
        """
        passed_ms = min(max(0, now_ms - self._looked_ms), 2 * self.interval_ms)
        self._looked_ms = now_ms
        if not self._works:
            self._without_ms += passed_ms
        if self._is_up:
            return self._look_at_connection(passed_ms, awaits)
        self._pause_ms -= passed_ms
        if self._without_ms >= self.timeout_ms:
            return LinkAction.FAIL
        can_dial = self._dials and not is_dialing and self._pause_ms <= 0
        return LinkAction.DIAL if can_dial else LinkAction.NOTHING

    def _look_at_connection(self, passed_ms: int, awaits: bool) -> LinkAction:
        if awaits:
            self._silent_ms += passed_ms
        else:
            self._silent_ms = 0
            self._idle_ms += passed_ms
        if self._idle_ms >= _WORKS_AFTER * self.timeout_ms:
            self.works()
        if self._silent_ms >= _BREAK_AFTER * self.timeout_ms:
            return LinkAction.BREAK
        if self._silent_ms >= _PING_AFTER * self.timeout_ms and not self._is_pinged:
            self._is_pinged = True
            return LinkAction.PING
        return LinkAction.NOTHING
