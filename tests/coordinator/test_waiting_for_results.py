"""A driver that waits for collected results is woken by the first, and by the end of the job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tidegate.coordinator.local_job import LocalJob
from tidegate.operators.sources.sources import Source, SourceReader
from tidegate.protocol.elements import Batch

from .test_local_executor import collecting_job

# Longer than the deadline, and not so long that a broken wait would keep the tests.
LONG_S = 120.0
DEADLINE_S = 60


class Gates:
    """What a test lets through. It is shared with the job, which runs in this process."""

    records: threading.Event
    end: threading.Event


class OneRecord(Source):
    """A record when one gate is opened, and the end when the other is."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return OneRecordReader()


class OneRecordReader(SourceReader):
    def __init__(self) -> None:
        self.is_sent = False

    def poll(self, max_records: int) -> Batch | None:
        if not self.is_sent and Gates.records.is_set():
            self.is_sent = True
            return Batch(["a record"])
        return None if Gates.end.is_set() else Batch([])

    def snapshot_state(self) -> list[Any]:
        return []


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LocalJob]:
    Gates.records, Gates.end = threading.Event(), threading.Event()
    job = LocalJob(collecting_job(OneRecord(), local_dir=str(tmp_path)))
    job.start()
    yield job
    Gates.records.set()
    Gates.end.set()
    job.release()


def test_a_wait_ends_when_a_result_arrives(job: LocalJob) -> None:
    with ThreadPoolExecutor(1) as driver:
        taken: Future[list[Any]] = driver.submit(job.take_results, LONG_S)
        assert not taken.done()
        Gates.records.set()
        assert taken.result(DEADLINE_S) == ["a record"]


def test_a_wait_ends_with_the_job(job: LocalJob) -> None:
    Gates.records.set()
    with ThreadPoolExecutor(1) as driver:
        assert driver.submit(job.take_results, LONG_S).result(DEADLINE_S) == ["a record"]
        taken: Future[list[Any]] = driver.submit(job.take_results, LONG_S)
        Gates.end.set()
        assert taken.result(DEADLINE_S) == []


def test_without_a_wait_nothing_is_an_answer(job: LocalJob) -> None:
    assert job.take_results() == []
