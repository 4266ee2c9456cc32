"""docs/rest-api.md: its requests are understood by a console, and its tables name what there is."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tidegate.console.rest.app import create_app, document_of
from tidegate.console.rest.directory import LiveJobs
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret

from tests.fake_jobs import fake_client, fake_job

PAGE = (Path(__file__).parents[2] / "docs" / "rest-api.md").read_text("utf-8")


def test_every_request_of_the_page_is_answered() -> None:
    (script,) = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    job = fake_job(1)
    secret = "a-token-of-this-test"
    with served(LiveJobs.of([fake_client(job)]), ServerSettings(port=0, secret=ConsoleSecret(secret))) as url:
        environment = {**os.environ, "URL": url, "TOKEN": secret, "JOB": job.job_id, "no_proxy": "*"}
        for line in script.splitlines():
            answer = subprocess.run(
                ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60, check=True
            )
            assert "errors" not in json.loads(answer.stdout), line


@pytest.mark.parametrize("heading", ["Reading", "Acting"])
def test_the_tables_name_paths_that_there_are(heading: str) -> None:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    named = set(re.findall(r"(/jobs/\{jobid\}[\w/{}-]*)", section))
    known = {
        path.removeprefix("/v1").replace("{checkpointid}", "{id}")
        for path in document_of(create_app(LiveJobs.of([])))["paths"]
    }
    asked_for = {re.sub(r"\{request-id\}", "{triggerid}", path) for path in named}
    assert asked_for - known == set()
