"""Finds messages and mails to a task that its transport lost, and lets its receivers find theirs."""

from __future__ import annotations

from ...common.errors import LostMessageError
from ...protocol.channels.mail_order import MailOrder
from ...protocol.channels.sequence_gaps import SequenceGaps
from ...protocol.scheduling.execution_graph import Subtask
from ...protocol.task_events import ConnectionFailed, SendFailed, TaskMail
from ..gate import InputGate
from ..output import TaskOutput

_COORDINATOR = -1
"""Represents the coordinator's mail among the indexes of the input channels."""


class LostMessages:
    """Looks at the gaps in what a task receives.

    Args:
        subtask: The receiver.
        timeout_ms: How long a gap may stay before its message counts as lost.
    """

    def __init__(self, subtask: Subtask, timeout_ms: int) -> None:
        self._subtask = subtask
        self._gaps: SequenceGaps[int] = SequenceGaps(timeout_ms)
        self._probe_at_ms = 0
        self._failed: tuple[SendFailed, int] | None = None

    def send_failed(self, failed: SendFailed, now_ns: int) -> None:
        """A message did not arrive; if its receiver died, the coordinator is about to stop this attempt."""
        if self._failed is None:
            self._failed = failed, now_ns // 1_000_000 + self._gaps.timeout_ms

    def connection_error(self, failed: ConnectionFailed) -> LostMessageError:
        """What to raise when a direct connection was lost for too long."""
        mine, channel = self._subtask.name, failed.channel
        is_sender = any(channel in out.channels for out in self._subtask.outputs)
        other = self._subtask.receiver_name(channel) if is_sender else self._subtask.sender_name(channel)
        return LostMessageError(
            f"the connection between {mine} and {other} was lost for longer than "
            f"tidegate.network.reconnect-timeout: {failed.cause}. Check the network between the nodes of both"
        )

    def look(self, gate: InputGate, order: MailOrder[TaskMail], output: TaskOutput, now_ns: int) -> int:
        """Look at the gaps, and let receivers find theirs, if it is time to.

        Args:
            gate: The messages of other tasks.
            order: The numbered mail of the coordinator.
            output: What the task sends.
            now_ns: The time in nanoseconds.

        Returns:
            Milliseconds until the next look.

        Raises:
            LostMessageError: A gap stayed for too long.
        """
        now_ms = now_ns // 1_000_000
        if self._probe_at_ms <= now_ms:
            self._probe_at_ms = now_ms + self._gaps.timeout_ms // 2
            output.probe()
        if self._failed is not None and self._failed[1] <= now_ms:
            raise self._send_error(self._failed[0])
        due_ms = self._look_at_gaps(gate, order, now_ms)
        return max(1, min(due_ms, self._probe_at_ms - now_ms))

    def _look_at_gaps(self, gate: InputGate, order: MailOrder[TaskMail], now_ms: int) -> int:
        if not gate.gaps and order.missing is None:
            if self._gaps.is_watching:
                self._gaps.look({}, now_ms)
            return self._gaps.timeout_ms
        if not self._gaps.due_in_ms(now_ms):
            missing = {index: gate.next_sequence(index) for index in gate.gaps}
            if order.missing is not None:
                missing[_COORDINATOR] = order.missing
            lost = self._gaps.look(missing, now_ms)
            if lost:
                raise self._error(gate, lost[0].sequence, lost[0].missing)
        return self._gaps.due_in_ms(now_ms)

    def _send_error(self, failed: SendFailed) -> LostMessageError:
        receiver = self._subtask.receiver_name(failed.channel)
        return LostMessageError(
            f"{self._subtask.name} got no answer from {receiver} to marker {failed.sequence_number} of "
            f"channel {failed.channel}, and the attempt still ran {self._gaps.timeout_ms} ms later "
            f"(tidegate.network.gap-timeout): {failed.cause}. Check the connection between the nodes of both"
        )

    def _error(self, gate: InputGate, index: int, number: int) -> LostMessageError:
        if index == _COORDINATOR:
            what, sender = f"mail {number}", "the coordinator"
        else:
            channel = gate.channel_id(index)
            what, sender = f"message {number} of channel {channel}", self._subtask.sender_name(channel)
        return LostMessageError(
            f"{self._subtask.name} did not receive {what} from {sender} within {self._gaps.timeout_ms} ms "
            f"(tidegate.network.gap-timeout) after a later one: the network or Ray lost it. Check the "
            f"connection between the nodes of both"
        )
