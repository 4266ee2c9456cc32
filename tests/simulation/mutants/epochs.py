"""Bugs of stages whose epochs run outside their tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol.stages.epoch_leader import NO_BARRIER, EpochLeader
from tidegate.protocol.stages.epochs import StageRestored, StoreShares
from tidegate.state.operator.epoch_tables import EpochTablesState
from tidegate.state.operator.live_operator_state import NoItems

from .base import Mutant


def _without_state(original: Any) -> Any:
    return lambda self: NoItems()


def _unsent_not_stored(original: Any) -> Any:
    def store(self: EpochStageOperator, stored: StoreShares) -> None:
        original(self, stored)
        self._stored_results.drop(stored.began)

    return store


def _begun_not_stored(original: Any) -> Any:
    def store(self: EpochStageOperator, stored: StoreShares) -> None:
        original(self, stored)
        self._progress.update([(max(0, stored.began - 1), stored.gathering)])

    return store


def _one_is_enough(original: Any) -> Any:
    return lambda self, epoch: True


def _no_barrier(original: Any) -> Any:
    return lambda self, epoch: NO_BARRIER


def _lost_in_rescale(original: Any) -> Any:
    def restored(self: EpochStageOperator) -> StageRestored:
        stored_by = len(self._progress.get())
        event: StageRestored = original(self)
        if stored_by in (0, self.context.parallelism):
            return event
        for share in event.shares:
            self._tables.drop(share.number)
        return replace(event, shares=())

    return restored


MUTANTS = {
    "epochs-lost-in-rescale": Mutant(
        "a stage with another parallelism drops restored epochs",
        EpochStageOperator,
        "_restored",
        _lost_in_rescale,
    ),
    "epochs-without-state": Mutant("a stage stores no records", EpochTablesState, "freeze", _without_state),
    "results-not-stored": Mutant(
        "a barrier between two results of an epoch loses the others",
        EpochStageOperator,
        "_store",
        _unsent_not_stored,
    ),
    "begun-not-stored": Mutant(
        "a checkpoint does not contain which epoch began to leave",
        EpochStageOperator,
        "_store",
        _begun_not_stored,
    ),
    "epoch-held-by-one": Mutant(
        "an epoch leaves before all subtasks hold its results", EpochLeader, "_all_hold", _one_is_enough
    ),
    "epoch-before-barrier": Mutant(
        "an epoch leaves before a barrier that another subtask has passed",
        EpochLeader,
        "_awaited",
        _no_barrier,
    ),
}
