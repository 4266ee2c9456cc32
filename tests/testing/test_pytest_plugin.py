"""The fixtures that pytest offers where Tidegate is installed, in a pytest of its own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import tidegate

pytestmark = pytest.mark.slow

ROOT = Path(tidegate.__file__).parent

USERS_TEST = """
import os

def test_a_job(tidegate_env, tmp_path):
    tidegate_env.enable_checkpointing(10)
    process = os.getpid()
    same = tidegate_env.from_collection([1, 2, 3]).map(lambda value: (value * 2, os.getpid() == process))
    assert list(same.execute_and_collect()) == [(2, True), (4, True), (6, True)]
    assert tidegate_env.get_parallelism() == 1

def test_a_job_that_fails(tidegate_env):
    tidegate_env.from_collection([0]).map(lambda value: 1 // value)
    tidegate_env.execute()
"""


def test_the_fixture_runs_jobs_in_the_process_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    # Not by its entry point, which an editable installation may have from an earlier state.
    plugins = ["no:tidegate", "tidegate.testing.pytest_plugin", "no:cacheprovider"]
    options = [option for plugin in plugins for option in ("-p", plugin)]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "-c", "/dev/null", "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 1 passed" in finished.stdout, finished.stdout + finished.stderr
    assert "ZeroDivisionError" in finished.stdout


def test_the_entry_point_of_the_plugin_is_declared_and_there() -> None:
    declared = (ROOT / "pyproject.toml").read_text().partition("[project.entry-points.pytest11]\n")[2]
    name, _, module = declared.splitlines()[0].partition(" = ")
    assert name == "tidegate"
    assert importlib.import_module(module.strip('"')).tidegate_env


def test_the_plugin_loads_no_runtime() -> None:
    program = "import sys, tidegate.testing.pytest_plugin; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    assert "tidegate.testing.pytest_plugin" in loaded
    assert not {"tidegate.datastream", "tidegate.actors", "numpy", "pyarrow"} & set(loaded)
