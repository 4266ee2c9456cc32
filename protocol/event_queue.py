"""A queue of events that one loop drains, and what each event led to.

A state machine answers an event with commands, and performing a command may lead to further events. If such
an event were handled at once, it would be handled between two commands of the event before. Here it waits:
all commands of one event are performed before the next event is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

E = TypeVar("E")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Cause(Generic[E]):
    """An event in the queue, which is the cause of its commands.

    Attributes:
        number: Counts the events of the queue from 1.
        event: The event.
        follows: The number of the event whose commands led to this one; 0 if it came from outside.
    """

    number: int
    event: E
    follows: int = 0

    def __str__(self) -> str:
        after = f" after event {self.follows}" if self.follows else ""
        return f"event {self.number} {described(self.event)}{after}"


@dataclass(frozen=True, slots=True)
class Decision(Generic[E, C]):
    """What a state machine ordered because of one event."""

    cause: Cause[E]
    commands: tuple[C, ...]

    def lines(self) -> list[str]:
        """Each command with the event that caused it, or the event alone if it led to no command."""
        return [f"{described(each)} because of {self.cause}" for each in self.commands] or [str(self.cause)]


class EventQueue(Generic[E]):
    """Hands over events one at a time.

    Args:
        take: Handles one event and performs its commands.
    """

    def __init__(self, take: Callable[[Cause[E]], None]) -> None:
        self._take = take
        self._waiting: deque[Cause[E]] = deque()
        self._afterwards: deque[Callable[[], None]] = deque()
        self._count = 0
        self._current: Cause[E] | None = None

    def put(self, event: E) -> None:
        """Handle an event: now, or after the current event and those that wait already."""
        self._count += 1
        follows = 0 if self._current is None else self._current.number
        self._waiting.append(Cause(self._count, event, follows))
        self._drain()

    def afterwards(self, action: Callable[[], None]) -> None:
        """Run an action once no event waits: now, if none does."""
        self._afterwards.append(action)
        self._drain()

    def _drain(self) -> None:
        while self._current is None and (self._waiting or self._afterwards):
            if not self._waiting:
                self._afterwards.popleft()()
                continue
            self._current = self._waiting.popleft()
            try:
                self._take(self._current)
            finally:
                self._current = None


def described(message: object) -> str:
    """An event or a command for a log: its type, and the checkpoint, request and subtask that it names."""
    barrier = getattr(message, "barrier", None)
    checkpoint_id = getattr(barrier or message, "checkpoint_id", None)
    named = [getattr(message, "request_id", None), checkpoint_id, getattr(message, "subtask", None)]
    labels = [
        f"{label} {value}"
        for label, value in zip(("request", "checkpoint", "subtask"), named)
        if value is not None
    ]
    return f"{type(message).__name__}({', '.join(labels)})"
