"""Puts the reports of the tasks back in order, as Ray promises none, and finds those that were lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from ...protocol.channels.mail_order import MailOrder
from ...protocol.channels.sequence_gaps import SequenceGaps
from ...protocol.ids import Attempt, SubtaskId
from ...protocol.scheduling.execution_graph import Subtask
from ...protocol.task_events import TaskFailed

Sender = tuple[Attempt, SubtaskId]
R = TypeVar("R")


class ReportOrder(Generic[R]):
    """Releases each sender's reports by number, without gaps, each once.

    Args:
        timeout_ms: How long a report may be missing before it counts as lost.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._senders: dict[Sender, MailOrder[R]] = {}
        self._gaps: SequenceGaps[Sender] = SequenceGaps(timeout_ms)

    def accept(self, sender: Sender, number: int, report: R) -> list[R]:
        """Take a report; returns those that are now in order."""
        return self._senders.setdefault(sender, MailOrder()).accept(number, report)

    def counted(self, attempt: Attempt, counts: Mapping[SubtaskId, int]) -> None:
        """A process says how many reports its subtasks sent: a lost one may have none after it."""
        for subtask, count in counts.items():
            self._senders.setdefault((attempt, subtask), MailOrder()).counted(count)

    def look(self, attempt: Attempt, subtasks: Mapping[SubtaskId, Subtask], now_ms: int) -> list[TaskFailed]:
        """Look for lost reports of the current attempt, if it is time to.

        Args:
            attempt: The current attempt.
            subtasks: Its subtasks.
            now_ms: The time in milliseconds.

        Returns:
            A failure for each subtask of which a report was lost. The state of such a subtask is unknown, so
            its process has to end.
        """
        if self._gaps.due_in_ms(now_ms):
            return []
        missing = {
            sender: reports.missing
            for sender, reports in self._senders.items()
            if sender[0] == attempt and sender[1] in subtasks and reports.missing is not None
        }
        lost = self._gaps.look(missing, now_ms)
        return [self._failure(attempt, subtasks[gap.sequence[1]], gap.missing) for gap in lost]

    def _failure(self, attempt: Attempt, subtask: Subtask, missing: int) -> TaskFailed:
        cause = (
            f"the coordinator did not receive report {missing} from {subtask.name} within "
            f"{self._gaps.timeout_ms} ms (tidegate.network.gap-timeout) after it was sent: the network or "
            f"Ray lost it. Check the connection between the nodes of both"
        )
        return TaskFailed(attempt, subtask.subtask_id, cause)
