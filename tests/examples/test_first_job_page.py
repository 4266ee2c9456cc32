"""docs/first-job.md: what a newcomer types works as it stands there, and prints what the page says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import code_blocks

PAGE = "first-job.md"


def typed(directory: Path, script: str) -> None:
    """What the page lets a reader type into a shell."""
    subprocess.run(["bash", "-e", "-c", script], cwd=directory, check=True, timeout=120)


def stopped_after(records: int, directory: Path, *options: str) -> tuple[list[str], str]:
    """The first `records` lines that the job prints, and the path of the savepoint it stops with."""
    command = [sys.executable, "-m", "tidegate.console", "run", "--local", "--conf-file", "config.yaml"]
    job = subprocess.Popen(
        [*command, *options, "sales.py"],
        cwd=directory,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    try:
        lines = [job.stdout.readline().strip() for _ in range(records)]
        job.send_signal(signal.SIGINT)
        output, errors = job.communicate(timeout=120)
    finally:
        job.kill()
    assert job.returncode == 128 + signal.SIGINT, errors
    (said,) = [line for line in (output + errors).splitlines() if "savepoint-" in line]
    return lines, said.split()[-1]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The newcomer's directory, after the page's third step."""
    typed(tmp_path, code_blocks(PAGE, "bash")[0])
    (tmp_path / "sales.py").write_text(code_blocks(PAGE)[0], "utf-8")
    (tmp_path / "config.yaml").write_text(code_blocks(PAGE, "yaml")[0], "utf-8")
    return tmp_path


def test_the_job_prints_the_sums_and_goes_on_from_its_savepoint(directory: Path) -> None:
    lines, savepoint = stopped_after(6, directory)
    sums, later = code_blocks(PAGE, "text")
    assert {line.split(":")[0]: line for line in lines} == {
        line.split(":")[0]: line for line in sums.splitlines()
    }

    typed(directory, code_blocks(PAGE, "bash")[1])
    lines, _ = stopped_after(1, directory, "--from-savepoint", savepoint)
    assert lines == later.splitlines()
