"""The life of a rescale: what the table lists may happen, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from tidegate.protocol.life_cycle import InvalidTransition
from tidegate.protocol.rescale import RESCALE_TRANSITIONS, RescaleEvent, RescaleLifeCycle, RescalePhase


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(RescalePhase, RescaleEvent)))
def test_a_transition_happens_as_listed_or_raises(phase: RescalePhase, event: RescaleEvent) -> None:
    life = RescaleLifeCycle()
    life.state = phase
    target = RESCALE_TRANSITIONS.get((phase, event))
    assert life.allows(event) == (target is not None)
    if target is not None:
        assert life.handle(event) is target
        return
    with pytest.raises(InvalidTransition, match=phase.name):
        life.handle(event)


@pytest.mark.parametrize("phase", [phase for phase in RescalePhase if not phase.is_over])
def test_a_rescale_that_is_under_way_ends_with_the_job(phase: RescalePhase) -> None:
    assert RESCALE_TRANSITIONS[phase, RescaleEvent.JOB_ENDED] is RescalePhase.FAILED


def test_nothing_follows_the_end_of_a_rescale() -> None:
    assert not any(phase.is_over for phase, _ in RESCALE_TRANSITIONS)


def test_only_a_rescale_whose_tasks_were_being_started_changes_the_job_back() -> None:
    undone = {edge for edge, target in RESCALE_TRANSITIONS.items() if target is RescalePhase.UNDONE}
    assert undone == {(RescalePhase.STARTING, RescaleEvent.JOB_FAILED)}


def test_a_failure_does_not_undo_a_rescale_whose_tasks_have_run() -> None:
    assert (RescalePhase.STORING, RescaleEvent.JOB_FAILED) not in RESCALE_TRANSITIONS
