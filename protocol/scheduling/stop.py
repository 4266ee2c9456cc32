"""A stop with savepoint, from the request until the last snapshot has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..checkpoints.checkpoint_events import CheckpointRequested, RequestId
from ..elements import SavepointTarget, SnapshotKind

STOPPED = "the job has stopped with a savepoint"


@dataclass(slots=True)
class Stop:
    """What was asked for, and by how many requests.

    Attributes:
        kind: `STOP` where the job stands, or `FINAL` after the sources were told to end (drain).
        is_draining: Whether the sources have been told.
    """

    kind: SnapshotKind
    savepoint: SavepointTarget | None
    timeout_ms: int | None
    request_ids: list[RequestId] = field(default_factory=list)
    is_draining: bool = False

    def is_same(self, request: CheckpointRequested) -> bool:
        """Whether a request is for this stop."""
        return (request.kind, request.savepoint) == (self.kind, self.savepoint)
