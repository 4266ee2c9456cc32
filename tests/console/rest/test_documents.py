"""What the documents of the REST API say: Flink's shapes, the right figures, never more than fits a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tidegate.common.job_id import JobID
from tidegate.console.rest.directory import LiveJobs
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret
from tidegate.coordinator.control.control_requests import Rescale
from tidegate.coordinator.control.job_client import JobClient

from tests.console.rest.conftest import TOKEN
from tests.console.rest.jobs import ARCHIVED, FAILED, RUNNING, id_of
from tests.fake_jobs import FakeJob, fake_client, fake_job, large_job

JOB = f"/v1/jobs/{id_of(RUNNING)}"
LARGE = f"/v1/jobs/{id_of(99)}"


def _get(reader: httpx.Client, path: str) -> Any:
    answer = reader.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_list_of_jobs_has_the_names_that_flinks_clients_read(reader: httpx.Client) -> None:
    jobs = {job["jid"]: job for job in _get(reader, "/v1/jobs/overview")["jobs"]}
    job = jobs[id_of(RUNNING)]
    assert {
        "jid",
        "name",
        "start-time",
        "end-time",
        "duration",
        "state",
        "last-modification",
        "tasks",
    } <= set(job)
    assert job["state"] == "RUNNING"
    assert job["end-time"] == -1
    assert job["tasks"]["running"] == job["tasks"]["total"] == 8
    assert not job["archived"]
    assert jobs[id_of(ARCHIVED)]["archived"]


def test_the_overview_counts_jobs_by_state(reader: httpx.Client) -> None:
    found = _get(reader, "/v1/overview")
    # The running one and the one that restarts; the failed one and the archived one.
    assert (found["jobs-running"], found["jobs-failed"], found["jobs-finished"]) == (2, 2, 1)


def test_a_job_tells_its_vertices_its_plan_and_what_went_through(reader: httpx.Client) -> None:
    job = _get(reader, JOB)
    assert [vertex["id"] for vertex in job["vertices"]] == ["task-1", "task-2", "task-4", "task-6"]
    assert job["vertices"][1]["name"] == "enrich 1: decode -> enrich 1"
    assert {vertex["maxParallelism"] for vertex in job["vertices"]} == {128}
    nodes = {node["id"]: node for node in job["plan"]["nodes"]}
    assert nodes["task-2"]["inputs"][0]["id"] == "task-1"
    assert nodes["task-2"]["inputs"][0]["ship_strategy"] == "HASH"
    assert [operator["uid"] for operator in nodes["task-2"]["operators"]] == ["enrich-1-decode", "enrich-1"]
    assert job["status-counts"]["RUNNING"] == 4
    subtasks = _get(reader, f"{JOB}/vertices/task-2")["subtasks"]
    assert (
        sum(one["metrics"]["read-records"] for one in subtasks)
        == job["vertices"][1]["metrics"]["read-records"]
    )


def test_the_live_document_agrees_with_the_metrics_of_the_vertices(reader: httpx.Client) -> None:
    live = _get(reader, f"{JOB}/live")
    vertex = live["vertices"][1]
    query = "busyTimeMsPerSecond,numRecordsInPerSecond,enrich.hits,nothing"
    found = _get(reader, f"{JOB}/vertices/task-2/subtasks/metrics?get={query}")
    metrics = {metric["id"]: metric for metric in found}
    assert set(metrics) == {"busyTimeMsPerSecond", "numRecordsInPerSecond", "enrich.hits"}
    assert vertex["records_in"] == metrics["numRecordsInPerSecond"]["sum"]
    assert vertex["busy"] == pytest.approx(metrics["busyTimeMsPerSecond"]["avg"] / 1_000, abs=0.001)
    assert vertex["subtasks"]["states"] == "RR"
    watermarks = _get(reader, f"{JOB}/vertices/task-2/watermarks")
    assert str(vertex["watermark"]) == min(one["value"] for one in watermarks)
    backpressure = _get(reader, f"{JOB}/vertices/task-2/backpressure")
    assert max(one["ratio"] for one in backpressure["subtasks"]) == pytest.approx(
        vertex["backpressured_max"], abs=0.001
    )


def test_failures_come_newest_first_with_their_subtask_and_as_many_as_asked_for(reader: httpx.Client) -> None:
    path = f"/v1/jobs/{id_of(FAILED)}/exceptions"
    found = _get(reader, path)
    times = [one["timestamp"] for one in found["exceptionHistory"]["entries"]]
    assert times == sorted(times, reverse=True)
    assert "ValueError" in found["root-exception"]
    assert found["exceptionHistory"]["entries"][0]["taskName"] == "enrich 1 (1/2)"
    short = _get(reader, f"{path}?maxExceptions=1")["exceptionHistory"]
    assert (len(short["entries"]), short["truncated"]) == (1, True)


def test_recoveries_come_newest_first_with_their_outage(reader: httpx.Client) -> None:
    path = f"/v1/jobs/{id_of(FAILED)}/recoveries"
    found = _get(reader, path)
    assert [one["failures"] for one in found["recoveries"]] == [1, 2]
    assert not found["truncated"]
    newest = found["recoveries"][0]
    assert (newest["duration"], newest["outage"]) == (2_100, 14_300)
    assert newest["first_result"] - newest["last_result"] == newest["outage"]
    assert "not a number: 'x1'" in newest["cause"]
    assert _get(reader, f"{path}?limit=1")["truncated"]


def test_checkpoints_are_counted_summed_up_and_paged(reader: httpx.Client) -> None:
    whole = _get(reader, f"{JOB}/checkpoints?limit=200")
    assert whole["counts"] == {"restored": 0, "total": 30, "in_progress": 0, "completed": 27, "failed": 3}
    assert [one["id"] for one in whole["history"]] == list(range(30, 0, -1))
    page = _get(reader, f"{JOB}/checkpoints?offset=10&limit=5")
    assert page["history"] == whole["history"][10:15]
    assert page["page"] == {"offset": 10, "limit": 5, "total": 30}
    failed = whole["history"][0]
    assert (failed["status"], failed["className"]) == ("FAILED", "failed")
    assert "timeout" in failed["failure_message"]
    assert whole["latest"]["savepoint"]["is_savepoint"]
    assert whole["summary"]["end_to_end_duration"]["max"] >= whole["summary"]["end_to_end_duration"]["p50"]


def test_a_checkpoint_tells_of_its_vertices_its_subtasks_and_its_critical_path(reader: httpx.Client) -> None:
    checkpoint = _get(reader, f"{JOB}/checkpoints/details/29")
    assert set(checkpoint["tasks"]) == {"task-1", "task-2", "task-4", "task-6"}
    vertex = _get(reader, f"{JOB}/checkpoints/details/29/subtasks/task-6")
    assert [one["index"] for one in vertex["subtasks"]] == [0, 1]
    durations = [one["end_to_end_duration"] for one in vertex["subtasks"]]
    assert max(durations) == vertex["summary"]["end_to_end_duration"]["max"].__round__()
    assert checkpoint["tasks"]["task-6"]["state_size"] == sum(one["state_size"] for one in vertex["subtasks"])
    aborted = _get(reader, f"{JOB}/checkpoints/details/30/subtasks/task-6")
    assert {one["status"] for one in aborted["subtasks"]} == {"pending_or_failed"}
    path = _get(reader, f"{JOB}/checkpoints/details/29/critical-path")
    assert path["cause"]
    ends = [step["start_ms"] + step["duration_ms"] for step in path["steps"]]
    assert [step["start_ms"] for step in path["steps"][1:]] == pytest.approx(ends[:-1], abs=0.01)


def test_how_checkpoints_are_taken_is_read_from_the_settings(reader: httpx.Client) -> None:
    found = _get(reader, f"{JOB}/checkpoints/config")
    assert (found["interval"], found["mode"], found["state_backend"]) == (10_000, "exactly_once", "lmdb")
    settings = _get(reader, f"{JOB}/config")["execution-config"]["user-config"]
    assert settings["execution.checkpointing.interval"] == "10 s"


def test_metrics_of_a_job_have_flinks_names(reader: httpx.Client) -> None:
    names = [metric["id"] for metric in _get(reader, f"{JOB}/metrics")]
    found = {one["id"]: one["value"] for one in _get(reader, f"{JOB}/metrics?get={','.join(names)}")}
    assert found["numberOfCompletedCheckpoints"] == "27"
    assert found["lastCheckpointDuration"] != "-1"


def test_rescaling_names_the_operators_of_a_vertex(tmp_path: Path) -> None:
    handle = FakeJob(fake_job(1))
    jobs = LiveJobs.of([JobClient(JobID(id_of(1)), handle)])
    with (
        served(jobs, ServerSettings(port=0, secret=ConsoleSecret(TOKEN))) as address,
        httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as operator,
    ):
        path = f"{JOB}/resource-requirements"
        assert operator.get(path).json()["task-2"]["parallelism"] == {"lowerBound": 1, "upperBound": 2}
        wanted = {"task-2": {"parallelism": {"lowerBound": 1, "upperBound": 4}}}
        started = operator.put(path, json=wanted)
        assert started.status_code == 202
        while True:
            outcome = operator.get(f"{JOB}/rescaling/{started.json()['request-id']}").json()
            if outcome["status"]["id"] == "COMPLETED":
                break
        assert outcome["operation"]["failure-cause"] is None
        assert handle.asked == [Rescale({"enrich-1-decode": 4, "enrich-1": 4})]
        too_wide = {"task-2": {"parallelism": {"upperBound": 129}}}
        assert operator.put(path, json=too_wide).status_code == 400
        assert operator.put(path, json={"task-9": {"parallelism": {"upperBound": 1}}}).status_code == 400


@pytest.fixture(scope="module")
def large() -> Iterator[httpx.Client]:
    jobs = LiveJobs.of([fake_client(large_job(99))])
    with (
        served(jobs, ServerSettings(port=0)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("path", "most_bytes"),
    [
        ("", 20_000),
        ("/live", 40_000),
        ("/plan", 10_000),
        ("/config", 5_000),
        ("/exceptions", 5_000),
        ("/metrics", 5_000),
        ("/checkpoints", 60_000),
        ("/checkpoints?limit=200", 200_000),
        ("/checkpoints?offset=9900&limit=200", 200_000),
        ("/checkpoints/details/9999", 10_000),
        ("/checkpoints/details/9999/subtasks/task-2", 50_000),
        ("/checkpoints/details/9999/critical-path", 20_000),
        ("/checkpoints/details/1", 10_000),
        ("/vertices/task-2", 50_000),
        ("/vertices/task-2/subtasks/metrics", 5_000),
        ("/vertices/task-2/backpressure", 20_000),
        ("/vertices/task-2/watermarks", 10_000),
        ("/resource-requirements", 5_000),
        ("/state", 1_000),
    ],
)
def test_500_subtasks_and_10_000_checkpoints_make_no_answer_large(
    large: httpx.Client, path: str, most_bytes: int
) -> None:
    answer = large.get(f"{LARGE}{path}")
    assert answer.status_code == 200
    assert len(answer.content) < most_bytes


def test_the_list_of_jobs_does_not_grow_with_a_job(large: httpx.Client) -> None:
    assert len(large.get("/v1/jobs/overview").content) < 1_000
