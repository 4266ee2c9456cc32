"""Puts the reports of a task back in order: Ray promises none between calls of an actor."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Sender:
    next_number: int = 0
    early: dict[int, bytes] = field(default_factory=dict)


class ReportOrder:
    """Releases each sender's reports by number, without gaps, each once."""

    def __init__(self) -> None:
        self._senders: dict[Hashable, _Sender] = {}

    def accept(self, sender: Hashable, number: int, report: bytes) -> list[bytes]:
        """Take a report; returns those that are now in order."""
        state = self._senders.setdefault(sender, _Sender())
        if number < state.next_number:
            return []
        state.early[number] = report
        ready: list[bytes] = []
        while state.next_number in state.early:
            ready.append(state.early.pop(state.next_number))
            state.next_number += 1
        return ready
