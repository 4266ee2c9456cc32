"""An armed fail point takes a real process down; the job recovers, and says that the point fired."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tidegate.common.failpoints import VARIABLE
from tidegate.coordinator.monitoring.job_report import JobReport

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


@contextmanager
def armed(text: str) -> Iterator[None]:
    os.environ[VARIABLE] = text
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def run(directory: Path, points: str) -> JobReport:
    """A job through its end, with the points; its output is exact."""
    gate, output = jobs.Gate(directory), directory / "output"
    stream = jobs.counts(jobs.configuration(directory), COUNT, gate, source_parallelism=1)
    with armed(points), jobs.running(stream, jobs.FileSink(output)) as client:
        jobs.half_way(client)
        jobs.eventually("the points", lambda: all(one.fired for one in client.report().fail_points), client)
        gate.open()
        report = client.result().report
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    return report


def test_a_task_is_killed_while_it_commits_once_and_it_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        report = run(tmp_path, "commit_before@sink/1:1:kill")
    (point,) = report.fail_points
    assert (point.fired, report.restarts) == (1, 1)
    assert "count -> sink, subtask 1" in point.where[0]
    assert "fail point commit_before@sink/1:1:kill fired in process" in caplog.text


def test_a_coordinator_is_killed_between_manifest_and_notification_and_comes_back(tmp_path: Path) -> None:
    report = run(tmp_path, "after_manifest:2:kill,send@numbers/0:3:raise")
    killed, raised = report.fail_points
    assert (killed.fired, raised.fired) == (1, 1)
    assert "subtask" not in killed.where[0]
