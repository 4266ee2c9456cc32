"""What a coordinator remembers of its job for people: when what ran where, and what went wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...common.secrets import masked_text
from ...protocol import task_events as events
from ...protocol.ids import SubtaskId
from ...protocol.scheduling.execution_graph import Subtask
from ...protocol.task_metrics import ExecutionState
from .job_details import JobException
from .job_metrics import JobMetrics

EXCEPTIONS = 100
MAX_CAUSE_CHARS = 4_000
MAX_DETAILS_CHARS = 20_000


@dataclass(frozen=True)
class Failure:
    """Why a job failed, or was restarted."""

    cause: str
    details: str
    occurred_ms: int


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """Where a subtask is in its life, and since when."""

    state: ExecutionState
    since_ms: int
    attempt: int


class JobHistory:
    """States of the subtasks now, and the newest failures.

    Args:
        metrics: Of the subtasks of the current attempt; they hold the host of each.

    Attributes:
        started_ms: When the job started, 0 before.
        ended_ms: When it ended, `None` before.
        subtasks: Of the newest attempt.
        exceptions: The newest first.
    """

    def __init__(self, metrics: JobMetrics) -> None:
        self._metrics = metrics
        self._deployed: Mapping[SubtaskId, Subtask] = {}
        self.started_ms = 0
        self.ended_ms: int | None = None
        self.subtasks: dict[SubtaskId, SubtaskState] = {}
        self.exceptions: deque[JobException] = deque(maxlen=EXCEPTIONS)
        self._attempt = 0

    def started(self, now_ms: int) -> None:
        """The coordinator begins."""
        self.started_ms = now_ms

    def ended(self, now_ms: int) -> None:
        """The job is over."""
        self.ended_ms = now_ms

    def deployed(self, subtasks: Mapping[SubtaskId, Subtask], attempt: int, now_ms: int) -> None:
        """All subtasks are started, for the first time (0) or again."""
        self._attempt, self._deployed = attempt, subtasks
        fresh = SubtaskState(ExecutionState.INITIALIZING, now_ms, attempt)
        self.subtasks = dict.fromkeys(subtasks, fresh)

    def stopping(self, subtasks: Iterable[SubtaskId], now_ms: int) -> None:
        """Some subtasks were told to stop."""
        for subtask in subtasks:
            self._set(subtask, ExecutionState.CANCELING, now_ms)

    def saw(self, event: events.TaskEvent, now_ms: int) -> None:
        """A subtask of the current attempt reported something."""
        if isinstance(event, events.TaskInitialized):
            self._set(event.subtask, ExecutionState.RUNNING, now_ms)
        elif isinstance(event, events.TaskFinished):
            self._set(event.subtask, ExecutionState.FINISHED, now_ms)
        elif isinstance(event, events.TaskStopped):
            self._set(event.subtask, ExecutionState.CANCELED, now_ms)
        elif isinstance(event, events.TaskFailed):
            self._set(event.subtask, ExecutionState.FAILED, now_ms)
            self.failed(event.cause, event.details, now_ms, event.subtask)

    def failed(self, cause: str, details: str, now_ms: int, subtask: SubtaskId | None = None) -> None:
        """Something failed: a subtask, or the job as a whole."""
        newest = self.exceptions[0] if self.exceptions else None
        cause = _shortened(masked_text(cause), MAX_CAUSE_CHARS)
        if newest is not None and (newest.cause, newest.attempt) == (cause, self._attempt):
            # A process that dies takes several subtasks with it, each of which says so.
            return
        text = _shortened(masked_text(details), MAX_DETAILS_CHARS)
        # Now: after a rescale the subtask has another name, and another host.
        name, host = self._place(subtask)
        self.exceptions.appendleft(JobException(now_ms, cause, text, subtask, name, host, self._attempt))

    def _place(self, subtask: SubtaskId | None) -> tuple[str, str]:
        """Name and host of a subtask of the current attempt; empty where they are not known."""
        deployed = None if subtask is None else self._deployed.get(subtask)
        if deployed is None:
            return "", ""
        return deployed.name, self._metrics.of(deployed.subtask_id).host

    def _set(self, subtask: SubtaskId, state: ExecutionState, now_ms: int) -> None:
        known = self.subtasks.get(subtask)
        if known is not None and known.state is not state:
            self.subtasks[subtask] = SubtaskState(state, now_ms, known.attempt)


def _shortened(text: str, limit: int) -> str:
    """The start and the end of a text: a traceback says most at its end."""
    if len(text) <= limit:
        return text
    half = limit // 2 - 10
    return f"{text[:half]}\n … \n{text[-half:]}"
