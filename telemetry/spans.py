"""A finished span as plain data, the W3C trace context, and the names of Tidegate's spans."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypedDict

AttributeValue: TypeAlias = "str | bool | int | float | tuple[str, ...]"
Attributes: TypeAlias = "Mapping[str, AttributeValue]"

# Span names. docs/telemetry.md explains each one; a test compares the two.
CHECKPOINT = "checkpoint"
SAVEPOINT = "savepoint"
START_DELAY = "checkpoint.start_delay"
ALIGNMENT = "checkpoint.alignment"
PREPARE = "checkpoint.prepare"
SYNC_PART = "checkpoint.sync"
ASYNC_PART = "checkpoint.async"
UPLOAD = "checkpoint.upload"
ACKNOWLEDGE = "checkpoint.acknowledge"
COMMIT = "checkpoint.commit"
NOTIFY = "checkpoint.notify"
CLEAN_UP = "checkpoint.clean_up"
RECOVERY = "recovery"
RESCALE = "rescale"
CANCEL = "restart.cancel"
DELAY = "restart.delay"
INITIALIZE = "restart.initialize"
RESTORE = "restart.restore"
OPEN = "restart.open"
SPARK_EPOCH = "spark.epoch"
SPARK_INPUT = "spark.input"
SPARK_RUN = "spark.run"
SPARK_OUTPUT = "spark.output"
SPARK_JOB = "spark.job"

# Attribute names, documented and tested likewise.
JOB_ID = "job.id"
JOB_NAME = "job.name"
JOB_ATTEMPT = "job.attempt"
CHECKPOINT_ID = "checkpoint.id"
CHECKPOINT_TYPE = "checkpoint.type"
CHECKPOINT_SUBTASKS = "checkpoint.subtasks"
CHECKPOINT_SIZE_BYTES = "checkpoint.size_bytes"
CHECKPOINT_DURATION_MS = "checkpoint.duration_ms"
CHECKPOINT_ABORT_REASON = "checkpoint.abort_reason"
OPERATOR_NAME = "operator.name"
OPERATOR_UID = "operator.uid"
SUBTASK_INDEX = "subtask.index"
STATE_SIZE_BYTES = "state.size_bytes"
ALIGNMENT_CHANNEL = "alignment.last_channel"
ALIGNMENT_QUEUED_MS = "alignment.queued_ms"
ALIGNMENT_BUSY_MS = "alignment.busy_ms"
ALIGNMENT_PROCESSED_BYTES = "alignment.processed_bytes"
CLOCK_SKEW_MS = "clock.skew_ms"
PATH_CAUSE = "critical_path.cause"
PATH_STEPS = "critical_path.steps"
RESTART_CAUSE = "restart.cause"
RESTART_SUBTASKS = "restart.subtasks"
RESTORED_CHECKPOINT_ID = "restored.checkpoint_id"
RESTORED_BYTES = "restored.size_bytes"
EPOCHS_IN_FLIGHT = "epochs.in_flight"
EPOCHS_BUFFERED_BYTES = "epochs.buffered_bytes"
SPARK_EPOCH_NUMBER = "spark.epoch_number"
SPARK_RECORDS = "spark.records"
SPARK_JOB_ID = "spark.job_id"
SPARK_STAGES = "spark.stages"
SPARK_TASKS = "spark.tasks"


class FinishedSpan(TypedDict):
    """One finished span: JSON and pickle both take it, so it can travel with an acknowledgement.

    Ids are lower-case hexadecimal (trace 32 digits, span 16); times are nanoseconds since the Unix
    epoch; `error` is the reason of a failed span, else None; `resource` describes the process.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_unix_ns: int
    end_unix_ns: int
    attributes: dict[str, AttributeValue]
    error: str | None
    service_name: str
    resource: dict[str, AttributeValue]


SpanSink: TypeAlias = Callable[[FinishedSpan], None]

# https://www.w3.org/TR/trace-context/#traceparent-header; later versions may append fields.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


def new_trace_id() -> str:
    """A random trace id, 32 hexadecimal digits."""
    return os.urandom(16).hex()


def new_span_id() -> str:
    """A random span id, 16 hexadecimal digits."""
    return os.urandom(8).hex()


def format_traceparent(trace_id: str, span_id: str) -> str:
    """The W3C `traceparent` of a sampled span."""
    return f"00-{trace_id}-{span_id}-01"


def parse_traceparent(traceparent: str) -> tuple[str, str] | None:
    """The (trace id, span id) of a W3C `traceparent`, or None where it is malformed."""
    match = _TRACEPARENT.fullmatch(traceparent)
    return (match[1], match[2]) if match else None
