"""How a job is at one moment, as its driver and the console see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...common.failpoints import FailPointReport
from ...common.job_status import JobStatus
from .statistics import JobStatistics, RescaleStatistics


@dataclass(frozen=True)
class JobReport:
    """A view of a job at one moment."""

    status: JobStatus
    cause: str | None
    details: str
    restarts: int
    statistics: JobStatistics
    newest_checkpoint: str | None
    """Address of the newest complete checkpoint, to start another job from."""
    stopped_with: str = ""
    """The savepoint that the job was stopped with."""
    job_name: str = ""
    checkpointing_mode: str = ""
    """`exactly-once`, `at-least-once` or `unaligned`; empty without checkpoints."""
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Numbers of subtasks by operator uid."""
    rescaling: RescaleStatistics | None = None
    """The rescale that is under way, if any."""
    metrics_url: str = ""
    """Address of the page that shows the job's metrics to Prometheus; empty where there is none."""
    fail_points: tuple[FailPointReport, ...] = ()
    """What became of the points that `TIDEGATE_FAILPOINTS` armed."""
