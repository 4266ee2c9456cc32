"""A stage whose runs end when the test says so: what leaves, what is stored, and what a restore does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.stages.epoch_leader import EpochLeader
from tidegate.protocol.stages.epoch_messages import FromLeader
from tidegate.protocol.stages.epochs import EpochLimits
from tidegate.protocol.stages.stage_reports import MOST_EPOCHS, PhaseTotals, RunTotals, StageReport

from .harness import OperatorUnderTest


class Stage(EpochStageOperator):
    """Doubles numbers; a run returns them in reverse order."""

    most_emitted = 2

    def __init__(self, **limits: Any) -> None:
        super().__init__(EpochLimits(**{"max_records": 100, "interval_ms": 0, **limits}))

    def to_table(self, batch: Batch) -> pa.Table:
        return pa.table({"number": pa.array([value for (value,) in batch.rows()], pa.int64())})

    def start_runner(self, started: Callable[[], None]) -> None:
        self.started = started
        self.running: dict[int, Callable[[], None]] = {}

    def offer_share(self, number: int, tables: list[pa.Table]) -> list[int]:
        return [value for table in tables for value in table["number"].to_pylist()]

    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        numbers = [2 * value for offer in offers for value in offer][::-1]
        count = len(offers)
        self.running[number] = lambda: finished([numbers[index::count] for index in range(count)])

    def collect_results(self, number: int, part: list[int]) -> pa.Table:
        return pa.table({"number": pa.array(part, pa.int64())})

    def emit_results(self, results: pa.Table) -> None:
        self.emit(Batch(results["number"].to_pylist()))


def opened(restored: OperatorSnapshot | None = None, **limits: Any) -> OperatorUnderTest[Stage]:
    stage = OperatorUnderTest(Stage(**limits), restored, parallelism=1).open()
    if restored is None:
        stage.operator.started()
    return stage


def finish(stage: OperatorUnderTest[Stage], number: int) -> None:
    stage.operator.running.pop(number)()
    stage.advance_to(stage.now_ms)


def emitted(stage: OperatorUnderTest[Stage]) -> list[int]:
    return [value for batch in stage.emitted for value in batch.values]


def test_a_restored_stage_runs_its_epochs_again() -> None:
    stage = opened()
    stage.process([(1,), (2,)])
    stage.process([(3,)])
    snapshot = stage.checkpoint(1)
    finish(stage, 1)
    later = stage.checkpoint(2)
    finish(stage, 2)
    assert emitted(stage) == [4, 2, 6]
    for stored, expected in ((snapshot, [4, 2, 6]), (later, [6])):
        restored = opened(stored)
        restored.operator.started()
        while restored.operator.running:
            finish(restored, min(restored.operator.running))
        assert emitted(restored) == expected
        assert restored.operator.is_drained()


def test_a_barrier_between_two_results_stores_those_that_follow() -> None:
    stage = opened()
    stage.process([(number,) for number in range(5)])
    stage.process([(9,)])
    stage.operator.running.pop(1)()
    stage.processing_time.run_due()
    assert emitted(stage) == [8, 6]
    snapshot = stage.checkpoint(1)
    restored = opened(snapshot)
    assert emitted(restored) == []
    # Restored results need no runner, and are stored again while they wait.
    restored = opened(restored.checkpoint(2))
    restored.advance_to(0)
    assert emitted(restored) == [4, 2, 0]
    restored.operator.started()
    finish(restored, 2)
    assert emitted(restored) == [4, 2, 0, 18]


def test_an_epoch_may_have_no_results() -> None:
    stage = opened()
    stage.process([(1,)])
    stage.operator.process_watermark(7)
    stage.operator._returned(1, [[]])
    stage.advance_to(0)
    assert (emitted(stage), stage.watermarks) == ([], [7])


def test_a_run_that_repeats_its_end_is_ignored() -> None:
    stage = opened()
    stage.process([(1,)])
    repeated = stage.operator.running[1]
    finish(stage, 1)
    repeated()
    stage.advance_to(0)
    assert emitted(stage) == [2]


def test_the_end_of_input_waits_for_the_results() -> None:
    stage = opened(interval_ms=1_000)
    stage.process([(1,)])
    stage.operator.process_watermark(MAX_WATERMARK_MS)
    assert not stage.operator.is_drained()
    finish(stage, 1)
    assert stage.operator.is_drained()
    assert (emitted(stage), stage.watermarks) == ([2], [MAX_WATERMARK_MS])


def test_a_full_stage_takes_no_records_until_results_leave() -> None:
    stage = opened(buffer_bytes=16, memory_bytes=1 << 20)
    stage.process([(1,), (2,), (3,)])
    assert not stage.operator.is_ready()
    stage.operator.running.pop(1)()
    assert stage.operator.is_ready()
    stage.advance_to(0)
    assert emitted(stage) == [6, 4, 2]


def test_a_checkpoint_without_a_state_of_the_stage_is_restored() -> None:
    restored = opened(OperatorSnapshot())
    restored.operator.started()
    restored.process([(1,)])
    finish(restored, 1)
    assert emitted(restored) == [2]


# ---------------------------------------------------------------- several subtasks


class Stages:
    """The subtasks of one stage and the leader of their epochs; a message arrives when it is sent."""

    def __init__(self, restored: Sequence[OperatorSnapshot | None] = (None, None), **limits: Any) -> None:
        count = len(restored)
        self._leader = EpochLeader(count)
        self._sent: list[tuple[int, FromLeader]] = []
        self.subtasks = [
            OperatorUnderTest(Stage(**limits), stored, parallelism=count, subtask_index=index)
            for index, stored in enumerate(restored)
        ]
        for index, stage in enumerate(self.subtasks):
            stage.operator.context.send_to_coordinator = self._sender(index)
            stage.open()

    def _sender(self, index: int) -> Callable[[Any], None]:
        return lambda message: self._sent.extend(self._leader.handle(index, message))

    def start(self) -> None:
        self.subtasks[0].operator.started()
        self.deliver()

    def deliver(self) -> None:
        """All messages arrive, and results leave."""
        self.deliver_messages()
        for stage in self.subtasks:
            stage.advance_to(stage.now_ms)

    def deliver_messages(self) -> None:
        while self._sent:
            index, message = self._sent.pop(0)
            self.subtasks[index].operator.handle_coordinator_event(message)

    def finish(self, number: int) -> None:
        self.subtasks[0].operator.running.pop(number)()

    def finish_all(self) -> None:
        """All epochs run, and all results leave."""
        self.start()
        while self.subtasks[0].operator.running:
            self.finish(min(self.subtasks[0].operator.running))
            self.deliver()

    @property
    def emitted(self) -> list[int]:
        return sorted(value for stage in self.subtasks for value in emitted(stage))

    def checkpoint(self, checkpoint_id: int) -> list[OperatorSnapshot]:
        self._leader.checkpoint_triggered(CheckpointId(checkpoint_id))
        return [stage.checkpoint(checkpoint_id) for stage in self.subtasks]


def test_one_epoch_is_run_for_all_subtasks_and_each_emits_a_part() -> None:
    stage = Stages()
    stage.start()
    stage.subtasks[0].process([(1,), (2,)])
    stage.subtasks[1].process([(3,)])
    for each in stage.subtasks:
        each.operator.process_watermark(7)
    stage.deliver()
    assert [sorted(each.operator.running) for each in stage.subtasks[:1]] == [[1]]
    stage.finish(1)
    stage.deliver()
    assert stage.emitted == [2, 4, 6]
    assert [bool(emitted(each)) for each in stage.subtasks] == [True, True]


def test_a_restore_with_other_subtasks_emits_what_began_to_leave_and_runs_the_rest() -> None:
    stage = Stages()
    stage.start()
    stage.subtasks[0].process([(1,), (2,), (3,)])
    stage.subtasks[1].process([(4,)])
    stage.deliver()
    stage.subtasks[1].process([(9,)])
    held = stage.checkpoint(1)
    stage.finish(1)
    stage.deliver()
    assert stage.emitted == [2, 4, 6, 8]
    left = stage.checkpoint(2)
    for count in (1, 3):
        for snapshots, expected in ((held, [2, 4, 6, 8, 18]), (left, [18])):
            again = Stages(redistribute(snapshots, count, 128))
            again.finish_all()
            assert again.emitted == expected


def totals(report: StageReport) -> list[tuple[int, int, int]]:
    """Epochs, records and the oldest number of each phase, as they follow each other."""
    phases = (report.gathering, report.waiting, report.running, report.finished, report.emitting)
    return [(each.epochs, each.records, each.first) for each in phases]


def test_a_stage_reports_its_epochs() -> None:
    stage = opened(max_records=2, interval_ms=1_000, max_running=2, buffer_bytes=1_000)
    for number in range(7):
        stage.process([(number,)])
    stage.advance_to(50)
    nothing = (0, 0, 0)
    report = stage.operator.stage_report()
    assert report is not None
    assert (report.operator_uid, report.operator_name) == (
        stage.operator.context.operator_uid,
        stage.operator.context.operator_name,
    )
    assert totals(report) == [(1, 1, 4), (1, 2, 3), (2, 4, 1), nothing, nothing]
    assert [(each.number, each.phase.name, each.records) for each in report.epochs] == [
        (1, "RUNNING", 2),
        (2, "RUNNING", 2),
        (3, "WAITING", 2),
        (4, "GATHERING", 1),
    ]
    # Each number takes eight bytes.
    assert (report.buffered_bytes, report.buffer_limit_bytes) == (7 * 8, 1_000)
    assert (report.records_in, report.records_out, report.runs) == (7, 0, RunTotals())
    stage.operator.running.pop(2)()
    report = stage.operator.stage_report()
    assert report is not None
    assert totals(report) == [(1, 1, 4), (1, 2, 3), (1, 2, 1), (1, 2, 2), nothing]
    assert report.runs == RunTotals(1, 50, 50)


def test_a_report_counts_results_as_they_are_emitted() -> None:
    stage = opened(max_records=5)
    stage.process([(number,) for number in range(5)])
    stage.advance_to(30)
    stage.operator.running.pop(1)()
    stage.processing_time.run_due()
    report = stage.operator.stage_report()
    assert report is not None
    assert (report.emitting, report.records_out) == (PhaseTotals(1, 5, 0, 1), 2)
    assert (report.buffered_bytes, report.runs) == (0, RunTotals(1, 30, 30))
    stage.advance_to(30)
    report = stage.operator.stage_report()
    assert report is not None
    assert (report.emitting, report.records_out, report.epochs) == (PhaseTotals(), 5, ())


def test_a_report_lists_at_most_some_epochs_and_counts_all() -> None:
    stage = opened(max_records=1, interval_ms=1_000)
    for number in range(MOST_EPOCHS + 3):
        stage.process([(number,)])
    report = stage.operator.stage_report()
    assert report is not None
    assert [each.number for each in report.epochs] == list(range(1, MOST_EPOCHS + 1))
    assert report.running.epochs + report.waiting.epochs == MOST_EPOCHS + 3
