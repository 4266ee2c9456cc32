"""Identities that travel in messages, handles and manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

JobId = NewType("JobId", str)
CheckpointId = NewType("CheckpointId", int)
Attempt = NewType("Attempt", int)
"""One execution of the whole job. Grows with every restart and every coordinator; fences zombies."""


@dataclass(frozen=True, slots=True, order=True)
class SubtaskId:
    """One parallel instance of a task."""

    task_id: str
    index: int

    def __str__(self) -> str:
        return f"{self.task_id}#{self.index}"


@dataclass(frozen=True, slots=True, order=True)
class ChannelId:
    """One directed connection between two subtasks along one edge of the job graph."""

    edge_id: int
    upstream_index: int
    downstream_index: int

    def __str__(self) -> str:
        return f"e{self.edge_id}:{self.upstream_index}->{self.downstream_index}"
