"""What a task needs from the shell it runs in, and its deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..common.failpoints import Arming
from ..common.job_files import JobFile
from ..common.options.deployment_options import NetworkOptions
from ..common.options.job_options import DataPlaneOptions, ExecutionOptions, PipelineOptions
from ..operators.async_io.async_loop import TaskEventLoop
from ..protocol.checkpoints.channel_state import RecoveredChannel
from ..protocol.checkpoints.handles import OperatorSnapshot
from ..protocol.elements import CheckpointingMode, Message, StreamElement
from ..protocol.ids import Attempt, ChannelId, CheckpointId, JobId, SubtaskId
from ..protocol.scheduling.execution_graph import Subtask
from ..protocol.task_events import TaskEvent
from ..state.backend import StateBackend
from ..state.storage.checkpoint_storage import CheckpointStorage
from ..telemetry.logs import LogContext, LogSettings


class TaskPorts(Protocol):
    """The outside world of a task. Every call returns at once."""

    def now_ns(self) -> int:
        """Wall-clock time in nanoseconds."""

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        """The payload that travels for some elements, and its size in bytes for credit."""

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        """The next elements of a payload, from `position`, and the position after them, `None` at its end."""

    def send(self, message: Message) -> None:
        """Send a message to the subtask at the other end of its channel, in order with those before it."""

    def send_markers(self, messages: Sequence[Message]) -> None:
        """Send one marker down several channels; it may overtake what was sent before, and get lost."""

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        """A message of this input channel was consumed; without a size it takes no credit."""

    def report(self, event: TaskEvent) -> None:
        """Tell the coordinator."""

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run `work` off the task's loop, in the order of the calls, one at a time."""

    def create_event_loop(self, name: str) -> TaskEventLoop:
        """An event loop for the async functions of the task."""

    def wake(self) -> None:
        """Another thread put mail into the task's mailbox; may be called from any thread."""


@dataclass(frozen=True)
class TaskSettings:
    """Settings that are the same for every task of a job.

    Attributes:
        is_checkpointing: Whether checkpoints or savepoints can be taken at all.
        takes_checkpoints: Whether checkpoints are taken, and not only savepoints on request.
        batch_size: Records in a full batch.
        buffer_timeout_ms: How long a part-filled batch may wait, longer in a task of several
            channels that is never idle; 0 sends at once, -1 waits till it is full.
        auto_watermark_interval_ms: How often generators of watermarks are asked; 0 for never.
        channel_credit_bytes: Bytes outstanding on one channel before its sender waits.
        result_credit_bytes: Collected bytes the driver has not taken before a collector waits.
        storage: Checkpoint storage of this job; `None` without checkpoints.
        local_dir: Directory for local files of all tasks.
        max_inline_state_bytes: The largest file of a state that a snapshot may hold; `None` for any.
        storage_probe: A file that the coordinator wrote into `storage`; who does not see it is elsewhere.
        local_snapshots_dir: Where tasks keep copies of their last snapshots; `None` for no copies.
        max_buffered_bytes: The most that a task may hold back or record for one checkpoint; `None` for any.
        fail_points: What `TIDEGATE_FAILPOINTS` armed, `None` if nothing.
        files: Files that travel with the job.
        is_batch: Whether every source ends and only final results are wanted.
        allow_non_restored_state: Whether state of the checkpoint that the job is started from may be ignored.
        gap_timeout_ms: How long a message may be missing, while later ones are there, before it is lost.
        job_name: Name of the job, for its logs.
        logs: How the process logs.
    """

    state_backend: StateBackend
    storage: CheckpointStorage | None
    local_dir: str
    is_checkpointing: bool
    takes_checkpoints: bool = True
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    batch_size: int = DataPlaneOptions.BATCH_SIZE.default
    buffer_timeout_ms: int = ExecutionOptions.BUFFER_TIMEOUT.default.to_millis()
    auto_watermark_interval_ms: int = PipelineOptions.AUTO_WATERMARK_INTERVAL.default.to_millis()
    channel_credit_bytes: int = DataPlaneOptions.CHANNEL_CREDIT.default
    result_credit_bytes: int = 16 << 20
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    max_inline_state_bytes: int | None = None
    storage_probe: str | None = None
    local_snapshots_dir: str | None = None
    files: tuple[JobFile, ...] = ()
    is_batch: bool = False
    max_buffered_bytes: int | None = None
    fail_points: Arming | None = None
    allow_non_restored_state: bool = False
    gap_timeout_ms: int = NetworkOptions.GAP_TIMEOUT.default.to_millis()
    job_name: str = ""
    logs: LogSettings = field(default_factory=LogSettings)


@dataclass(frozen=True)
class TaskDeployment:
    """Everything one subtask needs to run in one attempt."""

    job_id: JobId
    attempt: Attempt
    attempt_number: int
    subtask: Subtask
    settings: TaskSettings
    restored: Mapping[str, OperatorSnapshot] | None
    """State by operator uid, or `None` when the job starts afresh."""
    restored_is_owned: bool = True
    restored_checkpoint_id: CheckpointId | None = None
    is_stopped: bool = False
    """Whether the restored checkpoint was the last of the job: only what it holds is to be committed."""
    recovered: tuple[RecoveredChannel, ...] = ()
    """Records that the barrier of the restored checkpoint had overtaken."""
    trace_context: str | None = None
    """W3C traceparent of the restart that this is part of."""

    @property
    def subtask_id(self) -> SubtaskId:
        """The subtask to run."""
        return self.subtask.subtask_id

    @property
    def log_context(self) -> LogContext:
        """What the lines say that it logs."""
        task, index = self.subtask.task, self.subtask_id.index
        return LogContext(self.job_id, self.settings.job_name, task.name, index, self.attempt_number)
