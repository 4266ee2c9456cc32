"""Metrics and logs of a job whose subtasks run in processes of their own."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import MapFunction, RuntimeContext

from ..telemetry.log_files import log_files
from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 4_000
LIVE_MS = 10_000
"""Ten times the interval."""


class Seen(MapFunction):
    """Counts in a metric; one of its gauges hangs as soon as a file is there."""

    def __init__(self, hang: Path) -> None:
        self._hang = str(hang)

    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        self._seen = group.counter("seen")
        path = Path(self._hang)

        def gauge() -> int:
            while path.exists():
                time.sleep(0.01)
            return 1

        group.gauge("patience", gauge)

    def map(self, value: Any) -> Any:
        self._seen.inc()
        return value


def seen_on_the_page(url: str) -> dict[str, float]:
    """What the counters of `Seen` say for Prometheus, by subtask."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    name = "tidegate_taskmanager_job_task_operator_seen"
    samples = [sample for family in families if family.name == name for sample in family.samples]
    return {sample.labels["subtask_index"]: sample.value for sample in samples}


def _are_live(client: JobClient) -> bool:
    details = client.details()
    return all(details.now_ms - one.metrics_ms < LIVE_MS for one in details.subtasks)


def test_metrics_of_all_processes_are_live_and_a_gauge_that_hangs_kills_nobody(tmp_path: Path) -> None:
    settings = jobs.configuration(tmp_path, interval_ms=None)
    settings.set_string("metrics.reporter.prom.port", "0")
    settings.set_string("env.log.dir", str(tmp_path / "logs"))
    settings.set_string("tidegate.log.format", "JSON")
    hang, gate = tmp_path / "hang", jobs.Gate(tmp_path)
    counts = jobs.counts(settings, COUNT, gate, source_parallelism=1)
    stream = counts.map(Seen(hang)).name("Seen").start_new_chain()
    with jobs.running(stream, jobs.FileSink(tmp_path / "output")) as client:

        def counted() -> bool:
            details = client.details()
            seen = [one.metrics.user.get("Seen.seen", 0) for one in details.subtasks]
            return sum(value for value in seen if isinstance(value, int)) == COUNT // 2

        jobs.eventually("half of the records in the metrics", counted, client)
        details = client.details()
        page = seen_on_the_page(details.report.metrics_url)
        assert sum(page.values()) == COUNT // 2
        assert set(page) == {"0", "1"}
        pids = {one.process_id for one in details.subtasks}
        assert len(pids) > 1
        assert 0 not in pids
        jobs.eventually("live metrics", lambda: _are_live(client), client)
        hang.touch()
        taken_ms = max(one.metrics_ms for one in details.subtasks)
        sources = [one.subtask for one in details.subtasks if "Seen.seen" not in one.metrics.user]

        def went_on() -> bool:
            newest = {one.subtask: one.metrics_ms for one in client.details().subtasks}
            return all(newest[source] > taken_ms + 3_000 for source in sources)

        jobs.eventually("metrics of the other processes", went_on, client)
        assert client.get_job_status().result() is JobStatus.RUNNING
        assert client.report().restarts == 0
        gate.open()
        client.result()
        hang.unlink()
    lines = [
        json.loads(line)
        for path in log_files(str(tmp_path / "logs"), str(client.get_job_id()))
        for line in path.read_text("utf-8").splitlines()
    ]
    assert {line["role"] for line in lines} == {"coordinator", "task"}
    assert {line["process_id"] for line in lines if line["role"] == "task"} == pids
    ended = {(line["operator"], line["subtask_index"]) for line in lines if "has finished" in line["message"]}
    assert len(ended) == len(details.subtasks)
