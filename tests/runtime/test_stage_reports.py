"""A task with a stage reports its epochs, with its metrics and in the trace of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.stages.epochs import EpochLimits, EpochPhase
from tidegate.protocol.stages.stage_reports import RunTotals
from tidegate.telemetry.spans import new_span_id, new_trace_id

from .fakes import TaskUnderTest, barrier, subtask_of


class NeverFinishes(EpochStageOperator):
    """Epochs of two numbers each that run until the end of the task."""

    web_ui = "http://127.0.0.1:4040"

    def __init__(self) -> None:
        super().__init__(EpochLimits(max_records=2, interval_ms=1_000))

    def to_table(self, batch: Batch) -> pa.Table:
        return pa.table({"number": pa.array(list(batch.rows()), pa.int64())})

    def start_runner(self, started: Callable[[], None]) -> None:
        self.context.mailbox(started)

    def offer_share(self, number: int, tables: list[pa.Table]) -> list[pa.Table]:
        return tables

    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        """It does not end."""

    def collect_results(self, number: int, part: Any) -> pa.Table:
        raise AssertionError("there are no results")

    def emit_results(self, results: pa.Table) -> None:
        raise AssertionError("there are no results")


def running_task() -> TaskUnderTest:
    task = TaskUnderTest(subtask_of([NeverFinishes()])).start()
    for number in range(5):
        task.receive(Batch([number]))
    return task


def traced(element: CheckpointBarrier) -> CheckpointBarrier:
    return replace(element, trace_context=f"00-{new_trace_id()}-{new_span_id()}-01")


def snapshot_attributes(task: TaskUnderTest) -> dict[str, Any]:
    """Attributes of the one span of a snapshot's synchronous part."""
    recorded = task.ports.reported(events.SpansRecorded)
    (span,) = (span for each in recorded for span in each.spans if span["name"] == "checkpoint.sync")
    return span["attributes"]


def test_the_metrics_of_a_task_contain_the_epochs_of_its_stages() -> None:
    (stage,) = running_task().task.metrics().stages
    assert (stage.operator_name, stage.operator_uid) == ("NeverFinishes", "uid-10")
    assert [(each.number, each.phase) for each in stage.epochs] == [
        (1, EpochPhase.RUNNING),
        (2, EpochPhase.WAITING),
        (3, EpochPhase.GATHERING),
    ]
    assert (stage.records_in, stage.buffered_bytes, stage.runs) == (5, 40, RunTotals())
    assert stage.web_ui == "http://127.0.0.1:4040"


def test_the_trace_of_a_checkpoint_shows_the_epochs_that_it_contains() -> None:
    task = running_task()
    task.receive(traced(barrier(1)))
    task.ports.run_background()
    task.run()
    attributes = snapshot_attributes(task)
    assert attributes["epochs.in_flight"] == (
        "NeverFinishes epoch 1 running: 2 records, 16 bytes",
        "NeverFinishes epoch 2 waiting: 2 records, 16 bytes",
        "NeverFinishes epoch 3 gathering: 1 records, 8 bytes",
    )
    assert attributes["epochs.buffered_bytes"] == 40
