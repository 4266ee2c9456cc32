"""Whether a checkpoint may be triggered: the tasks of the attempt, the requests that wait, and a stop."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..checkpoints.abort_reasons import AbortReason
from ..checkpoints.checkpoint_events import (
    AnswerRequest,
    CheckpointCommand,
    CheckpointRequested,
    RequestId,
    SubtaskInputEnded,
    TasksRunning,
)
from ..checkpoints.checkpoint_table import NOT_DUE_IN, CoordinatorInput, CoordinatorState
from ..checkpoints.trigger import NEVER_MS, TriggerDecider
from ..elements import CheckpointBarrier, SavepointTarget, SnapshotKind
from ..ids import Attempt, SubtaskId
from ..invalid_event import InvalidEvent
from .stop import Stop

ALL_INPUT_ENDED = "all input ended and the last checkpoint is complete"


@dataclass(slots=True)
class AttemptTasks:
    """The tasks of one attempt.

    Attributes:
        is_running: Whether they were not stopped yet.
        input_ended: Tasks that have nothing left to process.
        draining: Tasks whose input has ended and whose operators have something under way.
        is_first: Whether no checkpoint of the attempt has been triggered.
    """

    attempt: Attempt | None = None
    subtasks: frozenset[SubtaskId] = frozenset()
    sources: frozenset[SubtaskId] = frozenset()
    is_running: bool = False
    input_ended: set[SubtaskId] = field(default_factory=set)
    draining: set[SubtaskId] = field(default_factory=set)
    is_first: bool = True

    def is_current(self, attempt: Attempt) -> bool:
        """Whether a message of this attempt is from tasks that run."""
        return self.is_running and attempt == self.attempt

    @property
    def all_input_ended(self) -> bool:
        """Whether no task has anything left to process."""
        return bool(self.subtasks) and len(self.input_ended) == len(self.subtasks)

    @property
    def without_barriers(self) -> tuple[SubtaskId, ...]:
        """The tasks that no barrier reaches through a channel, sorted: the coordinator triggers them."""
        return tuple(sorted(self.sources | self.input_ended | self.draining))

    def may_end(self, event: SubtaskInputEnded) -> bool:
        """Whether the event reports something new."""
        is_open = event.subtask in self.subtasks and event.subtask not in self.input_ended
        return is_open and self.is_current(event.attempt)

    def end_input(self, event: SubtaskInputEnded) -> bool:
        """Count the input of a task as ended; whether barriers reached it through its channels until now."""
        was_draining = event.subtask in self.draining
        (self.input_ended if event.is_drained else self.draining).add(event.subtask)
        return not was_draining


@dataclass(frozen=True, slots=True)
class Requested:
    """A snapshot to trigger, and the manual requests that it answers."""

    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    savepoint: SavepointTarget | None = None
    timeout_ms: int | None = None
    request_ids: tuple[RequestId, ...] = ()


class CheckpointTriggers:
    """Decides what `CheckpointCoordinator` may trigger; its state is a key of `COORDINATOR_TABLE`.

    Args:
        decider: The rules for tasks that run and are not about to end.
    """

    def __init__(self, decider: TriggerDecider) -> None:
        self.decider = decider
        self.tasks = AttemptTasks()
        self.stop: Stop | None = None
        self.has_ended = False
        """Whether the last checkpoint of the job has completed."""
        self.final_due_ms = -NEVER_MS
        self.is_failing = False
        """Whether the tasks are about to be stopped."""
        self.closed_by: AbortReason | None = None
        """Why tasks will not run again."""

    @property
    def state(self) -> CoordinatorState:
        """What may be triggered now."""
        if self.has_ended:
            return CoordinatorState.LAST_COMPLETED
        if not self.tasks.is_running:
            return CoordinatorState.NOT_RUNNING if self.closed_by is None else CoordinatorState.CLOSED
        if self.is_failing:
            return CoordinatorState.FAILING
        if self.tasks.all_input_ended:
            return CoordinatorState.INPUT_ENDED
        if self.stop is None:
            return CoordinatorState.TRIGGERING
        if self.stop.kind is SnapshotKind.STOP:
            return CoordinatorState.STOP_REQUESTED
        return CoordinatorState.DRAINING if self.stop.is_draining else CoordinatorState.DRAIN_REQUESTED

    @property
    def ending(self) -> str:
        """Why the job is about to end, an empty text if it is not."""
        all_input_ended = self.tasks.all_input_ended
        if self.stop is not None or (self.has_ended and not all_input_ended):
            return "the job is being stopped with a savepoint"
        return "all input of the job has ended" if all_input_ended else ""

    def due_ms(self, pending_count: int) -> int:
        """Earliest time at which a checkpoint may be triggered, `NEVER_MS` while time alone cannot help."""
        state = self.state
        if state is CoordinatorState.TRIGGERING:
            return self.decider.due_at_ms(pending_count)
        if state in NOT_DUE_IN or pending_count:
            return NEVER_MS
        return self.final_due_ms if state is CoordinatorState.INPUT_ENDED else -NEVER_MS

    def obstacle(self, now_ms: int, pending_count: int) -> AbortReason | None:
        """Why no checkpoint is triggered now, `None` if one is due."""
        state = self.state
        if state is CoordinatorState.TRIGGERING:
            return self.decider.obstacle(now_ms, pending_count)
        if state in NOT_DUE_IN:
            return NOT_DUE_IN[state]
        if pending_count:
            return AbortReason.TOO_MANY_CONCURRENT
        is_early = state is CoordinatorState.INPUT_ENDED and self.final_due_ms > now_ms
        return AbortReason.NOT_DUE if is_early else None

    def begin(self, event: TasksRunning, now_ms: int) -> None:
        """The tasks of an attempt run; raises `InvalidEvent` if those of another one still do."""
        if self.tasks.is_running:
            attempt = self.tasks.attempt
            raise InvalidEvent(f"attempt {event.attempt} cannot start while attempt {attempt} runs")
        self.tasks = AttemptTasks(event.attempt, event.subtasks, event.sources, is_running=True)
        self.has_ended = self.is_failing = False
        self.final_due_ms, self.closed_by = -NEVER_MS, None
        self.decider.start(now_ms, event.initial_delay_ms)

    def end(self) -> None:
        """The tasks stopped."""
        self.tasks.is_running = False
        self.decider.stop()
        if self.stop is not None:
            self.stop.is_draining = False

    def input_of(self, event: CheckpointRequested) -> CoordinatorInput:
        """What a request is, in the table."""
        if not event.kind.ends_job:
            is_full = self.decider.is_full
            return CoordinatorInput.TOO_MANY_REQUESTED if is_full else CoordinatorInput.REQUESTED
        is_other = self.stop is not None and not self.stop.is_same(event)
        return CoordinatorInput.OTHER_STOP_REQUESTED if is_other else CoordinatorInput.STOP_REQUESTED

    def queue_stop(self, event: CheckpointRequested) -> None:
        """Stop the job; requests for the same stop share its outcome."""
        if self.stop is None:
            self.stop = Stop(event.kind, event.savepoint, event.timeout_ms)
        self.stop.request_ids.append(event.request_id)

    def drain(self) -> tuple[SubtaskId, ...]:
        """The sources whose input ends now, for the stop."""
        assert self.stop is not None, "the table has this action only while a stop is requested"
        self.stop.is_draining = True
        return tuple(sorted(self.tasks.sources - self.tasks.input_ended))

    def end_stop(self) -> list[RequestId]:
        """No stop is under way from now on; the requests that asked for it."""
        stop, self.stop = self.stop, None
        return [] if stop is None else stop.request_ids

    def stop_of(self, barrier: CheckpointBarrier) -> Stop | None:
        """The stop that a checkpoint belongs to, if it does."""
        is_its_own = self.stop is not None and barrier.savepoint == self.stop.savepoint
        return self.stop if barrier.kind.ends_job and is_its_own else None

    def refuse_all(self, reason: AbortReason, cause: str = "") -> list[CheckpointCommand]:
        """Refuse the requests that wait, and the stop."""
        waiting = [request.request_id for request in self.decider.take_all()]
        return [AnswerRequest(each, None, reason, cause) for each in self.end_stop() + waiting]

    def next_request(self, now_ms: int) -> Requested:
        """The first request that waits, or the periodic checkpoint."""
        request = self.decider.take(now_ms)
        if request is None:
            return Requested()
        return Requested(request.kind, request.savepoint, request.timeout_ms, (request.request_id,))

    def stop_request(self) -> Requested:
        """The snapshot of the stop."""
        assert self.stop is not None, "the table has this action only while a stop is requested"
        return Requested(self.stop.kind, self.stop.savepoint, self.stop.timeout_ms)

    def final_request(self) -> tuple[Requested, list[CheckpointCommand]]:
        """The final checkpoint; savepoints in other places than its own are refused."""
        waiting, stop = self.decider.take_all(), self.stop
        targets = [request.savepoint for request in waiting if request.savepoint is not None]
        target = stop.savepoint if stop is not None else next(iter(targets), None)
        answered = [request for request in waiting if request.savepoint in (None, target)]
        refused: list[CheckpointCommand] = [
            AnswerRequest(request.request_id, None, AbortReason.TASKS_NOT_RUNNING, ALL_INPUT_ENDED)
            for request in waiting
            if request not in answered
        ]
        ids = tuple(request.request_id for request in answered)
        return Requested(SnapshotKind.FINAL, target, None if stop is None else stop.timeout_ms, ids), refused
