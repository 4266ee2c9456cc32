"""What Spark did for an epoch, for the trace of the checkpoint that the epoch belongs to."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..operators.base import OperatorContext, Work
from ..telemetry.spans import (
    SPARK_EPOCH,
    SPARK_EPOCH_NUMBER,
    SPARK_INPUT,
    SPARK_JOB,
    SPARK_JOB_ID,
    SPARK_OUTPUT,
    SPARK_RECORDS,
    SPARK_RUN,
    SPARK_STAGES,
    SPARK_TASKS,
)
from .exchange.exchange_client import PUSH, READ
from .exchange.exchange_server import Run

logger = logging.getLogger(__name__)

MAX_JOBS = 50
"""The first jobs of an epoch have a span of their own, up to this number."""

_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


class EpochParts:
    """The parts of an epoch's run: Spark's jobs, and meanwhile the exchange of records and results."""

    def __init__(self) -> None:
        self.started_ns = time.time_ns()
        self._run: Run | None = None

    def follow(self, run: Run) -> None:
        """Take the times of the exchange from this run."""
        self._run = run

    def spans(self, ended_ns: int, jobs: tuple[Work, ...]) -> tuple[Work, ...]:
        """The parts up to an end."""
        spark_ended_ns = max((job.ended_ns for job in jobs), default=ended_ns)
        exchanged = (self._exchanged(SPARK_INPUT, READ), self._exchanged(SPARK_OUTPUT, PUSH))
        return (
            Work(SPARK_RUN, self.started_ns, spark_ended_ns, {}, jobs),
            *(work for work in exchanged if work is not None),
        )

    def _exchanged(self, name: str, kind: bytes) -> Work | None:
        times = None if self._run is None else self._run.times_ns(kind)
        return None if times is None else Work(name, *times, {})


@contextlib.contextmanager
def traced_epoch(
    session: Any,
    context: OperatorContext,
    group: str,
    number: int,
    records: int,
    trace: Callable[[Work], None],
) -> Iterator[EpochParts]:
    """What is done within is an epoch: a span with its parts, and one for each Spark job of this thread.

    Args:
        session: The Spark session.
        context: Of the stage. Spark's web UI shows its name.
        group: Job group of the epoch, by which its jobs are found.
        number: Of the epoch. Spark's web UI shows it.
        records: How many records the epoch has.
        trace: Takes the span, on this thread.
    """
    spark = session.sparkContext
    before = {name: spark.getLocalProperty(name) for name in (_GROUP, _DESCRIPTION)}
    spark.setLocalProperty(_GROUP, group)
    spark.setLocalProperty(_DESCRIPTION, f"{context.name_with_subtask}: epoch {number}")
    parts = EpochParts()
    try:
        yield parts
    finally:
        ended_ns = time.time_ns()
        with contextlib.suppress(Exception):
            # Spark may just have died, and what it died of is to be raised.
            for name, value in before.items():
                spark.setLocalProperty(name, value)
        jobs = _jobs(spark, group, parts.started_ns, ended_ns)
        attributes = {SPARK_EPOCH_NUMBER: number, SPARK_RECORDS: records}
        trace(Work(SPARK_EPOCH, parts.started_ns, ended_ns, attributes, parts.spans(ended_ns, jobs)))


def _jobs(spark: Any, group: str, started_ns: int, ended_ns: int) -> tuple[Work, ...]:
    """The jobs of a group, from the store behind Spark's web UI; none where that cannot be read."""
    try:
        ids = sorted(spark.statusTracker().getJobIdsForGroup(group))[:MAX_JOBS]
        store = spark._jsc.sc().statusStore()
        return tuple(_job(store.job(job_id), started_ns, ended_ns) for job_id in ids)
    except Exception:
        # A trace must not fail the job, and Spark may just have died.
        logger.debug("The jobs of an epoch cannot be read from Spark", exc_info=True)
        return ()


def _job(data: Any, started_ns: int, ended_ns: int) -> Work:
    begun = _time_ns(data.submissionTime(), started_ns)
    # The listener that knows of the end may not have run yet.
    done = _time_ns(data.completionTime(), ended_ns)
    begun = min(max(begun, started_ns), ended_ns)
    return Work(
        SPARK_JOB,
        begun,
        min(max(done, begun), ended_ns),
        {
            SPARK_JOB_ID: int(data.jobId()),
            SPARK_STAGES: int(data.stageIds().size()),
            SPARK_TASKS: int(data.numTasks()),
        },
    )


def _time_ns(option: Any, default: int) -> int:
    return int(option.get().getTime()) * 1_000_000 if option.isDefined() else default
