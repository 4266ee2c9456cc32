"""What a coordinator needs from the shell it runs in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run `work`, which raises nothing, at some time, off the coordinator's loop."""

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` on the coordinator's loop soon; may be called from any thread."""

    def deploy(self, deployments: Sequence[TaskDeployment]) -> None:
        """Place and initialise subtasks; each answers `TaskInitialized` or `TaskFailed`."""

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        """Mail to a deployed subtask; lost if it is gone."""

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        """Stop subtasks, by force if they do not react; each answers `TaskStopped`."""
