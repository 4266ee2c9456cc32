"""A process with a Spark session of its own is killed when its stage is about to run an epoch."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .killing import EXPECTED, PHASES, run, written

pytestmark = pytest.mark.spark


def test_every_record_is_written_once_although_the_process_dies_at_its_spark_stage(tmp_path: Path) -> None:
    assert run(tmp_path, PHASES[0]) == -signal.SIGKILL
    assert set(written(tmp_path)) <= set(EXPECTED)
    assert run(tmp_path, "") == 0
    assert written(tmp_path) == EXPECTED
