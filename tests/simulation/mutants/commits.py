"""Bugs in two-phase sinks: what is committed, and when."""

from __future__ import annotations

from typing import Any

from tidegate.operators.sinks import SinkOperator
from tidegate.testing.simulation.external_system import external_system

from .base import Mutant


def _commit_what_was_aborted(original: Any) -> Any:
    def aborted(self: SinkOperator, checkpoint_id: Any) -> None:
        self.notify_checkpoint_complete(checkpoint_id)

    return aborted


def _drop_what_was_aborted(original: Any) -> Any:
    def aborted(self: SinkOperator, checkpoint_id: Any) -> None:
        self._pending = [each for each in self._pending if each.checkpoint_id != checkpoint_id]

    return aborted


def _commit_everything(original: Any) -> Any:
    def complete(self: SinkOperator, checkpoint_id: Any) -> None:
        newest = max([checkpoint_id, *(pending.checkpoint_id for pending in self._pending)])
        original(self, newest)

    return complete


def _no_commit_after_restore(original: Any) -> Any:
    return lambda self, items: None


def _prepare_twice(original: Any) -> Any:
    """After a commit the same values are prepared once more, under another name."""

    def complete(self: SinkOperator, checkpoint_id: Any) -> None:
        ready = [pending for pending in self._pending if pending.checkpoint_id <= checkpoint_id]
        original(self, checkpoint_id)
        if len(ready) > 1 and self._writer is not None:
            values = [value for name in ready[0].committables for value in external_system().values(name)]
            external_system().commit(external_system().prepare(0, values))

    return complete


MUTANTS = {
    "commit-aborted": Mutant(
        "an aborted checkpoint is committed",
        SinkOperator,
        "notify_checkpoint_aborted",
        _commit_what_was_aborted,
    ),
    "aborted-dropped": Mutant(
        "what an aborted checkpoint held is not committed with the next one",
        SinkOperator,
        "notify_checkpoint_aborted",
        _drop_what_was_aborted,
    ),
    "commit-too-much": Mutant(
        "a completed checkpoint commits what later ones hold",
        SinkOperator,
        "notify_checkpoint_complete",
        _commit_everything,
    ),
    "double-commit": Mutant(
        "what two checkpoints cover is committed for each of them",
        SinkOperator,
        "notify_checkpoint_complete",
        _prepare_twice,
    ),
    "no-recommit": Mutant(
        "what a restored checkpoint holds is not committed",
        SinkOperator,
        "_recover",
        _no_commit_after_restore,
    ),
}
