"""Requests and stored histories of any content: no answer is an unexpected failure."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.common.errors import TidegateError
from tidegate.common.job_status import JobStatus
from tidegate.console.rest.app import guarded_app
from tidegate.console.rest.directory import FoundJob, ListedJob
from tidegate.console.rest.guard import Access
from tidegate.console.rest.tokens import ConsoleSecret
from tidegate.console.rest.views import job_views
from tidegate.coordinator.monitoring.job_archive import decode_job, encode_job
from tidegate.coordinator.monitoring.statistics import CheckpointStatistics
from tidegate.coordinator.monitoring.stored_statistics import read_statistics, stored_statistics

from tests.console.rest.jobs import RUNNING, all_jobs, id_of
from tests.fake_jobs import fake_job

pytestmark = pytest.mark.slow

_DIRECTORY = tempfile.TemporaryDirectory(prefix="tidegate-archive-")
_TOKEN = "0123456789abcdef"
_ACCESS = Access(ConsoleSecret(_TOKEN), hosts=frozenset({"testserver"}))
_APP = guarded_app(all_jobs(Path(_DIRECTORY.name)), _ACCESS)
_OFTEN = settings(max_examples=150, suppress_health_check=list(HealthCheck))

_JOB = f"/v1/jobs/{id_of(RUNNING)}"
_PATHS = [
    "/",
    "/v1/overview",
    "/v1/jobs/overview",
    _JOB,
    f"{_JOB}/stop",
    f"{_JOB}/state/entries",
    "//[",
    "/v1/../x",
]
_NAMES = [b"origin", b"host", b"authorization", b"content-length", b"content-type", b"sec-fetch-site", b"x"]
_VALUES = [
    b"http://[",
    b"[",
    b"\xb2",
    b"-1",
    b"Bearer ",
    b"application/json",
    b"testserver",
    b"null",
    b"cross-site",
]
_HEADERS = st.lists(
    st.tuples(st.sampled_from(_NAMES), st.sampled_from(_VALUES) | st.binary(max_size=12)), max_size=6
)


async def answered(scope: dict[str, Any], body: bytes) -> int:
    """The status of the answer to one request."""
    statuses = []

    received = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(received, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await _APP(scope, receive, send)  # type: ignore[arg-type]
    (status,) = statuses
    return int(status)


@_OFTEN
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]),
    path=st.sampled_from(_PATHS) | st.text(max_size=20).map(lambda text: f"/{text}"),
    query=st.binary(max_size=20),
    headers=_HEADERS,
    is_known=st.booleans(),
    body=st.binary(max_size=40)
    | st.sampled_from([b"{}", b"[" * 5_000, b'{"mode": "cancel"}', b"\xff", b"1e999"]),
)
def test_no_request_fails_in_an_unexpected_way(
    method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], is_known: bool, body: bytes
) -> None:
    own = [(b"host", b"testserver"), (b"authorization", b"Bearer " + _TOKEN.encode())] if is_known else []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "root_path": "",
        "query_string": query,
        "headers": [*own, *headers],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    assert asyncio.run(answered(scope, body)) in {200, 202, 204, 400, 401, 403, 404, 405, 409, 413, 421, 503}


# ---------------------------------------------------------------- documents

_HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 2**31, 2**63 - 1, 10**19]),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(
        ["COMPLETED", "task-1", "task-x", "\ud800", [], {}, [[]], [{}], ["task-1", 0], {"a": [1, 2]}]
    ),
)


def mutated(document: Any, data: st.DataObject) -> Any:
    """With some values replaced or gone."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        parent, key = document, data.draw(st.sampled_from(sorted(document)))
        while isinstance(parent[key], (dict, list)) and parent[key] and data.draw(st.integers(0, 4)):
            parent = parent[key]
            key = data.draw(
                st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent)))
            )
        if data.draw(st.booleans()):
            parent[key] = copy.deepcopy(data.draw(_HOSTILE))
        else:
            del parent[key]
            if not document:
                return document
    return document


def _history() -> Any:
    statistics = fake_job(1, JobStatus.RUNNING).report.statistics
    newest = next(each for each in reversed(statistics.checkpoints) if isinstance(each, CheckpointStatistics))
    return json.loads(json.dumps(stored_statistics(statistics, newest)))


_HISTORY = _history()
_ARCHIVE = json.loads(encode_job(fake_job(1, JobStatus.FAILED)).partition(b"\n")[2])


@_OFTEN
@given(data=st.data())
def test_a_history_of_any_content_is_read_or_refused(data: st.DataObject) -> None:
    try:
        statistics = read_statistics(mutated(_HISTORY, data))
    except TidegateError:
        return
    for checkpoint in statistics.checkpoints:
        assert checkpoint.processed_bytes is not None
        assert checkpoint.start_delay_ms is not None


@_OFTEN
@given(data=st.data())
def test_an_archive_of_any_content_is_listed_or_refused(data: st.DataObject) -> None:
    body = json.dumps(mutated(_ARCHIVE, data)).encode()
    try:
        details = decode_job(f"tidegate-job 1 {hashlib.sha256(body).hexdigest()}\n".encode() + body, "here")
    except TidegateError:
        return
    assert job_views.summary_of(ListedJob(details.job_id, FoundJob(details))).model_dump_json()
