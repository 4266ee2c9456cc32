"""Keeps numbered mail in order, each once: a transport may promise neither order nor single delivery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

M = TypeVar("M")


@dataclass(slots=True)
class MailOrder(Generic[M]):
    """Releases the mail of one sender by number, from 0, without gaps, each once.

    Both what a process gets from another one and the messages of a channel are ordered by it.

    Attributes:
        next_number: The number of the mail that is released next.
        early: Mail that waits for an earlier number.
        sent: How many the sender has sent, as far as it said so apart from them.
    """

    next_number: int = 0
    sent: int = 0
    early: dict[int, M] = field(default_factory=dict)

    @property
    def missing(self) -> int | None:
        """The number of the next mail if that was sent, `None` if it may not have been sent yet."""
        return self.next_number if self.early or self.next_number < self.sent else None

    def counted(self, sent: int) -> None:
        """The sender says how many it has sent: a lost one may have none after it."""
        self.sent = max(self.sent, sent)

    def passes(self, number: int) -> bool:
        """Whether mail with this number is released at once, alone; then it counts as taken."""
        if number != self.next_number or self.early:
            return False
        self.next_number += 1
        return True

    def has(self, number: int) -> bool:
        """Whether mail with this number was accepted before."""
        return number < self.next_number or number in self.early

    def accept(self, number: int, mail: M) -> list[M]:
        """Take a piece of mail; returns what is in order now."""
        if self.passes(number):
            return [mail]
        if self.has(number):
            return []
        self.early[number] = mail
        ready: list[M] = []
        while self.next_number in self.early:
            ready.append(self.early.pop(self.next_number))
            self.next_number += 1
        return ready
