"""What a coordinator decides on a failure, and what it remembers of it."""

from __future__ import annotations

from tidegate.common.restart_strategy import RestartStrategies
from tidegate.coordinator.job_failures import JobFailures
from tidegate.coordinator.monitoring.job_history import Failure
from tidegate.protocol.ids import Attempt
from tidegate.protocol.scheduling.failover import GiveUp, Restart, failover_of
from tidegate.protocol.task_events import TaskFailed

from .fakes import SOURCE

FAILURE = Failure("boom", "details", 5_000)


def failures(restarts: int = 1) -> JobFailures:
    new = JobFailures(failover_of(RestartStrategies.fixed_delay_restart(restarts, 50)))
    new.latest = FAILURE
    return new


def start_error(cause: str = "open() raised", is_start_error: bool = True) -> TaskFailed:
    return TaskFailed(Attempt(1), SOURCE, cause, "", True, is_start_error)


def test_the_strategy_decides_until_it_is_used_up_and_the_failure_names_it() -> None:
    job = failures()
    assert job.decide(FAILURE, True, None, has_restarted=False) == Restart(50)
    assert isinstance(job.decide(FAILURE, True, None, has_restarted=True), GiveUp)
    assert job.latest == Failure(
        "boom (all 1 restarts of the fixed-delay strategy are used)", "details", 5_000
    )
    assert not job.is_final


def test_a_first_failure_that_is_final_keeps_its_cause() -> None:
    job = failures(restarts=0)
    assert isinstance(job.decide(FAILURE, True, None, has_restarted=False), GiveUp)
    assert job.latest == FAILURE


def test_what_a_restart_cannot_repair_is_final_without_the_strategy() -> None:
    job = failures()
    assert job.decide(FAILURE, False, None, has_restarted=False) == GiveUp("")
    assert job.is_final
    assert job.latest == FAILURE


def test_a_repeated_error_of_the_program_is_final_until_the_job_has_run() -> None:
    job = failures()
    assert job.repeated(start_error(is_start_error=False)) is None
    assert job.repeated(start_error()) is None
    repeated = job.repeated(start_error())
    assert repeated is not None
    assert job.decide(FAILURE, True, repeated, has_restarted=True) is repeated
    assert job.is_final
    job.running()
    assert job.repeated(start_error()) is None
