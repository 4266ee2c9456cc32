"""Rescales of a simulated job: what was asked for, what is certain, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...coordinator.control.job_requests import JobRequests
from ...protocol.ids import JobId
from ...protocol.scheduling.execution_graph import ExecutionGraph
from ...protocol.scheduling.plan import JobGraph
from ...protocol.scheduling.rescaling import parallelism_of
from .plan import Victim

if TYPE_CHECKING:
    from .simulated_coordinator import SimulatedCoordinator
    from .simulated_shell import SimulatedShell

_Parallelism = Mapping[str, int]


class WatchedRescales:
    """Asks for rescales, and looks whether every attempt has a parallelism that it may have.

    Args:
        shell: Runs the job.
    """

    def __init__(self, shell: SimulatedShell) -> None:
        self._shell = shell
        self._certain: dict[JobId, tuple[_Parallelism, _Parallelism]] = {}
        """What the program had, and what the job has since, as its coordinators said."""
        self._in_doubt: dict[JobId, tuple[_Parallelism, _Parallelism]] = {}
        """The same of a rescale that was under way last, and may be written down."""
        self._before: dict[int, _Parallelism] = {}
        """Of the newest attempt, by life."""
        self._heard: dict[int, int] = {}

    def ask(self, life: SimulatedCoordinator, parallelism: tuple[int, ...]) -> None:
        """Ask for the parallelism of every stage."""
        shell = self._shell
        victims = (Victim.TASK, Victim.COORDINATOR, Victim.PARTITIONED)
        shell.may_crash_soon(shell.plan.faults.crash_at_rescale, victims)
        wanted = {stage.uid: number for stage, number in zip(shell.plan.stages, parallelism)}
        problem = JobRequests(life.coordinator).rescale(wanted)
        shell.scheduler.note(f"a rescale is asked for: {problem or 'yes'}")
        self._remember(life)

    def hear(self, life: SimulatedCoordinator) -> None:
        """A coordinator did something: a rescale may be over."""
        rescales = life.coordinator.statistics.rescales
        for rescale in list(rescales)[self._heard.get(life.number, 0) :]:
            self._shell.scheduler.note(f"a rescale is over: {rescale.failure or 'it succeeded'}")
            if rescale.failure:
                self._before[life.number] = rescale.from_parallelism
            else:
                self._certain[life.spec.job_id] = _of(life.spec.graph), rescale.to_parallelism
        self._heard[life.number] = len(rescales)
        self._remember(life)

    def _remember(self, life: SimulatedCoordinator) -> None:
        rescaling = life.coordinator.rescaling
        if rescaling is not None:
            self._in_doubt[life.spec.job_id] = _of(life.spec.graph), rescaling.to_parallelism

    def deployed(self, life: SimulatedCoordinator, graph: ExecutionGraph) -> None:
        """An attempt begins: with what it had, with what is asked for now, or with what was written down."""
        if life is not self._shell.current:
            return
        now = {node.uid: node.parallelism for each in graph.subtasks.values() for node in each.task.nodes}
        job_id, submitted = life.spec.job_id, _of(life.spec.graph)
        rescaling = life.coordinator.rescaling
        if life.number in self._before:
            allowed = [self._before[life.number]]
        else:
            certain, in_doubt = self._certain.get(job_id), self._in_doubt.pop(job_id, None)
            allowed = [current for of, current in filter(None, (in_doubt,)) if of == submitted]
            of, current = certain or (submitted, submitted)
            allowed.append(current if of == submitted else submitted)
            self._certain[job_id] = submitted, now
        if rescaling is not None:
            allowed.append(rescaling.to_parallelism)
        assert now in allowed, f"attempt {life.coordinator.attempt} has {now}, but may have {allowed}"
        self._before[life.number] = now


def _of(graph: JobGraph) -> dict[str, int]:
    return parallelism_of(graph)
