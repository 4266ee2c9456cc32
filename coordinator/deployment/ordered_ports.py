"""Numbers what must reach a subtask in the order in which it was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ...protocol.ids import Attempt, SubtaskId
from ...protocol.scheduling.execution_graph import ExecutionGraph
from ...protocol.task_events import Numbered, StartRunning, TaskMail, ToOperator, TriggerCheckpoint
from ...runtime.ports import TaskDeployment
from ..ports import CoordinatorPorts

_ORDERED = (StartRunning, ToOperator, TriggerCheckpoint)


class OrderedPorts:
    """The `CoordinatorPorts` of a job in which halves of operators run in the coordinator.

    Args:
        ports: The shell's.
        subtasks: Those in which the other halves run.
    """

    def __init__(self, ports: CoordinatorPorts, subtasks: Iterable[SubtaskId]) -> None:
        self._ports = ports
        self.rescaled(subtasks)
        self._attempt = Attempt(0)
        self._numbers: Counter[SubtaskId] = Counter()

    def rescaled(self, subtasks: Iterable[SubtaskId]) -> None:
        """The other halves run in other subtasks from the next deployment on."""
        self._subtasks = frozenset(subtasks)

    def now_ns(self) -> int:
        return self._ports.now_ns()

    def random_ms(self, bound_ms: int) -> int:
        return self._ports.random_ms(bound_ms)

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._ports.run_in_background(work)

    def post(self, action: Callable[[], None]) -> None:
        self._ports.post(action)

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        return self._ports.prepare(graph, ready)

    def release(self) -> None:
        self._ports.release()

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        self._attempt = deployments[0].attempt
        self._numbers.clear()
        self._ports.deploy(graph, deployments)

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        if subtask in self._subtasks and attempt == self._attempt and isinstance(mail, _ORDERED):
            mail, self._numbers[subtask] = Numbered(self._numbers[subtask], mail), self._numbers[subtask] + 1
        self._ports.send(attempt, subtask, mail)

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        self._ports.stop(attempt, subtasks)
