"""What is measured of the epochs of a stage, with names in Flink's style.

Each subtask has the figures of its own records. The subtask that runs the epochs has those of the stage's
epochs, so that a sum over all subtasks counts each epoch once. `docs/metrics.md` has the same table; a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...protocol.stages.stage_reports import RunTotals, StageReport, whole_stage

Values = dict[str, tuple[str, Callable[[StageReport], float | None]]]

RECORD_METRICS: Values = {
    "numRecordsIn": ("Records that the subtask has taken.", lambda s: s.records_in),
    "numRecordsOut": ("Results that the subtask has emitted.", lambda s: s.records_out),
    "numRecordsGathered": ("Records of the epoch that takes the next ones.", lambda s: s.gathering.records),
    "numBytesGathered": ("Bytes of these records.", lambda s: s.gathering.size_bytes),
    "bufferSize": ("Bytes of all records without results.", lambda s: s.buffered_bytes),
    "maxBufferSize": (
        "With this number of bytes the subtask takes no more records.",
        lambda s: s.buffer_limit_bytes,
    ),
}
EPOCH_METRICS: Values = {
    "numEpochsWaiting": ("Epochs that take no more records and do not run yet.", lambda s: s.waiting.epochs),
    "numEpochsRunning": ("Epochs that run in Spark.", lambda s: s.running.epochs),
    "numEpochsEmitting": (
        "Epochs whose results have arrived and have not all been emitted.",
        lambda s: s.finished.epochs + s.emitting.epochs,
    ),
    "numEpochsRun": ("Runs of epochs that have ended.", lambda s: _runs(s).epochs),
    "lastEpochTimeMs": (
        "Milliseconds from the start of the last epoch's run to its results.",
        lambda s: _runs(s).last_ms,
    ),
    "accumulateEpochTimeMs": (
        "The same of all epochs in this attempt, together.",
        lambda s: _runs(s).total_ms,
    ),
}
STAGE_METRICS = {**RECORD_METRICS, **EPOCH_METRICS}
"""By name: what it means, and where it comes from."""


def stage_values(report: StageReport, of_stage: Iterable[StageReport]) -> dict[str, float]:
    """The metrics of one subtask of a stage.

    Args:
        report: Of the subtask.
        of_stage: The reports of all its subtasks.
    """
    values = {name: value_of(report) for name, (_, value_of) in RECORD_METRICS.items()}
    if report.runs is not None:
        whole = whole_stage(list(of_stage))
        values |= {name: value_of(whole) for name, (_, value_of) in EPOCH_METRICS.items()}
    return {name: value for name, value in values.items() if value is not None}


def reports_by_stage(reports: Iterable[StageReport]) -> dict[str, list[StageReport]]:
    """The reports of each stage, by the uid of its operator."""
    found: dict[str, list[StageReport]] = {}
    for report in reports:
        found.setdefault(report.operator_uid, []).append(report)
    return found


def _runs(stage: StageReport) -> RunTotals:
    return stage.runs or RunTotals()
