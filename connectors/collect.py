"""A sink that brings records to the driver."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..operators.base import OperatorContext
from ..operators.sinks import Committer, Sink, SinkWriter


class CollectSink(Sink):
    """Hands records to whoever iterates `execute_and_collect()`.

    With checkpoints the records of an epoch arrive when its checkpoint is complete, exactly once.
    Without checkpoints they arrive at once, and after a restart some may arrive again.
    """

    def __init__(self, is_checkpointing: bool) -> None:
        self._is_checkpointing = is_checkpointing

    def create_writer(self) -> SinkWriter:
        return _EpochWriter() if self._is_checkpointing else _DirectWriter()

    def create_committer(self) -> Committer | None:
        return _OfferCommitter() if self._is_checkpointing else None


class _DirectWriter(SinkWriter):
    def open(self, context: OperatorContext) -> None:
        self._results = context.results

    def write_batch(self, values: list[Any]) -> None:
        self._results.offer("", values)

    def is_ready(self) -> bool:
        return self._results.has_credit()


class _EpochWriter(SinkWriter):
    """Gathers an epoch's records; they travel in the snapshot until they are committed."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._epoch = 0

    def open(self, context: OperatorContext) -> None:
        # With the job: one that restores the checkpoint of another commits what that had pending, too.
        self._prefix = f"{context.job_id}/{context.operator_uid}/{context.subtask_index}/{context.attempt}"
        self._results = context.results

    def write_batch(self, values: list[Any]) -> None:
        self._values.extend(values)

    def is_ready(self) -> bool:
        return self._results.has_credit()

    def prepare_commit(self) -> list[Any]:
        if not self._values:
            return []
        values, self._values = self._values, []
        self._epoch += 1
        return [(f"{self._prefix}/{self._epoch}", values)]


class _OfferCommitter(Committer):
    """Keeps in the state what the coordinator has and the driver not: the coordinator may be lost."""

    def open(self, context: OperatorContext) -> None:
        self._results = context.results
        self._offered: deque[Any] = deque()

    def commit(self, committables: list[Any]) -> None:
        for key, values in committables:
            self._results.offer(key, values)
            self._offered.append((key, values))

    def unconfirmed(self) -> list[Any]:
        while len(self._offered) > self._results.unconfirmed():
            self._offered.popleft()
        return list(self._offered)
