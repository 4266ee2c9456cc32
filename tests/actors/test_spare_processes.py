"""Spare processes wait for a failure, and replace a process where they have room for its tasks."""

from __future__ import annotations

from tidegate.actors.record_routes import Answered
from tidegate.actors.spare_processes import SpareProcesses
from tidegate.actors.task_processes import TaskProcess
from tidegate.coordinator.deployment.slots import ProcessResources


class Spares:
    """Spare processes with one CPU each, and the answers that they have not given yet."""

    def __init__(self, wanted: int) -> None:
        self.created: list[TaskProcess] = []
        self.unanswered: list[Answered] = []
        self.spares = SpareProcesses(
            wanted, self._create, lambda _, answered: self.unanswered.append(answered)
        )

    def _create(self) -> TaskProcess:
        self.created.append(TaskProcess("spare", None, ProcessResources(1.0), [], 0))
        return self.created[-1]

    def _warm_up(self, spare: TaskProcess, answered: Answered) -> None:
        self.unanswered.append(answered)

    def started(self) -> None:
        for number, answered in enumerate(self.unanswered, 1):
            answered((number, f"node-{number}"), None)
        self.unanswered.clear()


def test_as_many_are_started_as_are_wanted() -> None:
    job = Spares(2)
    job.spares.fill()
    job.spares.fill()
    assert list(job.spares) == job.created
    assert len(job.created) == 2
    job.spares.remove(job.created[0])
    job.spares.fill()
    assert len(job.created) == 3


def test_one_is_taken_once_it_has_started_where_it_fits_and_may_run() -> None:
    job = Spares(2)
    job.spares.fill()
    assert job.spares.take(ProcessResources(1.0), avoided=()) is None
    job.started()
    assert job.spares.take(ProcessResources(2.0), avoided=()) is None
    assert job.spares.take(ProcessResources(1.0), avoided={"node-1"}) is job.created[1]
    assert list(job.spares) == [job.created[0]]


def test_one_that_dies_while_it_starts_is_not_taken() -> None:
    job = Spares(1)
    job.spares.fill()
    job.unanswered[0](None, RuntimeError("died"))
    assert job.spares.take(ProcessResources(1.0), avoided=()) is None


def test_those_on_a_lost_node_are_given_up_and_all_are_at_the_end() -> None:
    job = Spares(3)
    job.spares.fill()
    job.started()
    assert job.spares.take_from({"node-2"}) == [job.created[1]]
    assert job.created[1] not in job.spares
    assert job.spares.take_all() == [job.created[0], job.created[2]]
    assert list(job.spares) == []
