"""What clients ask of a job: one type for each request, and one way for all of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import tidegate
from tidegate.common.errors import JobExecutionError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.barrier_mode import BarrierMode
from tidegate.coordinator.control.control_requests import (
    Cancel,
    ControlRequest,
    GetDetails,
    GetProcesses,
    GetReport,
    Rescale,
    SetBarrierMode,
    StateQuery,
    TakeCheckpoint,
    TakeSavepoint,
)
from tidegate.coordinator.control.job_control import JobControl
from tidegate.coordinator.control.terminated_job import TerminatedJob
from tidegate.protocol.elements import CheckpointingMode, SavepointFormatType, SnapshotKind

from tests.fake_jobs import FakeJob, fake_job

from .fakes import FakeCluster

REQUESTS: list[ControlRequest[object]] = [
    GetReport(),
    GetDetails(),
    GetProcesses(),
    Cancel(),
    TakeCheckpoint(),
    TakeSavepoint(SnapshotKind.SAVEPOINT, None, SavepointFormatType.CANONICAL),
    Rescale({"totals": 4}),
    SetBarrierMode(BarrierMode(CheckpointingMode.AT_LEAST_ONCE)),
    StateQuery("totals", "total", 1),
]
ACTIONS = {"cancel", "trigger_checkpoint", "trigger_savepoint", "rescale", "set_barrier_mode", "query_state"}


def methods() -> Iterator[tuple[str, str]]:
    """The methods of the classes that stand between a client and its job, as (method, class)."""
    package = Path(tidegate.__file__).parent
    for path in [*(package / "coordinator").rglob("*.py"), *(package / "testing").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield from ((each.name, node.name) for each in node.body if isinstance(each, ast.FunctionDef))


def test_an_action_is_written_only_where_it_is_offered_and_where_it_is_performed() -> None:
    written = {(action, owner) for action, owner in methods() if action in ACTIONS}
    offered = {(action, owner) for action in ACTIONS for owner in ("JobClient", "JobRequests")}
    assert written <= offered | {("cancel", "JobCoordinator")}


def test_these_are_all_requests() -> None:
    assert {type(each) for each in REQUESTS} == set(ControlRequest.__subclasses__())


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_running_job_answers_every_request(request_: ControlRequest[object]) -> None:
    cluster = FakeCluster()
    cluster.run()
    report, details = fake_job().report, fake_job()
    control = JobControl(cluster.coordinator, lambda: report, lambda: details, lambda: {"a": 1})
    answers: list[object] = []
    control.ask(request_, answers.append)
    if isinstance(request_, StateQuery):
        assert not answers, "its task answers later"
        cluster.coordinator.cancel()
    assert len(answers) == 1


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.FINISHED])
def test_an_ended_job_refuses_every_action_with_its_status(
    request_: ControlRequest[object], status: JobStatus
) -> None:
    details = fake_job(status=status)
    job = TerminatedJob(details.report, lambda: details)
    if isinstance(request_, TakeCheckpoint | TakeSavepoint | Rescale | SetBarrierMode):
        with pytest.raises(JobExecutionError, match=f"the job is {status.name}; it takes no more requests"):
            job.ask(request_)
        return
    answer = job.ask(request_)
    if isinstance(request_, StateQuery):
        assert (answer.error, answer.is_final) == (f"the job is {status.name}", True)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_simulated_job_answers_every_request_and_records_the_actions(
    request_: ControlRequest[object],
) -> None:
    job = FakeJob(fake_job())
    job.ask(request_)
    is_look = isinstance(request_, GetReport | GetDetails | GetProcesses | StateQuery | SetBarrierMode)
    assert job.asked == ([] if is_look else [request_])
