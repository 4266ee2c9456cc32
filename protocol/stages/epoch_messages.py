"""What the leader of a stage's epochs and the stage's subtasks send to each other.

Messages between the leader and one subtask arrive in the order in which they were sent; messages of different
subtasks in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..elements import Watermark, WatermarkStatus
from ..ids import CheckpointId

# ---------------------------------------------------------------- to the leader


@dataclass(frozen=True, slots=True)
class ShareOpened:
    """A subtask is open. All subtasks report the same values.

    Attributes:
        first: Number of the first epoch of this attempt.
        max_running: How many epochs may run at once.
        max_records: An epoch with this number of records is full.
    """

    first: int
    max_running: int
    max_records: int


@dataclass(frozen=True, slots=True)
class RunnerReady:
    """Epochs can run from now on. The subtask that runs them reports it."""


@dataclass(frozen=True, slots=True)
class EpochDue:
    """A subtask wants an epoch to end as soon as it can run."""

    number: int
    has_records: bool


@dataclass(frozen=True, slots=True)
class ShareEnded:
    """A subtask adds no more records to an epoch.

    Attributes:
        number: Of the epoch. A subtask ends each epoch, in order, also one of which it has no records.
        records: How many records of the epoch the subtask has.
        watermark_ms: The watermark of the subtask's input at that point.
        is_idle: Whether the subtask's input is idle at that point.
        next_limit: How many records the subtask's next share has at most.
        offer: How the runner gets the records; only the operator understands it.
    """

    number: int
    records: int
    watermark_ms: int
    is_idle: bool
    next_limit: int
    offer: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EpochRan:
    """A run of an epoch returned. A repeated one is ignored.

    Attributes:
        number: Of the epoch.
        parts: How each subtask gets its part of the results; only the operator understands it.
    """

    number: int
    parts: tuple[Any, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class ResultsHeld:
    """A subtask holds its part of an epoch's results: the checkpoints after `last_barrier` contain it."""

    number: int
    last_barrier: CheckpointId


@dataclass(frozen=True, slots=True)
class ShareEmitted:
    """A subtask has emitted its part of an epoch's results."""

    number: int


@dataclass(frozen=True, slots=True)
class ShareInputEnded:
    """No more records come in at a subtask."""


ToLeader = (
    ShareOpened
    | RunnerReady
    | EpochDue
    | ShareEnded
    | EpochRan
    | ResultsHeld
    | ShareEmitted
    | ShareInputEnded
)

# ---------------------------------------------------------------- from the leader


@dataclass(frozen=True, slots=True)
class EndShare:
    """End an epoch, and those before it, unless that has happened. No epoch follows the last one."""

    number: int
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Run an epoch. Goes to the subtask that reported `RunnerReady`.

    Attributes:
        number: Of the epoch.
        offers: Those of all subtasks.
    """

    number: int
    offers: tuple[Any, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class LimitShares:
    """The share that gathers, and later ones, are full with this number of records."""

    records: int


@dataclass(frozen=True, slots=True)
class ShareRuns:
    """The subtask's share is in a run that another subtask has started. Goes to all others."""

    number: int


@dataclass(frozen=True, slots=True)
class TakeResults:
    """An epoch ran: get this part of its results, and hold it."""

    number: int
    part: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class EmitShare:
    """All subtasks hold their parts of an epoch's results: emit them, and then forward `controls`.

    Attributes:
        number: Of the epoch. One without any records has no results.
        controls: What the watermark and the idleness of the whole stage change to.
        barrier: Emit nothing before this barrier has passed. A repeated message has a lower one.
    """

    number: int
    controls: tuple[Watermark | WatermarkStatus, ...]
    barrier: CheckpointId


FromLeader = EndShare | LimitShares | RunEpoch | ShareRuns | TakeResults | EmitShare
