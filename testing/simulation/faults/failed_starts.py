"""Sources that cannot be opened: several times because of the world, once because of the program."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ..simulated_scheduler import SimulatedScheduler

if TYPE_CHECKING:
    from ..plan import Plan

_SHARE = 0.08
BROKEN = -1
"""Instead of a number of failures: the first source has a mistake, which no job survives."""
_MOST_MISTAKES = 20
"""Then the mistake disappears, so that a job that survived it by mistake is found soon."""


def draw_failed_starts(seed: int) -> int:
    """How many times sources of a plan cannot be opened."""
    random = Random(f"closed openings of {seed}")
    return random.choice((3, 6, 9)) if random.random() < _SHARE else 0


class FailedStarts:
    """Decides whether opening a source raises.

    A source finds its broker away as often as the plan allows, always with the same message. A mistake of the
    program hits each source once at most. A job must survive both.
    """

    def __init__(self, scheduler: SimulatedScheduler, plan: Plan) -> None:
        self._scheduler = scheduler
        self._left = plan.faults.failed_starts
        self._mistaken: set[str] = set()
        self._mistakes = 0

    def opening(self, uid: str) -> None:
        """A subtask of a source is opened.

        Raises:
            ConnectionError: Its broker is away.
            TypeError: The program is wrong.
        """
        if self._left == BROKEN and uid == "s0" and self._mistakes < _MOST_MISTAKES:
            self._mistakes += 1
            raise TypeError(f"<Reader at {0x7F00 + self._mistakes:#x}> got an unexpected argument")
        if self._left <= 0 or not self._scheduler.chance(0.5):
            return
        self._left -= 1
        self._scheduler.note(f"{uid} cannot be opened")
        if uid not in self._mistaken and self._scheduler.chance(0.5):
            self._mistaken.add(uid)
            raise TypeError("open() got an unexpected argument")
        raise ConnectionError("the broker does not answer")
