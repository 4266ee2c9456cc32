"""The credit that a simulated task gives back: of each message at once, or as in the Ray shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.channels.credit_returns import HELD_NS, CreditReturns
from ...protocol.ids import ChannelId
from .external_system import external_system

if TYPE_CHECKING:
    from .simulated_process import Process


class SimulatedCredit:
    """Gives the credit of one task back, and checks that no other amount is given and none is kept.

    Args:
        process: The process of the task.
        credit_bytes: The credit of each channel.
    """

    def __init__(self, process: Process, credit_bytes: int) -> None:
        self._process = process
        self._shell = process.owner.shell
        self._returns = CreditReturns(credit_bytes) if self._shell.plan.holds_credit else None
        self._owed: dict[ChannelId, tuple[int, int]] = {}
        """By channel: bytes that were consumed and not given back, and since when."""

    def consumed(self, channel: ChannelId, size_bytes: int) -> None:
        """The task has consumed a message."""
        now_ns = self._shell.scheduler.now_ns
        owed_bytes, since_ns = self._owed.get(channel, (0, now_ns))
        self._owed[channel] = owed_bytes + size_bytes, since_ns
        returns = self._returns
        now_bytes = size_bytes if returns is None else returns.consumed(channel, size_bytes, now_ns)
        if now_bytes:
            self._give({channel: now_bytes})

    def rest_ns(self, wait_ns: int) -> int:
        """The task has nothing to do.

        Args:
            wait_ns: How long it would wait.

        Returns:
            How long it may wait.
        """
        if self._returns is None:
            return wait_ns
        now_ns = self._shell.scheduler.now_ns
        due, wait_ns = self._returns.rest(wait_ns, now_ns)
        self._give(due)
        first_ns = min((since_ns for _, since_ns in self._owed.values()), default=None)
        if first_ns is not None and now_ns + wait_ns > first_ns + HELD_NS:
            self._problem(f"waits {wait_ns} ns and holds credit since {now_ns - first_ns} ns")
        return wait_ns

    def give_all(self) -> None:
        """The task has ended."""
        if self._returns is not None:
            self._give(self._returns.take_all())
        if self._owed:
            self._problem(f"has ended and keeps credit: {self._owed}")

    def _give(self, credits: Mapping[ChannelId, int]) -> None:
        for channel, size_bytes in credits.items():
            owed_bytes, since_ns = self._owed.pop(channel, (0, 0))
            if size_bytes > owed_bytes:
                self._problem(f"gives {size_bytes} bytes of credit back for {owed_bytes} of {channel}")
            elif size_bytes < owed_bytes:
                self._owed[channel] = owed_bytes - size_bytes, since_ns
            self._shell.network.return_credit(self._process, channel, size_bytes)

    def _problem(self, text: str) -> None:
        external_system().problems.append(f"{self._process.subtask} {text}")
