"""What a task is doing, and what one step of it led to."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class TaskPhase(enum.Enum):
    """What a task is doing."""

    CREATED = "created"
    """Nothing is built yet."""
    INITIALIZED = "initialized"
    """State is restored and functions are open; waiting for the others."""
    RUNNING = "running"
    """Processing."""
    COMMITTING = "committing"
    """All input ended; waiting for the final checkpoint to commit."""
    STOPPING = "stopping"
    """Processing nothing after the barrier of a stop; waiting until it is complete, or given up."""
    FINISHED = "finished"
    CANCELED = "canceled"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        """Whether the task will do nothing more."""
        return self in (TaskPhase.FINISHED, TaskPhase.CANCELED, TaskPhase.FAILED)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one step led to.

    Attributes:
        wait_ns: 0 when there is more to do now, otherwise how long to wait for mail at most, in nanoseconds.
        is_over: Whether the task will do nothing more.
    """

    wait_ns: int
    is_over: bool = False
