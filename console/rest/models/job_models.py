"""The documents of the REST API.

Names and meanings are those of version 1 of Flink's REST API, with its three ways to write a name. What is
not Flink's says so. Times are milliseconds since the Unix epoch, durations milliseconds, sizes bytes.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .checkpoint_models import CheckpointInfo
from .model_forms import Camel, Dashed, Plain
from .stage_models import StageInfo, WholeStageInfo

# ---------------------------------------------------------------- the console itself


class Features(Dashed):
    """What the console can do."""

    web_submit: bool
    web_cancel: bool
    web_rescale: bool
    web_history: bool


class ConsoleConfig(Dashed):
    """How the page should behave."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    """Version of Tidegate, under the name that Flink's clients look for."""
    flink_revision: str
    features: Features


class ClusterOverview(Dashed):
    """All jobs together."""

    taskmanagers: int
    """Processes of tasks that are known."""
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class Problem(Plain):
    """Why a request was refused or failed; never a traceback."""

    errors: list[str]


# ---------------------------------------------------------------- jobs


class TaskCounts(Plain):
    """How many subtasks are in which state."""

    total: int
    created: int
    scheduled: int
    deploying: int
    initializing: int
    reconciling: int
    running: int
    finished: int
    canceling: int
    canceled: int
    failed: int


class JobSummary(Dashed):
    """One line of the list of jobs."""

    jid: str
    name: str
    state: str
    start_time: int
    end_time: int
    """-1 while it runs."""
    duration: int
    last_modification: int
    tasks: TaskCounts
    archived: bool
    """Beyond Flink: whether it is told from storage, so that nothing can be asked of it."""
    error: str | None = None
    """Beyond Flink: why nothing else is known of it, such as a damaged archive."""


class JobSummaries(Plain):
    """The list of jobs, the newest first."""

    jobs: list[JobSummary]


class JobIdWithStatus(Plain):
    """One job."""

    id: str
    status: str


class JobIds(Plain):
    """All jobs."""

    jobs: list[JobIdWithStatus]


class PlanInput(Plain):
    """Where records of a node come from."""

    num: int
    id: str
    ship_strategy: str
    exchange: str


class PlanOperator(Plain):
    """One operator of a vertex (beyond Flink)."""

    uid: str
    name: str
    description: str


class PlanNode(Plain):
    """One vertex of a job's graph: a task, which is a chain of operators."""

    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    inputs: list[PlanInput] = Field(default_factory=list)
    optimizer_properties: dict[str, Any] = Field(default_factory=dict)
    operators: list[PlanOperator] = Field(default_factory=list)
    """Beyond Flink."""


class Plan(Plain):
    """The graph of a job."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlan(Plain):
    """The graph of a job, as its own page."""

    plan: Plan


class IoMetrics(Dashed):
    """What went in and out since the attempt began."""

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: float


class Vertex(BaseModel):
    """One vertex of a job, with all its subtasks together."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    id: str
    name: str
    slot_sharing_group_id: str = Field(serialization_alias="slotSharingGroupId")
    max_parallelism: int = Field(serialization_alias="maxParallelism")
    """-1 where it is not known."""
    parallelism: int
    status: str
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    tasks: dict[str, int]
    metrics: IoMetrics


class JobDetailsInfo(BaseModel):
    """One job."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    jid: str
    name: str
    is_stoppable: bool = Field(serialization_alias="isStoppable")
    state: str
    job_type: str = Field(serialization_alias="job-type")
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    max_parallelism: int = Field(serialization_alias="maxParallelism")
    now: int
    timestamps: dict[str, int]
    vertices: list[Vertex]
    status_counts: dict[str, int] = Field(serialization_alias="status-counts")
    plan: Plan
    archived: bool
    """Beyond Flink, as the rest."""
    restarts: int
    cause: str | None
    """Why it failed, or was restarted last."""
    stopped_with: str = Field(serialization_alias="stopped-with")
    newest_checkpoint: str | None = Field(serialization_alias="newest-checkpoint")
    savepoint_directory: str = Field(serialization_alias="savepoint-directory")
    coordinator_host: str = Field(serialization_alias="coordinator-host")
    warnings: list[str]


class ExecutionConfig(Dashed):
    """How a job was configured."""

    execution_mode: str
    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]
    """All settings, without secrets."""


class JobConfig(Dashed):
    """The configuration of a job."""

    jid: str
    name: str
    execution_config: ExecutionConfig


class ExceptionEntry(Camel):
    """One failure."""

    exception_name: str
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str] = Field(default_factory=dict)
    task_name: str | None
    endpoint: str | None
    task_manager_id: str | None
    attempt: int
    """Beyond Flink."""


class ExceptionHistory(Plain):
    """The newest failures first."""

    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(BaseModel):
    """Why a job failed or was restarted."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    root_exception: str | None = Field(serialization_alias="root-exception")
    timestamp: int | None
    all_exceptions: list[ExceptionEntry] = Field(serialization_alias="all-exceptions")
    truncated: bool
    exception_history: ExceptionHistory = Field(serialization_alias="exceptionHistory")


# ---------------------------------------------------------------- vertices


class SubtaskInfo(Dashed):
    """One subtask of a vertex."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    """When it came into its state."""
    end_time: int
    duration: int
    metrics: IoMetrics
    taskmanager_id: str
    pid: int
    """Beyond Flink: 0 where it has none of its own."""


class VertexDetails(Camel):
    """One vertex with its subtasks."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    now: int
    subtasks: list[SubtaskInfo]


class MetricValue(Plain):
    """One metric; without its value in a list of those there are."""

    id: str
    value: str | None = None


class AggregatedMetric(Plain):
    """One metric over the subtasks of a vertex; without figures in a list of those there are."""

    id: str
    min: float | None = None
    max: float | None = None
    avg: float | None = None
    sum: float | None = None


class SubtaskBackpressure(Camel):
    """How much of its time a subtask could not send, did nothing, and worked: parts of 1."""

    subtask: int
    backpressure_level: str
    ratio: float
    idle_ratio: float
    busy_ratio: float


class VertexBackpressure(BaseModel):
    """Backpressure of a vertex: that of its worst subtask."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    status: str
    backpressure_level: str = Field(serialization_alias="backpressureLevel")
    end_timestamp: int = Field(serialization_alias="end-timestamp")
    subtasks: list[SubtaskBackpressure]


# ---------------------------------------------------------------- the live view (beyond Flink)


class LiveSubtasks(Plain):
    """All subtasks of a vertex as columns, by their index; rates are per second."""

    states: str
    """One letter each: C created, D deploying, I initializing, R running, F finished, G canceling,
    X canceled, E failed."""
    busy: list[int]
    """Of 1,000 parts of its time; so are the next two."""
    backpressured: list[int]
    idle: list[int]
    records_in: list[int]
    records_out: list[int]
    watermarks: list[int | None]


class LiveVertex(Plain):
    """One vertex now; rates are per second over all its subtasks, times parts of 1."""

    id: str
    name: str
    parallelism: int
    status: str
    counts: dict[str, int]
    records_in: float
    records_out: float
    bytes_in: float
    bytes_out: float
    total_records_in: int
    total_records_out: int
    busy: float
    """Mean; the next is the worst subtask's."""
    busy_max: float
    backpressured: float
    backpressured_max: float
    idle: float
    watermark: int | None
    """The lowest."""
    state_bytes: int | None
    queued_bytes: int
    timers: int
    late_records: int
    subtasks: LiveSubtasks
    stages: list[StageInfo]
    """The epochs of its Spark stages, one entry for each subtask of a stage."""
    whole_stages: list[WholeStageInfo]
    """The same, one entry for each stage, in which each epoch counts once."""


class LiveCheckpoints(Plain):
    """The checkpoints so far."""

    completed: int
    failed: int
    in_progress: int
    latest: CheckpointInfo | None
    """The newest that ended; without its tasks."""
    running: list[CheckpointInfo]


class LiveJob(Plain):
    """What a page polls: everything about a job that changes, in one small document."""

    jid: str
    name: str
    state: str
    now: int
    start_time: int
    end_time: int
    duration: int
    archived: bool
    restarts: int
    cause: str | None
    exceptions: int
    metrics_ms: int
    """When the newest metrics were taken; 0 where there are none."""
    vertices: list[LiveVertex]
    checkpoints: LiveCheckpoints
