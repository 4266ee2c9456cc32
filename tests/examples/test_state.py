"""The examples of operator state, as a reader would start them. They check their own output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "state"


def output_of(program: str, *arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("crash", [[], ["--crash"]])
def test_the_buffering_sink_writes_every_number_once(tmp_path: Path, crash: list[str]) -> None:
    output = output_of("buffering_sink.py", "--directory", str(tmp_path), *crash)
    assert output == f"2000 numbers in 29 batches, {len(crash)} restarts\n"


@pytest.mark.parametrize("parallelism", ["1", "2"])
def test_counts_go_on_exactly_after_a_crash(tmp_path: Path, parallelism: str) -> None:
    output = output_of("counting.py", "--directory", str(tmp_path), "--parallelism", parallelism, "--crash")
    assert output == "8000 records of 4 splits, numbered exactly once\n"
