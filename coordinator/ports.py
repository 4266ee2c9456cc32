"""What a coordinator needs from the shell it runs in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..protocol.ids import Attempt, SubtaskId
from ..protocol.scheduling.execution_graph import ExecutionGraph
from ..protocol.task_events import TaskMail
from ..runtime.ports import TaskDeployment


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

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        """Make room for a graph that may be deployed soon, while another one runs.

        Args:
            graph: All its subtasks.
            ready: Called once on the coordinator's loop, with why there is no room, or an empty text.

        Returns:
            Why there can be no room, and then `ready` is not called; or an empty text.
        """

    def release(self) -> None:
        """Let go of what was prepared: no other graph is to come. `ready` is not called any more."""

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        """Place and initialise the subtasks of a graph; each answers `TaskInitialized` or `TaskFailed`."""

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        """Mail to a deployed subtask; lost if it is gone."""

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        """Stop subtasks, by force if they do not react; each answers `TaskStopped`."""
