"""The life of a job: what the table lists may happen, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.protocol.job import TRANSITIONS, JobEvent, JobLifeCycle
from tidegate.protocol.life_cycle import InvalidTransition


def life_cycle_in(status: JobStatus) -> JobLifeCycle:
    life = JobLifeCycle()
    life.state = status
    return life


@pytest.mark.parametrize(("status", "event"), list(itertools.product(JobStatus, JobEvent)))
def test_a_transition_happens_as_listed_or_raises(status: JobStatus, event: JobEvent) -> None:
    life = life_cycle_in(status)
    target = TRANSITIONS.get((status, event))
    assert life.allows(event) == (target is not None)
    if target is not None:
        assert life.handle(event) is target
        assert life.state is target
        return
    with pytest.raises(InvalidTransition, match=status.name) as raised:
        life.handle(event)
    assert (raised.value.state, raised.value.event) == (status, event)
    assert life.state is status


def test_a_job_begins_created() -> None:
    assert JobLifeCycle().state is JobStatus.CREATED


def test_nothing_follows_a_terminal_status_and_every_other_one_can_reach_it() -> None:
    following: dict[JobStatus, set[JobStatus]] = {}
    for (status, _), target in TRANSITIONS.items():
        assert not status.is_globally_terminal_state()
        following.setdefault(status, set()).add(target)
    for status in following:
        reached, frontier = set[JobStatus](), {status}
        while frontier:
            reached |= frontier
            frontier = set().union(*(following.get(each, set()) for each in frontier)) - reached
        assert {JobStatus.FAILED, JobStatus.CANCELED} & reached, status


def test_a_job_can_be_cancelled_until_it_is_ending() -> None:
    ending = {JobStatus.FAILING, JobStatus.CANCELLING}
    for status in {status for status, _ in TRANSITIONS} - ending:
        assert life_cycle_in(status).allows(JobEvent.CANCEL_REQUESTED)
