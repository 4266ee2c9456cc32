"""What a subtask of a stage reports about its epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .epochs import EpochPhase

MOST_EPOCHS = 20
"""A report lists the oldest epochs one by one, up to this number."""


@dataclass(frozen=True, slots=True)
class EpochInFlight:
    """A subtask's share of an epoch whose results have not all been emitted.

    Attributes:
        number: Of the epoch.
        size_bytes: Of its records; 0 once the first result was emitted.
    """

    number: int
    phase: EpochPhase
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """All epochs that are in one phase, together.

    Attributes:
        epochs: How many there are.
        size_bytes: Of their records.
        first: Number of the oldest; 0 where there is none.
    """

    epochs: int = 0
    records: int = 0
    size_bytes: int = 0
    first: int = 0


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The runs of a subtask's epochs in this attempt.

    Attributes:
        epochs: How many runs have ended.
        last_ms: How long the last one took, from its start to its results, in milliseconds; `None` before it.
        total_ms: How long all of them took together, in milliseconds.
    """

    epochs: int = 0
    last_ms: int | None = None
    total_ms: int = 0

    def after(self, run_ms: int) -> RunTotals:
        """With one more run of this duration in milliseconds."""
        return RunTotals(self.epochs + 1, run_ms, self.total_ms + run_ms)


@dataclass(frozen=True, slots=True)
class StageReport:
    """The epochs of one subtask of a stage at one moment. Counts and times grow from 0 in every attempt.

    Attributes:
        gathering: The epoch that takes the next records.
        waiting: Epochs that take no more records and do not run yet.
        finished: Epochs whose results wait for those of an earlier epoch.
        emitting: The epoch whose results are being emitted.
        epochs: The oldest of all these, one by one, at most `MOST_EPOCHS`.
        buffered_bytes: Size of all records without results.
        buffer_limit_bytes: With this number of bytes the stage takes no more records.
        records_in: Records that were gathered.
        records_out: Results that were emitted.
        runs: How long the epochs ran.
        web_ui: Address of the web UI of what runs them, empty where there is none.
    """

    operator_uid: str
    operator_name: str
    gathering: PhaseTotals = PhaseTotals()
    waiting: PhaseTotals = PhaseTotals()
    running: PhaseTotals = PhaseTotals()
    finished: PhaseTotals = PhaseTotals()
    emitting: PhaseTotals = PhaseTotals()
    epochs: tuple[EpochInFlight, ...] = ()
    buffered_bytes: int = 0
    buffer_limit_bytes: int = 0
    records_in: int = 0
    records_out: int = 0
    runs: RunTotals = RunTotals()
    web_ui: str = ""


def totals_of(epochs: Sequence[EpochInFlight], phase: EpochPhase) -> PhaseTotals:
    """The epochs in one phase, together.

    Args:
        epochs: All epochs, oldest first.
    """
    found = [each for each in epochs if each.phase is phase]
    if not found:
        return PhaseTotals()
    records, size_bytes = sum(each.records for each in found), sum(each.size_bytes for each in found)
    return PhaseTotals(len(found), records, size_bytes, found[0].number)
