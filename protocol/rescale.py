"""The life of one rescale: the transitions are one table.

Until the tasks are stopped nothing has happened to the job. Until they run with the new parallelism the job
goes back to the one it had if anything fails.
"""

from __future__ import annotations

import enum

from .life_cycle import LifeCycle


class RescalePhase(enum.Enum):
    """How far a rescale is."""

    PREPARING = "room is being made for its subtasks"
    CHECKPOINT = "its checkpoint is being taken"
    STOPPING = "the tasks are being stopped"
    STARTING = "its tasks are being started"
    STORING = "it is being written down"
    DONE = "the job has the new parallelism"
    FAILED = "the job keeps the parallelism it had"
    UNDONE = "the job goes back to the parallelism it had"

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens in this rescale."""
        return self in (RescalePhase.DONE, RescalePhase.FAILED, RescalePhase.UNDONE)


class RescaleEvent(enum.Enum):
    """What happened to a rescale."""

    PREPARED = "there is room"
    REFUSED = "it is not possible"
    CHECKPOINT_COMPLETED = "checkpoint completed"
    DEPLOYING = "no task runs any more"
    RUNNING = "all tasks run"
    STORED = "new parallelism stored"
    STOP_REQUESTED = "stop with a savepoint requested"
    JOB_FAILED = "a task failed"
    JOB_ENDED = "the job ends"


def _table() -> dict[tuple[RescalePhase, RescaleEvent], RescalePhase]:
    phase, event = RescalePhase, RescaleEvent
    return {
        (phase.PREPARING, event.PREPARED): phase.CHECKPOINT,
        (phase.PREPARING, event.REFUSED): phase.FAILED,
        (phase.PREPARING, event.STOP_REQUESTED): phase.FAILED,
        (phase.PREPARING, event.JOB_FAILED): phase.FAILED,
        (phase.PREPARING, event.JOB_ENDED): phase.FAILED,
        (phase.CHECKPOINT, event.CHECKPOINT_COMPLETED): phase.STOPPING,
        (phase.CHECKPOINT, event.REFUSED): phase.FAILED,
        (phase.CHECKPOINT, event.STOP_REQUESTED): phase.FAILED,
        (phase.CHECKPOINT, event.JOB_FAILED): phase.FAILED,
        (phase.CHECKPOINT, event.JOB_ENDED): phase.FAILED,
        (phase.STOPPING, event.DEPLOYING): phase.STARTING,
        (phase.STOPPING, event.REFUSED): phase.FAILED,
        (phase.STOPPING, event.JOB_FAILED): phase.FAILED,
        (phase.STOPPING, event.JOB_ENDED): phase.FAILED,
        (phase.STARTING, event.RUNNING): phase.STORING,
        (phase.STARTING, event.JOB_FAILED): phase.UNDONE,
        (phase.STARTING, event.JOB_ENDED): phase.FAILED,
        (phase.STORING, event.STORED): phase.DONE,
        (phase.STORING, event.JOB_ENDED): phase.FAILED,
    }


RESCALE_TRANSITIONS = _table()
"""What is not in the table has no effect on a rescale: its tasks run already, or it has gone too far."""


class RescaleLifeCycle(LifeCycle[RescalePhase, RescaleEvent]):
    """Holds the phase of one rescale."""

    def __init__(self) -> None:
        super().__init__("the rescale", RESCALE_TRANSITIONS, RescalePhase.PREPARING)
