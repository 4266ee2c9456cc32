"""What the coordinator's half of a source and its readers say to each other.

Both directions travel in an envelope that names operator and attempt (`task_events.ToOperator`,
`task_events.FromOperator`). To one subtask, these and the triggers of checkpoints arrive in the order in
which they were sent. That is what makes assignments exact: one that was made before the enumerator's
snapshot is in the reader before the reader's, and one that was made after it is in neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# ---------------------------------------------------------------- to a reader


@dataclass(frozen=True, slots=True)
class SplitsAssigned:
    """The reader has to read these as well."""

    splits: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """The reader ends when it has read what it has."""


@dataclass(frozen=True, slots=True)
class WatermarkLimit:
    """The source must wait while its watermark is above this one."""

    limit_ms: int


# ---------------------------------------------------------------- from a reader


@dataclass(frozen=True, slots=True)
class ReaderStarted:
    """The reader is open. `splits` are those that a checkpoint restored to it; it keeps none of them."""

    splits: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SplitRequested:
    """The reader has nothing left to read."""


@dataclass(frozen=True, slots=True)
class WatermarkReported:
    """How far a source of a group has come; the settings of the group are the same every time."""

    group: str
    watermark_ms: int
    max_drift_ms: int
    update_interval_ms: int


# ---------------------------------------------------------------- both ways


@dataclass(frozen=True, slots=True)
class SourceEventSent:
    """Something that only the user's enumerator and reader understand."""

    event: Any


ReaderEvent = ReaderStarted | SplitRequested | WatermarkReported | SourceEventSent
CoordinatorEvent = SplitsAssigned | NoMoreSplits | WatermarkLimit | SourceEventSent
