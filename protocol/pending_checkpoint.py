"""A checkpoint between its trigger and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .checkpoint_events import Acknowledgement, RequestId
from .elements import CheckpointBarrier
from .handles import OperatorSnapshot
from .ids import SubtaskId
from .invalid_event import InvalidEvent


@dataclass(slots=True)
class PendingCheckpoint:
    """A triggered checkpoint that has neither completed nor been aborted."""

    barrier: CheckpointBarrier
    deadline_ms: int
    missing: set[SubtaskId]
    requests: tuple[RequestId, ...] = ()
    """The manual requests that it answers."""
    acknowledgements: dict[SubtaskId, Acknowledgement] = field(default_factory=dict)
    is_writing: bool = False

    def check_is_writing(self, event: str) -> None:
        """Raise `InvalidEvent` unless all subtasks have acknowledged: only then is a manifest written."""
        if not self.is_writing:
            waiting = ", ".join(str(subtask) for subtask in sorted(self.missing))
            raise InvalidEvent(
                f"checkpoint {self.barrier.checkpoint_id} cannot take the event {event!r}: {waiting} did not "
                f"acknowledge it yet, so no manifest is being written"
            )


def operator_snapshots(
    acknowledgements: Mapping[SubtaskId, Acknowledgement], uids: Iterable[str]
) -> dict[str, list[OperatorSnapshot]]:
    """Snapshots per operator uid, in subtask order."""
    result: dict[str, list[OperatorSnapshot]] = {}
    for uid in uids:
        having = [s for s in sorted(acknowledgements) if uid in acknowledgements[s].snapshots]
        result[uid] = [acknowledgements[subtask].snapshots[uid] for subtask in having]
    return result
