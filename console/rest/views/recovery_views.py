"""The recoveries of a job, beyond Flink's API: what failed first, what was restored, how long it took."""

from __future__ import annotations

from ....coordinator.monitoring.job_details import JobDetails
from ....coordinator.monitoring.statistics import RecoveryStatistics
from ..models.model_forms import Plain
from .job_views import shortened


class Recovery(Plain):
    """One recovery; times in milliseconds since the Unix epoch, durations in milliseconds."""

    cause: str
    failures: int
    failed: int
    running: int
    duration: int
    restored_checkpoint: int | None
    last_result: int | None
    first_result: int | None
    outage: int | None


class JobRecoveries(Plain):
    """The newest recoveries first."""

    restarts: int
    recoveries: list[Recovery]
    truncated: bool


def job_recoveries(details: JobDetails, limit: int) -> JobRecoveries:
    """The recoveries of a job, at most `limit` of them."""
    report = details.report
    newest = list(report.statistics.recoveries)[::-1]
    return JobRecoveries(
        restarts=report.restarts,
        recoveries=[_recovery(one) for one in newest[:limit]],
        truncated=len(newest) > limit,
    )


def _recovery(recovery: RecoveryStatistics) -> Recovery:
    return Recovery(
        cause=shortened(recovery.cause, 500),
        failures=recovery.failures,
        failed=recovery.failed_ms,
        running=recovery.running_ms,
        duration=recovery.duration_ms,
        restored_checkpoint=recovery.restored_checkpoint,
        last_result=recovery.last_result_ms,
        first_result=recovery.first_result_ms,
        outage=recovery.outage_ms,
    )
