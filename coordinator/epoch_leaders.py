"""Hosts the leaders of the stages' epochs, in one attempt."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.ids import CheckpointId
from ..protocol.stages.epoch_leader import EpochLeader, Sent
from ..protocol.stages.epoch_messages import FromLeader, ToLeader


class EpochLeaders:
    """The leaders of all stages with several subtasks. The only subtask of a stage has its leader itself.

    Args:
        send: Sends a message to a subtask of an operator, which takes messages only while it runs.
    """

    def __init__(self, send: Callable[[str, int, FromLeader], None]) -> None:
        self._send = send
        self._leaders: dict[str, EpochLeader] = {}
        self._early: list[tuple[str, Sent]] = []
        self._is_running = self._is_stopped = False

    def run(self) -> None:
        """All subtasks run from now on."""
        self._is_running = True
        early, self._early = self._early, []
        for uid, sent in early:
            self._send(uid, *sent)

    def stop(self) -> None:
        """The attempt ends: messages that still come lead to nothing."""
        self._leaders, self._is_stopped = {}, True

    def handle(self, uid: str, parallelism: int, subtask: int, message: ToLeader) -> None:
        """Take a message of a stage's subtask."""
        if self._is_stopped:
            return
        leader = self._leaders.setdefault(uid, EpochLeader(parallelism))
        self._answer(uid, leader.handle(subtask, message))

    def triggered(self, checkpoint_id: CheckpointId) -> None:
        """The barriers of a checkpoint are about to be sent."""
        for leader in self._leaders.values():
            leader.checkpoint_triggered(checkpoint_id)

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete."""
        for uid, leader in self._leaders.items():
            self._answer(uid, leader.checkpoint_completed(checkpoint_id))

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint will not complete."""
        for uid, leader in self._leaders.items():
            self._answer(uid, leader.checkpoint_aborted(checkpoint_id))

    def _answer(self, uid: str, sent: list[Sent]) -> None:
        if not self._is_running:
            self._early += [(uid, each) for each in sent]
            return
        for index, message in sent:
            self._send(uid, index, message)
