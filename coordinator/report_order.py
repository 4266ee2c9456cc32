"""Puts the reports of a task back in order: Ray promises none between calls of an actor."""

from __future__ import annotations

from collections.abc import Hashable

from ..protocol.mail_order import MailOrder


class ReportOrder:
    """Releases each sender's reports by number, without gaps, each once."""

    def __init__(self) -> None:
        self._senders: dict[Hashable, MailOrder[bytes]] = {}

    def accept(self, sender: Hashable, number: int, report: bytes) -> list[bytes]:
        """Take a report; returns those that are now in order."""
        return self._senders.setdefault(sender, MailOrder()).accept(number, report)
