"""What the kills of a Spark stage compare: each number once, and counts per key without a gap."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from . import stage_job


@pytest.mark.parametrize(
    ("rows", "faults"),
    [
        ([(0, 0, 1), (1, 1, 1), (0, 100, 2)], ""),
        ([(0, 0, 1), (0, 100, 2)], "1 numbers missing"),
        ([(0, 0, 1), (1, 1, 1), (1, 1, 2)], "1 numbers doubled"),
        ([(0, 0, 1), (1, 1, 1), (0, 100, 1)], "1 counts doubled"),
        ([(0, 0, 1), (1, 1, 2)], "1 counts missing"),
    ],
    ids=["exact", "lost", "twice", "state-lost", "state-twice"],
)
def test_the_comparison_finds_what_is_wrong(
    tmp_path: Path, rows: list[tuple[int, int, int]], faults: str
) -> None:
    columns = dict(zip(("key", "number", "count"), zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    assert stage_job.Output(tmp_path).faults(2) == faults
