"""The life of a task: its table, and which checkpoint ends it."""

from __future__ import annotations

import pytest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.life_cycle import InvalidTransition
from tidegate.protocol.task_life import (
    TRANSITIONS,
    TaskLife,
    TaskLifeEvent,
    TaskPhase,
)

STOP, FINAL = SnapshotKind.STOP, SnapshotKind.FINAL


def running() -> TaskLife:
    life = TaskLife()
    life.handle(TaskLifeEvent.OPENED)
    life.handle(TaskLifeEvent.STARTED)
    return life


@pytest.mark.parametrize("event", TaskLifeEvent)
@pytest.mark.parametrize("phase", TaskPhase)
def test_only_what_the_table_lists_may_happen(phase: TaskPhase, event: TaskLifeEvent) -> None:
    life = TaskLife()
    life.state = phase
    if (phase, event) in TRANSITIONS:
        life.handle(event)
        assert life.state is TRANSITIONS[phase, event]
    else:
        with pytest.raises(
            InvalidTransition, match=f"the task in status {phase.name} cannot take the event {event.value!r}"
        ):
            life.handle(event)


def test_a_task_that_has_ended_does_nothing_more_but_fail() -> None:
    ended = {event for (phase, event) in TRANSITIONS if phase.is_terminal}
    assert ended == {TaskLifeEvent.FAILED}


def test_a_stop_ends_the_task_when_it_or_a_later_checkpoint_is_complete() -> None:
    life = running()
    life.snapshot_taken(STOP, CheckpointId(7))
    assert life.state is TaskPhase.STOPPING
    assert [life.ends_with(CheckpointId(number)) for number in (6, 7, 8)] == [False, True, True]


def test_a_stop_that_was_given_up_before_its_barrier_came_does_not_stop_the_task() -> None:
    life = running()
    assert not life.checkpoint_given_up(CheckpointId(7))
    life.snapshot_taken(STOP, CheckpointId(7))
    assert life.is_running
    assert not life.ends_with(CheckpointId(7))


@pytest.mark.parametrize("how", ["given up", "next checkpoint", "end of the sources"])
def test_a_stopped_task_runs_again_when_the_job_goes_on(how: str) -> None:
    life = running()
    life.snapshot_taken(STOP, CheckpointId(7))
    if how == "given up":
        assert life.checkpoint_given_up(CheckpointId(7))
    elif how == "next checkpoint":
        assert not life.job_continues(CheckpointId(7)), "the checkpoint is the stop itself"
        assert life.job_continues(CheckpointId(8))
    else:
        assert life.source_ends()
    assert life.is_running
    assert not life.ends_with(CheckpointId(9))


def test_a_final_checkpoint_ends_only_a_task_whose_input_has_ended() -> None:
    life = running()
    life.snapshot_taken(FINAL, CheckpointId(3))
    assert not life.ends_with(CheckpointId(3))
    life.handle(TaskLifeEvent.INPUT_ENDED)
    life.snapshot_taken(FINAL, CheckpointId(4))
    life.snapshot_taken(FINAL, CheckpointId(5))
    assert life.ends_with(CheckpointId(4))
    assert not life.checkpoint_given_up(CheckpointId(4)), "it does not run again"
    assert [life.ends_with(CheckpointId(number)) for number in (4, 5)] == [False, True]
