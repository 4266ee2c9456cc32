"""What the subtasks of a stage report about their epochs.

A report is about the subtask's shares. Records and bytes of all subtasks add up to those of the stage. Epochs
do not, since each subtask has a share of each epoch: `whole_stage` counts them once.
"""

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
    """The epochs of one subtask of a stage, or of the whole stage, at one moment.

    Counts and times grow from 0 in every attempt.

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
        runs: How long the epochs ran; `None` in a subtask that runs none. One subtask runs those of all.
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
    runs: RunTotals | None = RunTotals()
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


def whole_stage(reports: Sequence[StageReport]) -> StageReport:
    """The epochs of a whole stage, each counted once.

    An epoch is in the phase of its least advanced share. A share that a subtask has emitted does not count.

    Args:
        reports: Of all subtasks of one stage; at least one.
    """
    if len(reports) == 1:
        return reports[0]
    listed = _merged(reports)
    phases = {phase: totals_of(listed, phase) for phase in EpochPhase}
    for phase, further in _further(reports, listed).items():
        phases[phase] = _joined(phases[phase], further)
    ran = [report.runs for report in reports if report.runs is not None]
    return StageReport(
        reports[0].operator_uid,
        reports[0].operator_name,
        **{phase.name.lower(): totals for phase, totals in phases.items()},
        epochs=listed,
        buffered_bytes=sum(report.buffered_bytes for report in reports),
        buffer_limit_bytes=sum(report.buffer_limit_bytes for report in reports),
        records_in=sum(report.records_in for report in reports),
        records_out=sum(report.records_out for report in reports),
        runs=ran[0] if ran else None,
        web_ui=next((report.web_ui for report in reports if report.web_ui), ""),
    )


def _merged(reports: Sequence[StageReport]) -> tuple[EpochInFlight, ...]:
    """The oldest epochs, as far as all reports list them."""
    cut = [report.epochs[-1].number for report in reports if len(report.epochs) == MOST_EPOCHS]
    shares: dict[int, list[EpochInFlight]] = {}
    for report in reports:
        for share in report.epochs:
            if not cut or share.number <= min(cut):
                shares.setdefault(share.number, []).append(share)
    return tuple(
        EpochInFlight(
            number,
            min((share.phase for share in found), key=lambda phase: phase.value),
            sum(share.records for share in found),
            sum(share.size_bytes for share in found),
        )
        for number, found in sorted(shares.items())
    )


def _further(
    reports: Sequence[StageReport], listed: Sequence[EpochInFlight]
) -> dict[EpochPhase, PhaseTotals]:
    """The epochs after those that are listed. No run has reached them: they wait, and one may gather."""
    last_listed = listed[-1].number if listed else 0
    last = max((_last_number(report) for report in reports), default=0)
    if last <= last_listed:
        return {}
    gathering = [each.gathering for each in reports if each.gathering.first == last]
    waiting = last - last_listed - bool(gathering)
    records = sum(sum(each.records for each in _phases(report)) for report in reports)
    size_bytes = sum(sum(each.size_bytes for each in _phases(report)) for report in reports)
    found = PhaseTotals(
        int(bool(gathering)),
        sum(each.records for each in gathering),
        sum(each.size_bytes for each in gathering),
        last if gathering else 0,
    )
    records -= found.records + sum(each.records for each in listed)
    size_bytes -= found.size_bytes + sum(each.size_bytes for each in listed)
    waits = PhaseTotals(waiting, records, size_bytes, last_listed + 1) if waiting else PhaseTotals()
    return {EpochPhase.GATHERING: found, EpochPhase.WAITING: waits}


def _phases(report: StageReport) -> list[PhaseTotals]:
    return [report.gathering, report.waiting, report.running, report.finished, report.emitting]


def _last_number(report: StageReport) -> int:
    """The number of the last epoch in flight: they follow each other."""
    count = sum(phase.epochs for phase in _phases(report))
    return report.epochs[0].number + count - 1 if report.epochs else 0


def _joined(first: PhaseTotals, second: PhaseTotals) -> PhaseTotals:
    """Epochs of one phase and later ones."""
    return PhaseTotals(
        first.epochs + second.epochs,
        first.records + second.records,
        first.size_bytes + second.size_bytes,
        first.first or second.first,
    )
