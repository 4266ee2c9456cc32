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

    @staticmethod
    def of(request: CheckpointRequested) -> Stop:
        """The stop that a request asks for."""
        return Stop(request.kind, request.savepoint, request.timeout_ms, [request.request_id])

    def joins(self, request: CheckpointRequested) -> bool:
        """Let a request for the same stop share its outcome; false if it asks for another one."""
        if (request.kind, request.savepoint) != (self.kind, self.savepoint):
            return False
        self.request_ids.append(request.request_id)
        return True
