"""Why a checkpoint was not triggered, or did not complete, and what follows from that.

Source: the distinctions of Flink's `CheckpointFailureReason`, and the rules of its
`CheckpointFailureManager` on which of them count against the tolerable failures.
"""

from __future__ import annotations

import enum


class AbortReason(enum.Enum):
    """Why a checkpoint was not triggered, or was given up."""

    SCHEDULER_STOPPED = "no periodic checkpoint is scheduled"
    NOT_DUE = "the interval between periodic checkpoints is not over"
    TOO_MANY_CONCURRENT = "as many checkpoints are under way as are allowed at once"
    TOO_MANY_TO_DELETE = "too many old checkpoints wait to be deleted"
    MIN_PAUSE = "the pause after the last completed checkpoint is not over"
    TOO_MANY_REQUESTS = "too many requests wait already"
    TASKS_NOT_RUNNING = "not all tasks are running"
    STOP_UNDER_WAY = "the job is being stopped with another savepoint"
    SAVEPOINT_REFUSED = "there can be no savepoint in its directory"

    DECLINED = "a task declined it"
    SYNC_FAILED = "a task could not take its snapshot"
    ASYNC_FAILED = "a task could not store its snapshot"
    CHANNEL_STATE_FAILED = "a task could not store the records under way in its channels"
    BARRIER_SUBSUMED = "a task saw the barrier of a newer checkpoint first"
    CANCELLED_UPSTREAM = "a task heard from upstream that it was cancelled"
    ALIGNMENT_LIMIT = "a task would have had to hold back more than its alignment limit"

    EXPIRED = "it did not complete within its timeout"
    MANIFEST_FAILED = "its manifest could not be written"
    SUBSUMED = "a newer checkpoint completed first"
    TASK_FAILED = "a task failed"
    RESTARTED = "the job restarts"
    SUSPENDED = "another coordinator runs the job"
    SHUT_DOWN = "the job ends"

    @property
    def is_pre_flight(self) -> bool:
        """Whether it keeps a checkpoint from being triggered at all."""
        return self in _PRE_FLIGHT

    @property
    def is_decline(self) -> bool:
        """Whether it is for a task to give, in a `SubtaskDeclined`."""
        return self in _DECLINES

    @property
    def counts_as_failure(self) -> bool:
        """Whether it counts against the tolerable failures.

        What storage or user code caused counts. What the protocol itself decided does not, nor what
        comes with a restart or the end of the job.
        """
        return self in _FAILURES


_PRE_FLIGHT = frozenset(
    {
        AbortReason.SCHEDULER_STOPPED,
        AbortReason.NOT_DUE,
        AbortReason.TOO_MANY_CONCURRENT,
        AbortReason.TOO_MANY_TO_DELETE,
        AbortReason.MIN_PAUSE,
        AbortReason.TOO_MANY_REQUESTS,
        AbortReason.TASKS_NOT_RUNNING,
        AbortReason.STOP_UNDER_WAY,
        AbortReason.SAVEPOINT_REFUSED,
    }
)
_DECLINES = frozenset(
    {
        AbortReason.DECLINED,
        AbortReason.SYNC_FAILED,
        AbortReason.ASYNC_FAILED,
        AbortReason.CHANNEL_STATE_FAILED,
        AbortReason.BARRIER_SUBSUMED,
        AbortReason.CANCELLED_UPSTREAM,
        AbortReason.ALIGNMENT_LIMIT,
    }
)
_FAILURES = frozenset(
    {
        AbortReason.DECLINED,
        AbortReason.SYNC_FAILED,
        AbortReason.ASYNC_FAILED,
        AbortReason.CHANNEL_STATE_FAILED,
        AbortReason.EXPIRED,
        AbortReason.MANIFEST_FAILED,
    }
)
