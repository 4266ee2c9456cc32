"""What the subtasks of one stage report: each its share, and together each epoch once."""

from __future__ import annotations

import pytest
from tidegate.coordinator.monitoring.stage_metrics import stage_values
from tidegate.protocol.stages.stage_reports import (
    MOST_EPOCHS,
    EpochInFlight,
    PhaseTotals,
    RunTotals,
    StageReport,
    whole_stage,
)

from .test_epoch_stage import Stages

NONE = PhaseTotals()
# Each number takes eight bytes.
SIZE = 8


class ReportingStages(Stages):
    @property
    def reports(self) -> list[StageReport]:
        found = [stage.operator.stage_report() for stage in self.subtasks]
        return [report for report in found if report is not None]

    def sums(self) -> dict[str, float]:
        """What a sum over all subtasks gives of each metric."""
        sums: dict[str, float] = {}
        for report in self.reports:
            for name, value in stage_values(report, self.reports).items():
                sums[name] = sums.get(name, 0) + value
        return sums

    def emit_some(self, index: int) -> None:
        self.subtasks[index].processing_time.run_due()


def gathered(subtasks: int) -> ReportingStages:
    """Each subtask but the last has one record more than the one after it; the last has one."""
    stage = ReportingStages([None] * subtasks, max_running=1)
    stage.start()
    for index, subtask in enumerate(stage.subtasks):
        subtask.process([(number,) for number in range(subtasks - index)])
    return stage


@pytest.mark.parametrize(("subtasks", "records"), [(1, 1), (2, 3), (3, 6)])
def test_an_epoch_counts_once_in_each_phase(subtasks: int, records: int) -> None:
    stage = gathered(subtasks)
    stage.deliver_messages()
    shares = [PhaseTotals(1, subtasks - index, SIZE * (subtasks - index), 1) for index in range(subtasks)]
    assert [(report.running, report.waiting) for report in stage.reports] == [(each, NONE) for each in shares]
    whole = whole_stage(stage.reports)
    assert (whole.running, whole.waiting) == (PhaseTotals(1, records, SIZE * records, 1), NONE)
    assert stage.sums()["numEpochsRunning"] == 1
    for subtask in stage.subtasks:
        subtask.process([(9,)])
    whole = whole_stage(stage.reports)
    assert whole.gathering == PhaseTotals(1, subtasks, SIZE * subtasks, 2)
    assert stage.sums()["numRecordsGathered"] == subtasks


@pytest.mark.parametrize("subtasks", [2, 3])
def test_the_subtask_that_runs_the_epochs_counts_the_runs(subtasks: int) -> None:
    stage = gathered(subtasks)
    stage.deliver()
    for subtask in stage.subtasks:
        subtask.advance_to(40)
    stage.finish(1)
    assert [report.runs for report in stage.reports] == [RunTotals(1, 40, 40), *[None] * (subtasks - 1)]
    assert whole_stage(stage.reports).runs == RunTotals(1, 40, 40)
    assert stage.sums()["numEpochsRun"] == 1
    assert stage.sums()["accumulateEpochTimeMs"] == stage.sums()["lastEpochTimeMs"] == 40


def test_an_epoch_is_emitted_until_all_subtasks_have_emitted_it() -> None:
    stage = gathered(3)
    stage.deliver_messages()
    stage.finish(1)
    stage.deliver_messages()
    assert stage.sums()["numEpochsEmitting"] == 1
    for index, left in ((0, 1), (1, 1), (2, 0)):
        stage.emit_some(index)
        stage.deliver_messages()
        assert stage.sums()["numEpochsEmitting"] == left, f"after subtask {index}"
    whole = whole_stage(stage.reports)
    assert (whole.records_in, whole.records_out, whole.epochs) == (6, 6, ())


def test_an_epoch_that_only_some_subtasks_have_ended_is_gathered() -> None:
    stage = ReportingStages([None] * 2, max_records=4, interval_ms=1_000)
    stage.start()
    stage.subtasks[1].process([(0,)])
    stage.subtasks[0].process([(1,), (2,)])
    assert [report.gathering.epochs for report in stage.reports] == [0, 1]
    whole = whole_stage(stage.reports)
    assert (whole.gathering, whole.waiting) == (PhaseTotals(1, 3, 3 * SIZE, 1), NONE)
    stage.deliver_messages()
    assert whole_stage(stage.reports).running == PhaseTotals(1, 3, 3 * SIZE, 1)


def test_epochs_beyond_those_that_are_listed_count_once_as_well() -> None:
    count = MOST_EPOCHS + 5
    stage = ReportingStages([None] * 2, max_records=2, interval_ms=1_000)
    stage.start()
    for number in range(count):
        for subtask in stage.subtasks:
            subtask.process([(number,)])
        stage.deliver_messages()
    stage.subtasks[1].process([(7,)])
    stage.subtasks[1].process([(8,)])
    stage.finish(1)
    stage.deliver()
    whole = whole_stage(stage.reports)
    assert whole.running == PhaseTotals(1, 2, 2 * SIZE, 2)
    listed = [each.number for each in whole.epochs]
    assert listed == list(range(2, MOST_EPOCHS + 2))
    sums = stage.sums()
    assert (sums["numEpochsRunning"], sums["numEpochsWaiting"]) == (1, count + 2 - 2)
    assert whole.waiting == PhaseTotals(count, 2 * (count - 2) + 2, SIZE * (2 * (count - 2) + 2), 3)


def test_the_whole_of_one_subtask_is_its_report() -> None:
    stage = gathered(1)
    stage.deliver_messages()
    (report,) = stage.reports
    assert whole_stage([report]) == report
    assert EpochInFlight(1, report.epochs[0].phase, 1, SIZE) in report.epochs
