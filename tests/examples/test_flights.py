"""The flights demo, small: in one process, without Ray and Spark. It checks itself against pandas."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from . import programs

COUNT = 20_000


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The directory of a run and how it ended."""
    directory = tmp_path_factory.mktemp("flights")
    options = ["--local", "--no-spark", "--flights", str(COUNT), "--rate", "0"]
    return directory, programs.finished("flights", "main.py", *options, "--directory", str(directory))


def test_the_output_is_identical_to_that_of_pandas(
    finished: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    directory, process = finished
    assert process.returncode == 0, process.stdout + process.stderr
    assert "identical" in process.stdout
    assert "JetBlue Airways" in process.stdout
    legs = pq.read_table(directory / "output" / "legs")
    assert legs.num_rows == COUNT
    assert sum(minutes or 0 for minutes in legs["inherited"].to_pylist()) > 0


def test_a_row_too_many_is_found(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    directory, _ = finished
    file = next((directory / "output" / "totals").glob("*.parquet"))
    copy = file.with_name("part-copy.parquet")
    copy.write_bytes(file.read_bytes())
    code = f"""
from pathlib import Path
import check, data
print(*check.differences(data.read_tables({COUNT}), Path({str(directory / "output")!r})))
"""
    shown = programs.finished("flights", "-c", code)
    copy.unlink()
    assert "gaps or repeats" in shown.stdout, shown.stderr
