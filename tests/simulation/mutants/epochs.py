"""Bugs of stages whose epochs run outside their tasks."""

from __future__ import annotations

from typing import Any

from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol.elements import Batch
from tidegate.protocol.epochs import EmitEpoch, StoreEpochs
from tidegate.state.epoch_tables import EpochTablesState
from tidegate.state.operator_states import NoItems
from tidegate.testing.simulated_stage import SimulatedStage

from .base import Mutant


def _without_state(original: Any) -> Any:
    return lambda self: NoItems()


def _in_two_parts(original: Any) -> Any:
    def emit_results(self: SimulatedStage, results: list[Any]) -> None:
        half = len(results) // 2
        original(self, results[:half])
        self._after(5, lambda: self.emit(Batch(results[half:])))

    return emit_results


def _dropped_late(original: Any) -> Any:
    def perform(self: EpochStageOperator, command: Any) -> None:
        if isinstance(command, EmitEpoch):
            self.emit_results(self._results.pop(command.number))
            clock = self.context.processing_time
            clock.call_at(clock.now_ms() + 40, lambda: self._tables.drop(command.number))
        elif not isinstance(command, StoreEpochs):
            original(self, command)

    return perform


MUTANTS = {
    "epochs-without-state": Mutant("a stage stores no records", EpochTablesState, "freeze", _without_state),
    "epoch-in-two-parts": Mutant(
        "a barrier comes between the results of an epoch", SimulatedStage, "emit_results", _in_two_parts
    ),
    "epoch-dropped-late": Mutant(
        "an epoch runs again after it was emitted", EpochStageOperator, "_perform", _dropped_late
    ),
}
