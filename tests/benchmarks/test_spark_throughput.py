"""The benchmark of rows through a stage runs in a small form, in which it checks its answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


def test_each_way_of_the_work_gives_the_right_rows() -> None:
    command = [sys.executable, "-m", "benchmarks.spark.throughput", "--rows", "5000", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    goals = [row["goal"] for row in rows]
    others = ("a batch job", "Structured Streaming")
    stages = ("a stage", "a stage with two subtasks", "a stage, a checkpoint per second")
    for name in (*stages, *others):
        assert f"5,000 rows through {name}" in goals
    assert sum(row["met"] is not None for row in rows) == 5
