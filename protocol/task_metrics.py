"""What a subtask says about its work, between checkpoints; names and meanings are Flink's."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

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
        user: Metrics of user functions by dotted name: operator, groups, metric.
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
    user: Mapping[str, UserMetric] = field(default_factory=dict)


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
