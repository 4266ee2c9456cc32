"""Secrets of a console and tokens of them; where a console may be listened for without one."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx
import pytest
from tidegate.common.errors import ConfigurationError, ResourceError
from tidegate.console.rest.directory import LiveJobs
from tidegate.console.rest.savepoint_targets import TargetRefusedError, checked_target
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret, TokenCheck, stored_secret

from tests.console.rest.jobs import all_jobs

SECRET = ConsoleSecret("0123456789abcdef0123456789abcdef")


def test_a_token_is_valid_until_its_moment_and_no_longer() -> None:
    token = SECRET.token_until(1_000)
    assert SECRET.check(token, 999.9) is TokenCheck.VALID
    assert SECRET.check(token, 1_000) is TokenCheck.EXPIRED


@pytest.mark.parametrize("change", [("1000", "9000"), ("v1", "v2"), ("v1.", "v1.0"), (".", ""), ("", "é")])
def test_a_changed_token_is_wrong(change: tuple[str, str]) -> None:
    assert SECRET.check(SECRET.token_until(1_000).replace(*change, 1), 0) is TokenCheck.WRONG


def test_a_token_of_another_secret_is_wrong() -> None:
    assert SECRET.check(ConsoleSecret("f" * 32).token_until(1_000), 0) is TokenCheck.WRONG


@pytest.mark.parametrize("text", ["", "short", "x" * 600, "newline\n" * 4, "ümlaut-" * 4])
def test_a_secret_that_cannot_serve_is_refused_without_being_told(text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        ConsoleSecret(text)
    assert text == "" or text not in str(error.value)


def test_a_secret_does_not_show_itself() -> None:
    assert "0123" not in repr(SECRET)


def test_a_new_secret_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "below" / "token"
    text = stored_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stored_secret(path) == text
    assert SECRET.check(text, 0) is TokenCheck.WRONG
    assert ConsoleSecret(text).check(text, 0) is TokenCheck.VALID


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    stored_secret(path)
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        stored_secret(path)


def test_beyond_loopback_no_console_starts_without_a_token() -> None:
    with (
        pytest.raises(ConfigurationError, match="needs a token"),
        served(LiveJobs.of([]), ServerSettings(host="0.0.0.0", port=0)),
    ):
        pass


def test_beyond_loopback_everything_but_the_page_needs_the_token(tmp_path: Path) -> None:
    settings = ServerSettings(host="0.0.0.0", port=0, secret=SECRET)
    token = SECRET.token_until(1 << 40)
    with served(all_jobs(tmp_path), settings) as address:
        address = address.replace("0.0.0.0", "127.0.0.1")
        for path in ("/v1/jobs/overview", "/v1/config", "/v1/openapi.json", "/v1/nothing"):
            assert httpx.get(f"{address}{path}", timeout=60).status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{address}/v1/jobs/overview", headers=headers, timeout=60).status_code == 200
        assert httpx.get(f"{address}/", timeout=60).status_code == 200


def test_without_a_secret_a_console_only_shows(tmp_path: Path) -> None:
    with served(all_jobs(tmp_path), ServerSettings(port=0)) as address:
        assert httpx.get(f"{address}/v1/jobs/overview", timeout=60).status_code == 200
        answer = httpx.post(f"{address}/v1/jobs/{1:032x}/stop", json={}, timeout=60)
        assert answer.status_code == 403
        assert "only shows" in answer.json()["errors"][0]


def test_a_port_that_is_taken_is_told_with_a_way_out() -> None:
    with served(LiveJobs.of([]), ServerSettings(port=0)) as address:
        port = int(address.rsplit(":", 1)[1])
        with pytest.raises(ResourceError, match="--port"), served(LiveJobs.of([]), ServerSettings(port=port)):
            pass


def test_a_console_without_a_job_answers(tmp_path: Path) -> None:
    with served(LiveJobs.of([]), ServerSettings(port=0)) as address:
        assert httpx.get(f"{address}/v1/jobs/overview", timeout=60).json() == {"jobs": []}
        assert httpx.get(f"{address}/v1/overview", timeout=60).json()["jobs-running"] == 0


def test_a_link_does_not_lead_savepoints_out_of_their_directory(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    assert checked_target(f"{root}/new", [str(root)]) == f"{root}/new"
    with pytest.raises(TargetRefusedError):
        checked_target(f"{root}/link/x", [str(root)])


@pytest.mark.parametrize(
    ("target", "root", "is_allowed"),
    [
        ("s3://bucket/savepoints/a", "s3://bucket/savepoints", True),
        ("s3://bucket/savepoints/a", "s3://bucket", True),
        ("s3://bucket2/savepoints", "s3://bucket", False),
        ("s3://bucket/savepoints/../x", "s3://bucket/savepoints", False),
        ("s3://bucket/savepoints?endpoint_override=evil", "s3://bucket/savepoints", False),
        ("s3://key:secret@bucket/savepoints", "s3://bucket/savepoints", False),
        ("gs://bucket/savepoints", "s3://bucket/savepoints", False),
        ("/savepoints/a", "file:///savepoints", True),
        ("/a", "/", True),
    ],
)
def test_targets_are_compared_in_one_form(target: str, root: str, is_allowed: bool) -> None:
    if is_allowed:
        assert checked_target(target, [root])
    else:
        with pytest.raises(TargetRefusedError):
            checked_target(target, [root])
