"""Identities that travel in messages, handles and manifests."""

from __future__ import annotations

from typing import NamedTuple, NewType

JobId = NewType("JobId", str)
CheckpointId = NewType("CheckpointId", int)
Attempt = NewType("Attempt", int)
"""One execution of the whole job. Grows with every restart and every coordinator; fences zombies."""


# Named tuples: each message and each acknowledgement is looked up by them, and theirs are the fastest hashes.


class SubtaskId(NamedTuple):
    """One parallel instance of a task."""

    task_id: str
    index: int  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.task_id}#{self.index}"


class ChannelId(NamedTuple):
    """One directed connection between two subtasks along one edge of the job graph."""

    edge_id: int
    upstream_index: int
    downstream_index: int

    def __str__(self) -> str:
        return f"e{self.edge_id}:{self.upstream_index}->{self.downstream_index}"
