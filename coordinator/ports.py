"""What a coordinator needs from the shell it runs in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..actors.ports import TaskDeployment
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.task_events import TaskMail


class CoordinatorPorts(Protocol):
    """The outside world of a coordinator. Every call returns at once; answers come as events."""

    def now_ns(self) -> int:
        """Wall-clock time in nanoseconds."""

    def random_ms(self, bound_ms: int) -> int:
        """A random number of milliseconds below `bound_ms`."""

    def deploy(self, deployments: Sequence[TaskDeployment]) -> None:
        """Place and initialise subtasks; each answers `TaskInitialized` or `TaskFailed`."""

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        """Mail to a deployed subtask; lost if it is gone."""

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        """Stop subtasks, by force if they do not react; each answers `TaskStopped`."""
