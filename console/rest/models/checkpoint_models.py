"""The documents about checkpoints, as `models` has all others."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .model_forms import Plain


class MinMaxAvg(Plain):
    """How one figure is spread over subtasks."""

    min: float
    max: float
    avg: float


class Spread(Plain):
    """How one figure is spread over checkpoints."""

    min: float
    max: float
    avg: float
    p50: float
    p90: float
    p95: float
    p99: float


class CheckpointCounts(Plain):
    """How many checkpoints there were, over the whole history."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointSummary(Plain):
    """The completed checkpoints in the history."""

    checkpointed_size: Spread
    state_size: Spread
    end_to_end_duration: Spread
    alignment_buffered: Spread
    """As in Flink always 0: see `persisted_data`."""
    processed_data: Spread
    persisted_data: Spread
    start_delay: Spread
    """Beyond Flink, as the rest: the longest of any subtask."""
    alignment_duration: Spread
    sync_duration: Spread
    async_duration: Spread


class CheckpointTotals(Plain):
    """What is said of a whole checkpoint and of one vertex's part of it."""

    status: Literal["COMPLETED", "FAILED", "IN_PROGRESS"]
    latest_ack_timestamp: int
    """-1 before the first acknowledgement."""
    checkpointed_size: int
    """What it added to storage."""
    state_size: int
    """All that it refers to."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class VertexCheckpoint(CheckpointTotals):
    """One vertex's part of a checkpoint."""

    id: str


class CheckpointInfo(CheckpointTotals):
    """One checkpoint."""

    model_config = ConfigDict(populate_by_name=True)

    class_name: Literal["completed", "failed", "in_progress"] = Field(serialization_alias="className")
    id: int
    is_savepoint: bool
    trigger_timestamp: int
    checkpoint_type: str
    tasks: dict[str, VertexCheckpoint] = Field(default_factory=dict)
    """Only in the details of one checkpoint."""
    external_path: str | None = None
    discarded: bool | None = None
    failure_timestamp: int | None = None
    failure_message: str | None = None
    start_delay: float = 0.0
    """Beyond Flink, as the rest: the longest of any subtask."""
    alignment_duration: float = 0.0
    sync_duration: float = 0.0
    async_duration: float = 0.0


class RestoredCheckpointInfo(Plain):
    """The checkpoint that the job was started from last."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None


class LatestCheckpoints(Plain):
    """The newest checkpoint of each kind."""

    completed: CheckpointInfo | None
    savepoint: CheckpointInfo | None
    failed: CheckpointInfo | None
    restored: RestoredCheckpointInfo | None


class CheckpointPage(Plain):
    """Which part of the history this is (beyond Flink), the newest first."""

    offset: int
    limit: int
    total: int


class CheckpointingStatistics(Plain):
    """All checkpoints of a job."""

    counts: CheckpointCounts
    summary: CheckpointSummary | None
    """`None` before the first completed checkpoint."""
    latest: LatestCheckpoints
    history: list[CheckpointInfo]
    page: CheckpointPage


class Externalization(Plain):
    """What becomes of checkpoints after the job."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(Plain):
    """How a job takes its checkpoints."""

    mode: str
    interval: int
    """-1 where there are none."""
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool


class CheckpointDurations(Plain):
    """The two parts of a snapshot."""

    sync: float
    async_: float = Field(serialization_alias="async")
    upload: float
    """Beyond Flink: what of the asynchronous part was writing to storage."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Alignment(Plain):
    """How a subtask aligned."""

    buffered: int
    processed: int
    persisted: int
    duration: float


class SubtaskCheckpoint(BaseModel):
    """One subtask's part of a checkpoint; figures only if it has acknowledged."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    class_name: Literal["completed", "pending"] = Field(serialization_alias="className")
    index: int
    status: Literal["completed", "pending_or_failed"]
    ack_timestamp: int | None = None
    end_to_end_duration: int | None = None
    checkpointed_size: int | None = None
    state_size: int | None = None
    checkpoint: CheckpointDurations | None = None
    alignment: Alignment | None = None
    start_delay: float | None = None
    unaligned_checkpoint: bool | None = None
    aborted: bool | None = None


class DurationSpreads(Plain):
    """How the two parts of the snapshots are spread."""

    sync: MinMaxAvg
    async_: MinMaxAvg = Field(serialization_alias="async")

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class AlignmentSpreads(Plain):
    """How the alignments are spread."""

    buffered: MinMaxAvg
    processed: MinMaxAvg
    persisted: MinMaxAvg
    duration: MinMaxAvg


class VertexCheckpointSummary(Plain):
    """The subtasks of a vertex that have acknowledged."""

    checkpointed_size: MinMaxAvg
    state_size: MinMaxAvg
    end_to_end_duration: MinMaxAvg
    checkpoint_duration: DurationSpreads
    alignment: AlignmentSpreads
    start_delay: MinMaxAvg


class VertexCheckpointDetails(CheckpointTotals):
    """One vertex's part of a checkpoint, by subtask."""

    id: int
    summary: VertexCheckpointSummary | None
    subtasks: list[SubtaskCheckpoint]


class CriticalStep(Plain):
    """One step on the critical path of a checkpoint; it starts so long after the trigger."""

    name: str
    vertex: str | None
    subtask: int | None
    subtask_name: str
    start_ms: float
    duration_ms: float
    cause: str


class CriticalPathInfo(Plain):
    """What made a checkpoint as long as it was (beyond Flink); steps in order, without gaps."""

    id: int
    duration_ms: float
    cause: str
    steps: list[CriticalStep]
