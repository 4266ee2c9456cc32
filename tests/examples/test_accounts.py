"""The example with a large table in Spark, small and in one process. It compares itself with NumPy."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from . import programs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

OPTIONS = ("--accounts", "200000", "--payments", "50000", "--epoch", "20000")


def test_totals_of_a_join_in_spark_are_those_of_numpy(tmp_path: Path) -> None:
    shown = programs.finished("accounts", "main.py", *OPTIONS, "--local", "--directory", tmp_path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "50,000 payments joined with 200,000 accounts" in shown.stdout
    assert "identical with NumPy" in shown.stdout
    written = pq.read_table(tmp_path / "totals")
    assert len(set(written["region"].to_pylist())) == 1_000
    assert written.num_rows > 1_000, "more than one epoch"

    # The check finds a row that is there twice.
    file = next((tmp_path / "totals").glob("*.parquet"))
    file.with_name("part-copy.parquet").write_bytes(file.read_bytes())
    code = f"""
import main
print(main.differences(main.parse_options({[*OPTIONS, "--directory", str(tmp_path)]!r}))[0])
"""
    assert "is there 2 times" in programs.finished("accounts", "-c", code).stdout
