"""The leaders of stages send nothing before the tasks run, nor after the attempt."""

from __future__ import annotations

from tidegate.coordinator.epoch_leaders import EpochLeaders
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.stages.epoch_messages import (
    EmitShare,
    EndShare,
    EpochRan,
    FromLeader,
    ResultsHeld,
    RunnerReady,
    ShareEnded,
    ShareOpened,
)


class Hosted:
    """Leaders, and what they have sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, FromLeader]] = []
        self.leaders = EpochLeaders(lambda uid, index, message: self.sent.append((uid, index, message)))
        for subtask in range(2):
            self.leaders.handle("stage", 2, subtask, ShareOpened(1, 1, 100))

    def taken(self) -> list[tuple[str, int, FromLeader]]:
        taken, self.sent = self.sent, []
        return taken


def test_messages_wait_until_all_subtasks_run_and_end_with_the_attempt() -> None:
    hosted = Hosted()
    hosted.leaders.handle("stage", 2, 1, ShareEnded(1, 1, 0, False, 50))
    assert hosted.taken() == []
    hosted.leaders.run()
    assert hosted.taken() == [("stage", index, EndShare(1)) for index in range(2)]
    hosted.leaders.handle("other", 1, 0, ShareOpened(1, 1, 100))
    hosted.leaders.stop()
    hosted.leaders.handle("stage", 2, 0, ShareEnded(1, 1, 0, False, 50))
    assert hosted.taken() == []


def test_leaders_follow_the_checkpoints_of_the_job() -> None:
    hosted = Hosted()
    hosted.leaders.run()
    hosted.leaders.handle("stage", 2, 0, RunnerReady())
    for checkpoint_id in (1, 2):
        hosted.leaders.triggered(CheckpointId(checkpoint_id))
    for subtask in range(2):
        hosted.leaders.handle("stage", 2, subtask, ShareEnded(1, 1, 0, False, 50))
    hosted.leaders.handle("stage", 2, 0, EpochRan(1, ("a", "b")))
    hosted.taken()
    for subtask in range(2):
        hosted.leaders.handle("stage", 2, subtask, ResultsHeld(1, CheckpointId(2)))
    assert _barriers(hosted) == [2, 2]
    hosted.leaders.aborted(CheckpointId(2))
    assert _barriers(hosted) == [1, 1]
    hosted.leaders.completed(CheckpointId(1))
    assert _barriers(hosted) == [0, 0]


def _barriers(hosted: Hosted) -> list[int]:
    return [message.barrier for _, _, message in hosted.taken() if isinstance(message, EmitShare)]
