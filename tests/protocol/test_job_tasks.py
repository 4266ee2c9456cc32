"""The phases of the tasks of a job: what the table lists may happen, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.protocol.checkpoints.trigger import NEVER_MS
from tidegate.protocol.job_tasks import (
    PHASES,
    TASKS_TRANSITIONS,
    TasksEvent,
    TasksLifeCycle,
    TasksPhase,
    check_phase,
)
from tidegate.protocol.life_cycle import InvalidTransition


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(TasksPhase, TasksEvent)))
def test_a_transition_happens_as_listed_or_raises(phase: TasksPhase, event: TasksEvent) -> None:
    tasks = TasksLifeCycle()
    tasks.state = phase
    target = TASKS_TRANSITIONS.get((phase, event))
    assert tasks.allows(event) == (target is not None)
    if target is not None:
        assert tasks.handle(event) is target
        return
    with pytest.raises(InvalidTransition, match=phase.name):
        tasks.handle(event)
    assert tasks.state is phase


def test_the_end_can_be_decided_in_every_phase_but_the_last() -> None:
    for phase in set(TasksPhase) - {TasksPhase.ENDING}:
        assert TASKS_TRANSITIONS[phase, TasksEvent.END] is TasksPhase.ENDING
    assert not any(phase is TasksPhase.ENDING for phase, _ in TASKS_TRANSITIONS)


def test_an_attempt_is_due_only_while_no_task_runs() -> None:
    tasks = TasksLifeCycle()
    assert tasks.next_due_ms() == NEVER_MS, "the job has not started"
    tasks.handle(TasksEvent.DUE)
    tasks.restart(70)
    assert tasks.next_due_ms() == NEVER_MS, "tasks are being stopped"
    assert not tasks.is_due(80)
    tasks.handle(TasksEvent.STOPPED)
    assert (tasks.next_due_ms(), tasks.is_due(69), tasks.is_due(70)) == (70, False, True)
    tasks.postpone(90)
    assert (tasks.next_due_ms(), tasks.is_due(70)) == (90, False)


def test_a_restarting_job_has_three_phases_and_a_running_one_has_one() -> None:
    restarting = {TasksPhase.STOPPING, TasksPhase.WAITING, TasksPhase.DEPLOYING}
    assert PHASES[JobStatus.RESTARTING] == restarting
    check_phase(JobStatus.RUNNING, TasksPhase.RUNNING)
    with pytest.raises(AssertionError, match="the job is RUNNING, but its tasks are being stopped for good"):
        check_phase(JobStatus.RUNNING, TasksPhase.ENDING)
