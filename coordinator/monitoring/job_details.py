"""A job as its operators see it: everything that console, REST API and command line show of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...protocol.ids import SubtaskId
from ...protocol.task_metrics import ExecutionState, TaskMetrics, TaskRates
from .job_report import JobReport


@dataclass(frozen=True)
class SubtaskDetails:
    """One subtask; times in milliseconds since the Unix epoch."""

    subtask: SubtaskId
    state: ExecutionState
    since_ms: int
    """When it came into this state."""
    attempt: int
    """How often it was started before."""
    host: str
    process_id: int
    """0 where the job runs in the driver's process, or has none yet."""
    metrics: TaskMetrics
    rates: TaskRates
    metrics_ms: int
    """When the metrics were taken."""


@dataclass(frozen=True)
class JobException:
    """One failure in the history of a job."""

    occurred_ms: int
    cause: str
    details: str
    """The traceback, where there is one."""
    subtask: SubtaskId | None
    subtask_name: str
    host: str
    attempt: int


@dataclass(frozen=True)
class JobDetails:
    """One job at one moment, or at its end; times in milliseconds since the Unix epoch."""

    job_id: str
    report: JobReport
    started_ms: int
    ended_ms: int | None
    plan: Mapping[str, Any]
    """What `protocol.scheduling.execution_plan` makes of the graph."""
    subtasks: tuple[SubtaskDetails, ...]
    exceptions: tuple[JobException, ...]
    """The newest 100, newest first."""
    configuration: Mapping[str, str]
    """Settings of the job by Flink's names, without secrets."""
    coordinator_host: str
    now_ms: int
    """When this was taken, by the coordinator's clock."""
