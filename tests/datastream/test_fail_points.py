"""Every fail point is reached by a job in the local shell, and what it does there is survived."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.failpoints import POINTS, VARIABLE
from tidegate.connectors.collect import CollectSink
from tidegate.coordinator.monitoring.job_report import JobReport

from . import jobs

COUNT = 200
OPTIONS = {
    "execution.checkpointing.data-inline-threshold": "0",
    "execution.checkpointing.tolerable-failed-checkpoints": "10",
}


@contextmanager
def armed(text: str) -> Iterator[None]:
    os.environ[VARIABLE] = text
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def run(directory: Path, points: str, parallelism: int = 2, is_checkpointing: bool = True) -> JobReport:
    local = {"tidegate.local-dir": str(directory / "local")}
    env = jobs.environment(directory, parallelism, OPTIONS) if is_checkpointing else None
    env = env or jobs.environment(None, parallelism, local)
    held = jobs.HeldSource(COUNT, 3 if is_checkpointing else 0)
    source = env.from_source(held, WatermarkStrategy.no_watermarks(), "numbers")
    sums = source.uid("numbers").key_by(lambda n: n % 5).process(jobs.RunningSum()).uid("sums")
    sums.sink_to(CollectSink(is_checkpointing)).uid("collect")
    with armed(points):
        client = env.execute_async()
    results = list(client.collected())
    last = {key: (key, count, total) for key, count, total in sorted(results)}
    assert len(results) == COUNT
    assert set(last.values()) == jobs.expected_sums(COUNT, 5)
    assert max(Counter(results).values()) == 1
    return client.report()


def test_unset_nothing_is_reported(tmp_path: Path) -> None:
    assert run(tmp_path, "").fail_points == ()


OTHERS = ("spark_stage", "restore", "recover")
"""Points that need more than this job, each with a test elsewhere, as those of rescaling have."""


@pytest.mark.parametrize(
    "name", [name for name in POINTS if name not in OTHERS and not name.startswith("rescale_")]
)
@pytest.mark.parametrize("action", ["raise", "enospc", "sleep=0.01"])
def test_a_point_fires_once_and_the_output_is_exact(name: str, action: str, tmp_path: Path) -> None:
    (point,) = run(tmp_path, f"{name}:2:{action}").fail_points
    assert (point.text, point.fired) == (f"{name}:2:{action}", 1)


def test_a_restore_may_fail_too(tmp_path: Path) -> None:
    report = run(tmp_path, "commit_after:1:raise,restore:1:raise")
    assert [point.fired for point in report.fail_points] == [1, 1]
    assert report.restarts == 2


def test_a_recovery_may_meet_an_error_too(tmp_path: Path) -> None:
    report = run(tmp_path, "commit_after:1:raise,recover:1:raise")
    assert [point.fired for point in report.fail_points] == [1, 1]
    assert report.restarts == 1


def test_a_point_that_is_not_reached_is_reported_as_such(tmp_path: Path) -> None:
    (point,) = run(tmp_path, "process@sums/9:1:kill").fail_points
    assert (point.fired, str(point)) == (0, "fail point process@sums/9:1:kill was not reached")


def test_a_corrupted_upload_is_found_when_it_is_restored(tmp_path: Path) -> None:
    # It is one of the first checkpoint, and whoever hears that this is complete fails. Not who commits it:
    # it may have been taken before the first record came, and then there is nothing to commit.
    with pytest.raises(JobExecutionError, match=r"CorruptCheckpointError.*SHA-256"):
        run(tmp_path, "upload:1:corrupt,notify:1:raise", parallelism=1)


def test_without_checkpoints_a_point_fires_and_leaves_no_file(tmp_path: Path) -> None:
    (point,) = run(tmp_path, "process@sums:3:sleep=0", is_checkpointing=False).fail_points
    assert point.fired == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_point_of_an_operator_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no operator with uid 'sum'; there are collect, .*sums"):
        run(tmp_path, "process@sum:1:kill")


def test_a_malformed_point_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="TIDEGATE_FAILPOINTS: 'proces:1:kill'"):
        run(tmp_path, "proces:1:kill")
    assert not (tmp_path / "checkpoints").exists()
