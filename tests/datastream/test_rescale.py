"""A running local job gets another parallelism: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common import JobStatus, Types, WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.common.failpoints import VARIABLE
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import Source, SourceReader
from tidegate.protocol.elements import Batch
from tidegate.protocol.scheduling.rescaling import RescaleError

from .jobs import WAIT_S, Kept, RunningSum, environment, expected_sums

COUNT = 600
KEYS = 7


class GatedSource(Source):
    """The numbers below `COUNT`; each split stops half way until the gate is open."""

    gate: ClassVar[threading.Event] = threading.Event()

    def create_splits(self, parallelism: int) -> list[Any]:
        size = COUNT // 6
        return [(start, start + size, start + size // 2) for start in range(0, COUNT, size)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _GatedReader(splits)


class _GatedReader(SourceReader):
    def __init__(self, splits: list[Any]) -> None:
        self.splits = list(splits)

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        position, end, half = self.splits.pop(0)
        if position == half and not GatedSource.gate.is_set():
            self.splits.append((position, end, half))
            return Batch([])
        stop = min(position + 10, half if position < half else end)
        if stop < end:
            self.splits.append((stop, end, half))
        return Batch(list(range(position, stop)))

    def snapshot_state(self) -> list[Any]:
        return list(self.splits)


@contextmanager
def running(directory: Path, name: str, parallelism: int = 2, **options: str) -> Iterator[JobClient]:
    """A job that waits half way and ends when the block does; what it counted is right."""
    GatedSource.gate.clear()
    env = environment(directory, parallelism, {"pipeline.max-parallelism": "8", **options})
    numbers = env.from_source(GatedSource(), WatermarkStrategy.no_watermarks(), "Numbers").uid("numbers")
    sums = numbers.key_by(lambda number: number % KEYS, key_type=Types.LONG()).process(RunningSum())
    sums.name("Sums").uid("sums").map(Kept(name)).uid("kept")
    client = env.execute_async()
    try:
        while client.get_job_status().result() is not JobStatus.RUNNING:
            client.wait(0.01)
        yield client
        GatedSource.gate.set()
        assert client.wait(WAIT_S) is JobStatus.FINISHED
        assert_counted(name)
    finally:
        client.close()


@contextmanager
def armed(point: str) -> Iterator[None]:
    os.environ[VARIABLE] = point
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def assert_counted(name: str) -> None:
    last: dict[int, tuple[int, int]] = {}
    for key, count, total in Kept.results[name]:
        last[key] = max(last.get(key, (0, 0)), (count, total))
    assert {(key, *value) for key, value in last.items()} == expected_sums(COUNT, KEYS)


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_up_down_and_one_operator_alone(tmp_path: Path, unaligned: str) -> None:
    options = {"execution.checkpointing.unaligned.enabled": unaligned}
    with running(tmp_path, f"moves {unaligned}", **options) as client:
        for wanted, numbers, sums in ((5, 5, 5), (1, 1, 1), ({"sums": 3}, 1, 3), ({"Numbers": 2}, 2, 3)):
            client.rescale(wanted)  # type: ignore[arg-type]
            report = client.report()
            assert dict(report.parallelism) == {"numbers": numbers, "sums": sums, "kept": sums}
            assert report.statistics.rescales[-1].pause_ms >= 0
        client.rescale({"sums": 3})
        assert len(client.report().statistics.rescales) == 4, "there was nothing to do"
    report = client.report()
    assert report.status is JobStatus.FINISHED
    assert (report.restarts, report.cause) == (0, None)


def test_what_cannot_be_is_refused_and_the_job_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, "refused") as client:
        with pytest.raises(RescaleError, match=r"operator 'sums' to parallelism 9: .*max parallelism 8"):
            client.rescale({"sums": 9})
        with pytest.raises(RescaleError, match="no operator with uid or name 'sum'"):
            client.rescale({"sum": 2})
        assert not client.report().statistics.rescales
    with pytest.raises(JobExecutionError):
        client.rescale(2)


def test_a_job_without_checkpoints_cannot_move_its_state(tmp_path: Path) -> None:
    env = environment()
    numbers = env.from_source(GatedSource(), WatermarkStrategy.no_watermarks(), "Numbers")
    numbers.map(Kept("unsaved"))
    GatedSource.gate.clear()
    client = env.execute_async()
    try:
        with pytest.raises(RescaleError, match=r"takes no checkpoints|INITIALIZING"):
            client.rescale(2)
    finally:
        client.close()


@pytest.mark.parametrize("point", ["rescale_begin", "rescale_stop", "rescale_deploy"])
def test_an_error_on_the_way_leaves_the_job_as_it_was(tmp_path: Path, point: str) -> None:
    with armed(f"{point}:1:raise"), running(tmp_path, point) as client:
        with pytest.raises(RescaleError, match=f"fail point {point}:1:raise"):
            client.rescale(4)
        while client.report().status is not JobStatus.RUNNING:
            client.wait(0.01)
        assert set(client.report().parallelism.values()) == {2}
        client.rescale(4)
        assert set(client.report().parallelism.values()) == {4}


@pytest.mark.parametrize("point", ["rescale_store", "rescale_done"])
def test_the_new_parallelism_is_written_down_as_often_as_it_takes(tmp_path: Path, point: str) -> None:
    with armed(f"{point}:1:raise"), running(tmp_path, point) as client:
        client.rescale(4)
        report = client.report()
        assert set(report.parallelism.values()) == {4}
        assert [one for one in report.statistics.warnings if f"fail point {point}:1:raise" in one]


def test_a_task_that_cannot_take_its_state_brings_the_old_ones_back(tmp_path: Path) -> None:
    with armed("restore@sums/3:1:raise"), running(tmp_path, "back") as client:
        client.trigger_checkpoint()
        with pytest.raises(RescaleError, match=r"its tasks did not start: .*fail point restore@sums/3"):
            client.rescale({"sums": 4})
        while client.report().status is not JobStatus.RUNNING:
            client.wait(0.01)
        assert client.report().parallelism["sums"] == 2
        client.rescale({"sums": 3})
        assert client.report().parallelism["sums"] == 3
