"""Bugs of small batches that are joined at the gate of a task."""

from __future__ import annotations

from typing import Any

from tidegate.protocol.elements import CheckpointBarrier
from tidegate.runtime.batch_joining import Joining
from tidegate.runtime.gate import InputGate

from .base import Mutant


def _past_barriers(original: Any) -> Any:
    def join(self: InputGate, index: int, first: Any, enough_records: int) -> Any:
        for channel in self._channels:
            ready = channel.ready
            if len(ready) > 1 and not channel.current and isinstance(ready[0].announces, CheckpointBarrier):
                ready[0], ready[1] = ready[1], ready[0]
        return original(self, index, first, enough_records)

    return join


def _newest_first(original: Any) -> Any:
    def joined(self: Joining) -> Any:
        self._batches.reverse()
        return original(self)

    return joined


def _credit_of_first_only(original: Any) -> Any:
    def join(self: InputGate, index: int, first: Any, enough_records: int) -> Any:
        give, self._return_credit = self._return_credit, lambda *credit: None
        try:
            return original(self, index, first, enough_records)
        finally:
            self._return_credit = give

    return join


def _read_but_not_joined(original: Any) -> Any:
    def add(self: Joining, batch: Any) -> bool:
        return original(self, batch) and (len(self._batches) < 3 or bool(self._batches.pop()))

    return add


MUTANTS = {
    "joined-past-barrier": Mutant(
        "records after a barrier are joined with those before it", InputGate, "_join", _past_barriers
    ),
    "joined-out-of-order": Mutant(
        "joining changes the order within a channel", Joining, "joined", _newest_first
    ),
    "joined-credit-lost": Mutant(
        "only the first of the joined messages returns its credit", InputGate, "_join", _credit_of_first_only
    ),
    "joined-lost": Mutant("of many joined batches some are lost", Joining, "add", _read_but_not_joined),
}
