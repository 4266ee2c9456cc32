"""A simulated job with a Spark stage, for tests of what shows epochs."""

from __future__ import annotations

from dataclasses import replace

from tidegate.coordinator.monitoring.job_details import JobDetails, SubtaskDetails
from tidegate.protocol.stages.epochs import EpochPhase
from tidegate.protocol.stages.stage_reports import EpochInFlight, PhaseTotals, RunTotals, StageReport

STAGE_TASK = "task-2"
JOIN = StageReport(
    "enrich-1",
    "enrich 1",
    gathering=PhaseTotals(1, 12_000, 96_000, 7),
    waiting=PhaseTotals(2, 40_000, 320_000, 5),
    running=PhaseTotals(1, 20_000, 160_000, 4),
    emitting=PhaseTotals(1, 20_000, 0, 3),
    epochs=(
        EpochInFlight(3, EpochPhase.EMITTING, 20_000, 0),
        EpochInFlight(4, EpochPhase.RUNNING, 20_000, 160_000),
        EpochInFlight(5, EpochPhase.WAITING, 20_000, 160_000),
        EpochInFlight(6, EpochPhase.WAITING, 20_000, 160_000),
        EpochInFlight(7, EpochPhase.GATHERING, 12_000, 96_000),
    ),
    buffered_bytes=576_000,
    buffer_limit_bytes=256 << 20,
    records_in=132_000,
    records_out=44_096,
    runs=RunTotals(3, 1_250, 3_400),
    web_ui="http://127.0.0.1:38331",
)


def with_stage(details: JobDetails, stage: StageReport = JOIN) -> JobDetails:
    """The job with a stage in each subtask of `STAGE_TASK`, of which the first runs the epochs."""

    def with_share(each: SubtaskDetails) -> SubtaskDetails:
        if each.subtask.task_id != STAGE_TASK:
            return each
        share = stage if each.subtask.index == 0 else replace(stage, runs=None)
        return replace(each, metrics=replace(each.metrics, stages=(share,)))

    return replace(details, subtasks=tuple(map(with_share, details.subtasks)))
