"""Bugs of stages whose epochs run outside their tasks."""

from __future__ import annotations

from typing import Any

from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol.elements import Watermark
from tidegate.protocol.epoch_leader import NO_BARRIER, EpochLeader
from tidegate.protocol.epoch_shares import ShareMachine
from tidegate.protocol.epochs import StoreShares
from tidegate.state.epoch_tables import EpochTablesState
from tidegate.state.operator_states import NoItems

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


def _held_not_stored(original: Any) -> Any:
    def collect(self: EpochStageOperator, number: int, part: Any) -> None:
        original(self, number, part)
        self._stored_results.drop(number)

    return collect


def _one_is_enough(original: Any) -> Any:
    return lambda self, epoch: True


def _no_barrier(original: Any) -> Any:
    return lambda self, epoch: NO_BARRIER


def _first_input(original: Any) -> Any:
    return lambda self: bool(self._inputs_ended)


def _own_watermark(original: Any) -> Any:
    return lambda self, controls: original(self, (Watermark(self._watermark_ms),))


MUTANTS = {
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
    "held-not-stored": Mutant(
        "a checkpoint lacks results that another subtask does not wait for",
        EpochStageOperator,
        "_collect",
        _held_not_stored,
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
    "stage-ends-early": Mutant(
        "the end of one subtask's input ends the stage", EpochLeader, "_has_ended", _first_input
    ),
    "own-watermark": Mutant(
        "a subtask of a stage forwards its own watermark", ShareMachine, "_forward", _own_watermark
    ),
}
