"""What must not be answered over a real socket: the answer is clear, nothing is done, nothing is told."""

from __future__ import annotations

import logging
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest
from tidegate.console.rest.tokens import ConsoleSecret

from tests.console.rest.conftest import TOKEN
from tests.console.rest.jobs import ARCHIVED, DAMAGED, FINISHED, RESTARTING, RUNNING, UNKNOWN, id_of

JOB = f"/v1/jobs/{id_of(RUNNING)}"
ACTIONS = [
    ("PATCH", JOB, None),
    ("POST", f"{JOB}/savepoints", {}),
    ("POST", f"{JOB}/stop", {}),
    ("POST", f"{JOB}/checkpoints", {}),
    ("PUT", f"{JOB}/resource-requirements", {"task-1": {"parallelism": {"upperBound": 1}}}),
]


def _raw(address: str, request: str) -> str:
    """The answer to a request that no client would send as it is."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 0), timeout=60) as connection:
        connection.sendall(request.encode("latin-1"))
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer.decode("latin-1")


def _state(reader: httpx.Client) -> object:
    return reader.get(f"{JOB}").json()["state"]


@pytest.mark.parametrize(("method", "path", "body"), ACTIONS)
@pytest.mark.parametrize(
    ("authorization", "why"),
    [
        (None, "needs a token"),
        ("Bearer wrong", "wrong"),
        (f"Bearer {TOKEN}x", "wrong"),
        (f"Basic {TOKEN}", "needs a token"),
        ("Bearer v1.99999999999.0000", "wrong"),
        ("expired", "expired"),
    ],
)
def test_actions_without_a_valid_token_do_nothing(
    reader: httpx.Client, method: str, path: str, body: object, authorization: str | None, why: str
) -> None:
    if authorization == "expired":
        authorization = f"Bearer {ConsoleSecret(TOKEN).token_until(int(time.time()) - 1)}"
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = reader.request(method, path, json=body, headers=headers)
    assert answer.status_code == 401
    assert why in answer.json()["errors"][0]
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert _state(reader) == "RUNNING"


def test_a_token_in_the_query_is_no_token(reader: httpx.Client) -> None:
    assert reader.post(f"{JOB}/stop?token={TOKEN}", json={}).status_code == 401


def test_an_action_from_the_page_of_somebody_else_is_refused(operator: httpx.Client) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert operator.post(f"{JOB}/stop", json={}, headers=headers).status_code == 403
    assert _state(operator) == "RUNNING"


def test_a_host_name_that_only_points_here_is_refused(reader: httpx.Client) -> None:
    for host in ("evil.example", "evil.example:8081", "127.0.0.1.evil.example", ""):
        assert reader.get("/v1/jobs/overview", headers={"Host": host}).status_code in (400, 421), host
    assert reader.get("/v1/jobs/overview", headers={"Host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/../../../../etc/passwd",
        "/v1/jobs/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/jobs/%2e%2e/%2e%2e/etc/passwd",
        f"{JOB}/vertices/..%2f..%2fetc",
        f"{JOB}/vertices/%2e%2e",
        f"{JOB}/checkpoints/details/..%2f1",
        f"{JOB}/savepoints/..%2f..%2f",
        f"/v1/jobs/{id_of(RUNNING)}%00",
        f"/v1/jobs/{id_of(RUNNING)}%0a",
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/pyproject.toml",
        "//etc/passwd",
        "/static/../../app.py",
    ],
)
def test_no_id_and_no_file_name_leads_out_of_its_place(address: str, path: str) -> None:
    answer = _raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    status = int(answer.split()[1])
    assert status in (400, 404), answer
    assert "root:" not in answer
    assert "Traceback" not in answer


def test_an_id_of_a_state_that_looks_like_a_path_is_only_a_name(reader: httpx.Client) -> None:
    query = {"uid": "../../../etc/passwd", "state": "../x"}
    answer = reader.get(f"{JOB}/state/entries", params=query)
    assert answer.status_code == 404
    assert "no complete checkpoint" in answer.json()["errors"][0]


@pytest.mark.parametrize(
    "target",
    [
        "/etc",
        "/savepoints/../etc",
        "/savepointsx",
        "relative/place",
        "~/place",
        "s3://savepoints/x",
        "file:///etc",
        "file:///savepoints/%2e%2e/etc",
        "file://elsewhere/savepoints",
        "/savepoints/a\nb",
        "/savepoints/a\x00b",
        "/savepoints\\..\\etc",
        "memory://savepoints",
    ],
)
@pytest.mark.parametrize(
    ("action", "name"), [("savepoints", "target-directory"), ("stop", "targetDirectory")]
)
def test_savepoints_outside_of_the_allowed_directories_are_refused(
    operator: httpx.Client, action: str, name: str, target: str
) -> None:
    answer = operator.post(f"{JOB}/{action}", json={name: target})
    assert answer.status_code == 403
    assert "target directory" in answer.json()["errors"][0]
    assert _state(operator) == "RUNNING"


@pytest.mark.parametrize("target", ["/savepoints", "/savepoints/mine/", "/allowed/x", "file:///allowed/y"])
def test_savepoints_go_to_the_jobs_own_directory_and_to_those_of_the_console(
    operator: httpx.Client, target: str
) -> None:
    answer = operator.post(f"{JOB}/savepoints", json={"target-directory": target})
    assert answer.status_code == 202
    location = _outcome(operator, f"{JOB}/savepoints", answer.json()["request-id"])["location"]
    assert str(location).startswith(target.removeprefix("file://").rstrip("/"))


def _outcome(operator: httpx.Client, path: str, request_id: str) -> dict[str, object]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = operator.get(f"{path}/{request_id}").json()
        if answer["status"]["id"] == "COMPLETED":
            outcome: dict[str, object] = answer["operation"]
            return outcome
    raise AssertionError(f"{path}/{request_id} does not complete")


def test_asking_twice_under_one_id_takes_one_savepoint(operator: httpx.Client) -> None:
    asked = {"triggerId": "a" * 32}
    first, second = (operator.post(f"{JOB}/savepoints", json=asked) for _ in range(2))
    assert first.json() == second.json() == {"request-id": "a" * 32}
    path = f"{JOB}/savepoints"
    assert _outcome(operator, path, "a" * 32) == _outcome(operator, path, "a" * 32)


def test_a_body_beyond_the_limit_is_refused_whether_it_says_so_or_not(
    operator: httpx.Client, address: str
) -> None:
    assert operator.post(f"{JOB}/stop", content=b"x" * 100_000).status_code == 413
    chunks = "".join("3e8\r\n" + "x" * 1_000 + "\r\n" for _ in range(100))
    answer = _raw(
        address,
        f"POST {JOB}/stop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        f"Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n",
    )
    assert answer.split()[1] == "413"


def test_headers_and_addresses_beyond_the_limit_are_refused(address: str) -> None:
    much = "x" * 40_000
    for line in (f"GET /v1/config?{much} HTTP/1.1", f"GET /v1/config HTTP/1.1\r\nX: {much}"):
        answer = _raw(address, f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.split()[1] == "400"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b'{"drain": "perhaps"}', "application/json"),
        (b'{"unknown": 1}', "application/json"),
        (b'{"triggerId": "../x"}', "application/json"),
        (b"drain=true", "application/x-www-form-urlencoded"),
        (b"[" * 60_000, "application/json"),
    ],
)
def test_a_body_that_is_not_understood_stops_nothing(
    operator: httpx.Client, body: bytes, content_type: str
) -> None:
    answer = operator.post(f"{JOB}/stop", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 400
    assert _state(operator) == "RUNNING"


def test_a_wrong_value_does_not_come_back(operator: httpx.Client) -> None:
    answer = operator.post(f"{JOB}/stop", json={"formatType": "hunter2", "hunter2": "hunter2"})
    assert answer.status_code == 400
    assert "formatType" in answer.text


@pytest.mark.parametrize("number", [FINISHED, ARCHIVED])
@pytest.mark.parametrize(("method", "path", "body"), ACTIONS)
def test_nothing_can_be_asked_of_a_job_that_is_over(
    operator: httpx.Client, number: int, method: str, path: str, body: object
) -> None:
    answer = operator.request(method, path.replace(id_of(RUNNING), id_of(number)), json=body)
    assert answer.status_code == 409


def test_a_job_that_nobody_knows_is_not_found(operator: httpx.Client) -> None:
    for path in ("", "/live", "/plan", "/checkpoints", "/state"):
        assert operator.get(f"/v1/jobs/{id_of(UNKNOWN)}{path}").status_code == 404
    assert operator.post(f"/v1/jobs/{id_of(UNKNOWN)}/stop", json={}).status_code == 404


def test_a_damaged_archive_is_one_job_with_an_error(reader: httpx.Client) -> None:
    jobs = {job["jid"]: job for job in reader.get("/v1/jobs/overview").json()["jobs"]}
    assert len(jobs) == 6
    assert "damaged" in jobs[id_of(DAMAGED)]["error"]
    assert jobs[id_of(ARCHIVED)]["state"] == "FAILED"
    answer = reader.get(f"/v1/jobs/{id_of(DAMAGED)}")
    assert answer.status_code == 404
    assert "damaged" in answer.json()["errors"][0]


def test_every_answer_carries_the_headers_that_protect_a_browser(reader: httpx.Client) -> None:
    for path in ("/", "/v1/config", "/v1/nothing", "/nothing"):
        headers = reader.get(path).headers
        assert "script-src 'self';" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_the_log_tells_of_actions_and_never_of_a_token(
    operator: httpx.Client, reader: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    job = f"/v1/jobs/{id_of(RESTARTING)}"
    with caplog.at_level(logging.DEBUG):
        operator.post(f"{job}/checkpoints", json={})
        reader.post(f"{job}/stop", json={}, headers={"Authorization": "Bearer hunter2-wrong"})
        reader.post("/v1/hunter2-in-a-path")
        reader.post(f"{job}/stop?token=hunter2-in-a-query")
        reader.post(f"{job}/stop", json={"hunter2-in-a-body": 1})
    ours = ("tidegate", "uvicorn")
    own = [record.getMessage() for record in caplog.records if record.name.startswith(ours)]
    assert f"POST /jobs/{{jobid}}/checkpoints of job {id_of(RESTARTING)}: 202" in own
    assert not [line for line in own if "hunter2" in line or TOKEN in line]
