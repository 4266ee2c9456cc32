"""Bugs of stages whose epochs run outside their tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol.epochs import EmitEpoch, StoreEpochs
from tidegate.state.epoch_tables import EpochTablesState
from tidegate.state.operator_states import NoItems

from .base import Mutant


def _without_state(original: Any) -> Any:
    return lambda self: NoItems()


def _results_not_stored(original: Any) -> Any:
    return lambda self: None


def _dropped_late(original: Any) -> Any:
    """A checkpoint between the first and the last result contains the records, not the results."""

    def perform(self: EpochStageOperator, command: Any) -> None:
        if isinstance(command, EmitEpoch) and command.number:
            with _no_drop(self):
                original(self, command)
        elif not isinstance(command, StoreEpochs):
            original(self, command)

    return perform


@contextlib.contextmanager
def _no_drop(stage: EpochStageOperator) -> Iterator[None]:
    drop = stage._tables.drop
    stage._tables.drop = _later(stage, drop)  # type: ignore[method-assign]
    try:
        yield
    finally:
        stage._tables.drop = drop  # type: ignore[method-assign]


def _later(stage: EpochStageOperator, drop: Callable[[int], None]) -> Callable[[int], None]:
    clock = stage.context.processing_time
    return lambda number: clock.call_at(clock.now_ms() + 40, lambda: drop(number))  # type: ignore


MUTANTS = {
    "epochs-without-state": Mutant("a stage stores no records", EpochTablesState, "freeze", _without_state),
    "results-not-stored": Mutant(
        "a barrier between two results of an epoch loses the others",
        EpochStageOperator,
        "_store_results",
        _results_not_stored,
    ),
    "epoch-dropped-late": Mutant(
        "an epoch runs again after it was emitted", EpochStageOperator, "_perform", _dropped_late
    ),
}
