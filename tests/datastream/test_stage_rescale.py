"""A running job with a stage gets another parallelism while epochs are in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common import JobStatus, WatermarkStrategy
from tidegate.coordinator.control.job_client import JobClient
from tidegate.protocol.stages.epochs import EpochLimits

from .jobs import WAIT_S, Kept, environment
from .test_rescale import COUNT, GatedSource
from .test_shared_epochs import Doubling


class HeldRuns(Doubling):
    """Its epochs run until the gate is open."""

    gate: ClassVar[threading.Event] = threading.Event()
    began: ClassVar[threading.Semaphore] = threading.Semaphore(0)

    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        super().run_epoch(number, offers, finished)
        HeldRuns.began.release()

    def deliver(self, result: Callable[[], None]) -> None:
        HeldRuns.gate.wait(WAIT_S)
        super().deliver(result)


def started(directory: Path, name: str) -> JobClient:
    """A job whose source stops half way, and whose stage runs an epoch that does not end."""
    for gate in (GatedSource.gate, HeldRuns.gate):
        gate.clear()
    HeldRuns.began = threading.Semaphore(0)
    env = environment(directory, 2, {"pipeline.max-parallelism": "8"})
    numbers = env.from_source(GatedSource(), WatermarkStrategy.no_watermarks(), "Numbers").rebalance()
    stage = numbers._then("Stage", HeldRuns(EpochLimits(40, 1, 2))).uid("stage").disable_chaining()
    stage.transformation.is_coordinated = True
    stage.map(Kept(name)).uid("kept")
    return env.execute_async()


@pytest.mark.parametrize("steps", [(3, 1), (1, 3)])
def test_epochs_in_flight_survive_a_change_of_the_stages_parallelism(
    tmp_path: Path, steps: tuple[int, ...]
) -> None:
    name = f"stage {steps}"
    client = started(tmp_path, name)
    try:
        for wanted in steps:
            assert HeldRuns.began.acquire(timeout=WAIT_S), "no epoch is in flight"
            client.rescale({"stage": wanted})
            assert client.report().parallelism["stage"] == wanted
        assert HeldRuns.began.acquire(timeout=WAIT_S), "the epochs in flight run again"
        assert Kept.results[name] == []
        for gate in (GatedSource.gate, HeldRuns.gate):
            gate.set()
        assert client.wait(WAIT_S) is JobStatus.FINISHED
    finally:
        HeldRuns.gate.set()
        client.close()
    assert sorted(Kept.results[name]) == [2 * number for number in range(COUNT)]
    assert client.report().restarts == 0
