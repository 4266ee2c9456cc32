"""What a subtask says about its work, between checkpoints; names and meanings are Flink's."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from .ids import Attempt, SubtaskId
from .stages.stage_reports import StageReport

UserMetric = int | float | Mapping[str, int | float]


class ExecutionState(enum.Enum):
    """Where one subtask is in its life."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class MetricScope:
    """What the dotted name of a user's metric is made of.

    Attributes:
        operator_uid: Uid of the operator.
        path: Its groups and its own name; of a group with a key and a value only the key.
        labels: Those keys and values.
    """

    operator_name: str
    operator_uid: str
    path: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One subtask at one moment. Counts and times grow from 0 in every attempt.

    Attributes:
        busy_ms: Time in which it worked.
        backpressured_ms: Time in which it had input and no credit for its output.
        idle_ms: The rest: nothing to do.
        watermark_ms: Its input watermark (a source's own), `None` before the first.
        input_bytes: What waits in its input gate.
        output_bytes: What it sent and the receivers have not consumed.
        state_bytes: Estimated size of its keyed and operator state, `None` where it has none.
        timers: Registered timers.
        first_result_ms: When a subtask at the end of the graph first processed records in this attempt, in
            milliseconds since the Unix epoch; `None` before, and elsewhere.
        last_result_ms: When it last did.
        user: Metrics of user functions by dotted name: operator, groups, metric.
        scopes: What those names are made of.
        stages: The epochs of its stages, where it has some.
    """

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: float = 0.0
    backpressured_ms: float = 0.0
    idle_ms: float = 0.0
    watermark_ms: int | None = None
    input_bytes: int = 0
    output_bytes: int = 0
    state_bytes: int | None = None
    timers: int = 0
    late_records: int = 0
    first_result_ms: int | None = None
    last_result_ms: int | None = None
    user: Mapping[str, UserMetric] = field(default_factory=dict)
    scopes: Mapping[str, MetricScope] = field(default_factory=dict)
    stages: tuple[StageReport, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRates:
    """How two `TaskMetrics` of one attempt differ, per second. The three times add up to 1,000."""

    records_in: float = 0.0
    records_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    busy_ms: float = 0.0
    backpressured_ms: float = 0.0
    idle_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """What one process says about the subtasks of an attempt that run in it.

    Attributes:
        host: Name of its machine.
        process_id: 0 where the job runs in the driver's process.
    """

    attempt: Attempt
    host: str
    process_id: int
    subtasks: Mapping[SubtaskId, TaskMetrics]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a process answers to show that it is alive.

    Attributes:
        attempt: The newest that was deployed in it.
        reports: How many reports each of its subtasks has sent to the coordinator.
        metrics: What the subtasks have measured, if that was asked for and could be had at once.
    """

    attempt: Attempt
    reports: Mapping[SubtaskId, int]
    metrics: ProcessMetrics | None = None
