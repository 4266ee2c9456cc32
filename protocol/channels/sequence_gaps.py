"""Decides when a number that is missing in a sequence counts as lost.

A transport may deliver out of order, so a gap is normal for a moment. A gap that stays is a message that
the transport lost: it will never close, and everything after it waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")

LOOKS = 5
"""How often the gaps are looked at within the timeout."""


@dataclass(frozen=True, slots=True)
class Gap(Generic[S]):
    """A number of a sequence that did not come, although later ones did."""

    sequence: S
    missing: int


@dataclass(slots=True)
class _Open:
    missing: int
    observed_ms: int


class SequenceGaps(Generic[S]):
    """Watches the gaps of several sequences.

    Only time that was observed counts: between two looks at most `2 / LOOKS` of the timeout. A process that
    was suspended finds a gap that is old by the clock, while the missing message may wait in its sockets.

    Args:
        timeout_ms: How long a gap may stay, in milliseconds; at least 1.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.interval_ms = max(1, timeout_ms // LOOKS)
        """How often to look while there is a gap, in milliseconds."""
        self._open: dict[S, _Open] = {}
        self._looked_ms = 0

    @property
    def is_watching(self) -> bool:
        """Whether there was a gap at the last look."""
        return bool(self._open)

    def due_in_ms(self, now_ms: int) -> int:
        """Milliseconds until the next look; 0 if it is due."""
        return max(0, self._looked_ms + self.interval_ms - now_ms)

    def look(self, missing: Mapping[S, int], now_ms: int) -> list[Gap[S]]:
        """Compare the gaps of now with those of the last look.

        Args:
            missing: The number that each sequence with a gap waits for.
            now_ms: The time in milliseconds.

        Returns:
            The gaps that stayed for the timeout; each is returned again after another timeout.
        """
        passed_ms = min(max(0, now_ms - self._looked_ms), 2 * self.interval_ms)
        self._looked_ms = now_ms
        before, self._open = self._open, {}
        lost: list[Gap[S]] = []
        for sequence, number in missing.items():
            known = before.get(sequence)
            is_same = known is not None and known.missing == number
            observed_ms = known.observed_ms + passed_ms if known is not None and is_same else 0
            if observed_ms >= self.timeout_ms:
                lost.append(Gap(sequence, number))
                observed_ms = 0
            self._open[sequence] = _Open(number, observed_ms)
        return lost
