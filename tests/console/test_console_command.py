"""`tidegate console` as a process of its own: what it prints, what its address can do, and how it ends."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.monitoring.job_archive import JobArchive

from tests.fake_jobs import fake_job

COMMAND = [sys.executable, "-c", "from tidegate.console.main import main; main()", "console"]


@pytest.mark.slow
def test_the_printed_address_holds_the_token_behind_its_hash(tmp_path: Path) -> None:
    JobArchive(str(tmp_path / "archive")).write(fake_job(5, JobStatus.FINISHED))
    token_file = tmp_path / "token"
    command = [*COMMAND, "--archive", str(tmp_path / "archive"), "--port", "0"]
    command += ["--token-file", str(token_file), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = ""
        while not lines.endswith("}\n"):
            lines += process.stdout.readline()
            assert process.poll() is None, process.communicate()
        printed = json.loads(lines)
        token = token_file.read_text().strip()
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        assert printed["page"] == f"{printed['url']}/#token={token}"
        (job,) = httpx.get(f"{printed['url']}/v1/jobs/overview", timeout=60).json()["jobs"]
        assert (job["name"], job["archived"]) == ("job 5", True)
        path = f"{printed['url']}/v1/jobs/{job['jid']}/stop"
        assert httpx.post(path, json={}, timeout=60).status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.post(path, json={}, headers=headers, timeout=60).status_code == 409
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "POST /jobs/{jobid}/stop" in errors
    assert token not in errors


@pytest.mark.slow
def test_a_console_without_a_cluster_says_so(tmp_path: Path) -> None:
    command = [*COMMAND, "--address", "127.0.0.1:1", "--token-file", str(tmp_path / "token")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 4
    assert "Cannot reach the Ray cluster at 127.0.0.1:1" in done.stderr
