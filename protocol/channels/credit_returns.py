"""When a receiver gives credit back: many small messages are worth one return.

A sender has a fixed credit per channel. As long as less than a part of it is held back here, the sender can
go on. Each return is a message and wakes the sender's process, so what a task consumed is given back
together.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ids import ChannelId

CREDIT_STEPS = 4
"""A channel's credit is given back at once when this part of it was consumed. When all that a sender has
outstanding was consumed, at least this much of it has been given back, so a sender without credit always gets
some."""
HELD_NS = 20_000_000
"""How long a smaller amount is held back."""


class CreditReturns:
    """What one task consumed and has not given back yet.

    Args:
        credit_bytes: The credit of each channel.
    """

    def __init__(self, credit_bytes: int) -> None:
        self._step_bytes = credit_bytes // CREDIT_STEPS
        self._held: dict[ChannelId, int] = {}
        self._held_since_ns = 0

    def consumed(self, channel: ChannelId, size_bytes: int, now_ns: int) -> int:
        """Bytes of `channel` to give back now, 0 for none.

        Args:
            channel: The channel of the message that was consumed.
            size_bytes: Its size.
            now_ns: The time.
        """
        total_bytes = self._held.get(channel, 0) + size_bytes
        if total_bytes >= self._step_bytes:
            self._held.pop(channel, None)
            return total_bytes
        if not self._held:
            self._held_since_ns = now_ns
        self._held[channel] = total_bytes
        return 0

    def rest(self, wait_ns: int, now_ns: int) -> tuple[Mapping[ChannelId, int], int]:
        """The task has nothing to do.

        Args:
            wait_ns: How long it would wait.
            now_ns: The time.

        Returns:
            What to give back now, by channel in bytes, and how long the task may wait at most.
        """
        due_ns = self.due_in_ns(now_ns)
        if due_ns == 0:
            return self.take_all(), wait_ns
        return {}, min(due_ns, wait_ns) if due_ns else wait_ns

    def due_in_ns(self, now_ns: int) -> int | None:
        """Nanoseconds until what is held must be given back, 0 if now, `None` if nothing is held."""
        return max(0, self._held_since_ns + HELD_NS - now_ns) if self._held else None

    def take_all(self) -> dict[ChannelId, int]:
        """All that is held, by channel in bytes; the caller gives it back."""
        held, self._held = self._held, {}
        return held
