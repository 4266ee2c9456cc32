"""What happened to checkpoints and restarts, for `JobClient`, the demo and the benchmarks."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

from ..protocol.checkpoint import SubtaskMetrics
from ..protocol.ids import Attempt, CheckpointId, SubtaskId

HISTORY_LENGTH = 1_000


class CheckpointOutcome(enum.Enum):
    """How a checkpoint ended."""

    COMPLETED = "completed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class CheckpointStatistics:
    """One ended checkpoint; durations in milliseconds.

    `size_bytes` is all state the checkpoint refers to; `new_bytes` what it added to storage.
    """

    checkpoint_id: CheckpointId
    outcome: CheckpointOutcome
    triggered_ms: int
    duration_ms: float
    size_bytes: int = 0
    new_bytes: int = 0
    reason: str = ""
    subtasks: dict[SubtaskId, SubtaskMetrics] = field(default_factory=dict)

    @property
    def alignment_ms(self) -> float:
        """The longest alignment of any subtask."""
        return max((metrics.alignment_ms for metrics in self.subtasks.values()), default=0.0)

    @property
    def sync_ms(self) -> float:
        """The longest synchronous part of any subtask."""
        return max((metrics.sync_ms for metrics in self.subtasks.values()), default=0.0)


@dataclass(frozen=True)
class RecoveryStatistics:
    """One restart; times in milliseconds since the Unix epoch."""

    attempt: Attempt
    failed_ms: int
    running_ms: int
    cause: str
    restored_checkpoint: CheckpointId | None

    @property
    def duration_ms(self) -> int:
        """From the failure until every subtask ran again."""
        return self.running_ms - self.failed_ms


@dataclass
class JobStatistics:
    """History of one job; the oldest entries go beyond `HISTORY_LENGTH`."""

    warnings: deque[str] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    checkpoints: deque[CheckpointStatistics] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    recoveries: deque[RecoveryStatistics] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
