"""Keeps numbered mail in order: a transport may promise none between two calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

M = TypeVar("M")


@dataclass(slots=True)
class MailOrder(Generic[M]):
    """Releases the mail of one sender by number, from 0, without gaps, each once."""

    next_number: int = 0
    early: dict[int, M] = field(default_factory=dict)

    @property
    def missing(self) -> int | None:
        """The number that later mail waits for, `None` if no mail waits."""
        return self.next_number if self.early else None

    def accept(self, number: int, mail: M) -> list[M]:
        """Take a piece of mail; returns what is in order now."""
        if number < self.next_number:
            return []
        self.early[number] = mail
        ready: list[M] = []
        while self.next_number in self.early:
            ready.append(self.early.pop(self.next_number))
            self.next_number += 1
        return ready
