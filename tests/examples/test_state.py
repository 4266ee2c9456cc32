"""The examples of state, as a reader would start them. They check their own output."""

from __future__ import annotations

from pathlib import Path

import pytest

from .programs import output_of


@pytest.mark.parametrize("crash", [[], ["--crash"]])
def test_the_buffering_sink_writes_every_number_once(tmp_path: Path, crash: list[str]) -> None:
    output = output_of("state", "buffering_sink.py", "--directory", str(tmp_path), *crash)
    assert output == f"2000 numbers in 29 batches, {len(crash)} restarts\n"


@pytest.mark.parametrize("parallelism", ["1", "2"])
def test_counts_go_on_exactly_after_a_crash(tmp_path: Path, parallelism: str) -> None:
    options = ["--directory", tmp_path, "--parallelism", parallelism]
    output = output_of("state", "counting.py", *options, "--crash")
    assert output == "8000 records of 4 splits, numbered exactly once\n"


def test_an_alarm_is_reported_again_when_its_state_has_expired() -> None:
    lines = output_of("state", "time_to_live.py").splitlines()
    assert sorted(lines) == ["cellar: water", "kitchen: smoke", "kitchen: smoke"]
