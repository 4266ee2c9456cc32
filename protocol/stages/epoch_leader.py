"""Decides which records of a stage's subtasks form an epoch, when it runs, and from when its results leave.

Each epoch has a *share* in each subtask: its records there, and later a part of its results. A subtask ends
its share where it is when the leader asks for it. So no barrier or watermark has to come to end an epoch.

    ending ──all ended──> waiting ──run──> running ──> collecting ──all hold──> held ──all emitted──> (gone)

* The results of an epoch are spread over all subtasks. A checkpoint with the records of an epoch in one
  subtask and without results that another has emitted would emit them twice. So a subtask emits nothing of an
  epoch before all hold their parts, nor before it has passed the last barrier that any of them had passed
  when it got its part: each checkpoint after an
  emitted result contains those that were not emitted.
* A barrier of a checkpoint that has completed, or was given up, is not waited for. Not every subtask sees it.
* A watermark waits for all shares of the epochs before it, and is the lowest of those of all subtasks.

Source of the idea: Flink's operator coordinators, which receive events of subtasks and send events to them.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..elements import Watermark, WatermarkStatus
from ..ids import CheckpointId
from ..invalid_event import InvalidEvent
from ..share_limits import ShareLimits
from ..watermarks import MIN_WATERMARK_MS, WatermarkValve
from .epoch_messages import (
    EmitShare,
    EndShare,
    EpochDue,
    EpochRan,
    FromLeader,
    LimitShares,
    ResultsHeld,
    RunEpoch,
    RunnerReady,
    ShareEmitted,
    ShareEnded,
    ShareInputEnded,
    ShareOpened,
    ShareRuns,
    TakeResults,
    ToLeader,
)

NO_BARRIER = CheckpointId(0)

Sent = tuple[int, FromLeader]
"""A message, and the subtask that it goes to."""


class LeaderPhase(enum.Enum):
    """What an epoch is doing, seen from all subtasks."""

    ENDING = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()
    COLLECTING = enum.auto()
    HELD = enum.auto()


@dataclass(slots=True)
class _Epoch:
    number: int
    phase: LeaderPhase = LeaderPhase.ENDING
    records: int = 0
    reports: dict[int, ShareEnded] = field(default_factory=dict)
    controls: tuple[Watermark | WatermarkStatus, ...] = ()
    held: dict[int, CheckpointId] = field(default_factory=dict)
    barrier: CheckpointId = NO_BARRIER
    emitted: set[int] = field(default_factory=set)


class EpochLeader:
    """Leads the epochs of all subtasks of a stage, during one attempt.

    Args:
        subtasks: How many there are.
    """

    def __init__(self, subtasks: int) -> None:
        self._subtasks = subtasks
        self._max_running = 1
        self._limits = ShareLimits(subtasks, subtasks)
        self._runner: int | None = None
        self._requested: int | None = None
        self._epochs: deque[_Epoch] = deque()
        self._due: dict[int, bool] = {}
        self._inputs_ended: set[int] = set()
        self._is_last = False
        self._pending: set[CheckpointId] = set()
        self._valve = WatermarkValve(subtasks)
        self._reported_ms = [MIN_WATERMARK_MS] * subtasks

    @property
    def phases(self) -> dict[int, LeaderPhase]:
        """What each epoch is doing, by its number."""
        return {epoch.number: epoch.phase for epoch in self._epochs}

    def handle(self, subtask: int, message: ToLeader) -> list[Sent]:
        """Take a message of a subtask; what to send, in this order.

        Raises:
            InvalidEvent: The message cannot come now.
        """
        sent: list[Sent] = []
        match message:
            case ShareOpened():
                self._open(message)
            case RunnerReady():
                self._runner = subtask
            case EpochDue(number, has_records) if number > self._last_requested:
                self._due[number] = has_records or self._due.get(number, False)
            case ShareEnded():
                sent += self._share_ended(subtask, message)
            case EpochRan():
                sent += self._ran(message)
            case ResultsHeld():
                sent += self._held(subtask, message)
            case ShareEmitted(number):
                self._emitted(subtask, number)
            case ShareInputEnded():
                self._inputs_ended.add(subtask)
        return sent + self._advance()

    # ------------------------------------------------------------ checkpoints

    def checkpoint_triggered(self, checkpoint_id: CheckpointId) -> None:
        """The barriers of a checkpoint are about to be sent."""
        self._pending.add(checkpoint_id)

    def checkpoint_completed(self, checkpoint_id: CheckpointId) -> list[Sent]:
        """All subtasks have passed a barrier, so that it and those before it are waited for no longer."""
        self._pending = {each for each in self._pending if each > checkpoint_id}
        return self._lower_all()

    def checkpoint_aborted(self, checkpoint_id: CheckpointId) -> list[Sent]:
        """A checkpoint will not complete: its barriers, which may never come, are waited for no longer."""
        self._pending.discard(checkpoint_id)
        return self._lower_all()

    def _lower_all(self) -> list[Sent]:
        return [sent for epoch in self._epochs for sent in self._lower(epoch)]

    def _lower(self, epoch: _Epoch) -> list[Sent]:
        if epoch.phase is not LeaderPhase.HELD:
            return []
        before, epoch.barrier = epoch.barrier, self._awaited(epoch)
        return self._to_all(_emission(epoch)) if epoch.barrier != before else []

    def _awaited(self, epoch: _Epoch) -> CheckpointId:
        """The barrier that each subtask must have passed before it emits."""
        latest = max(epoch.held.values(), default=NO_BARRIER)
        return max((each for each in self._pending if each <= latest), default=NO_BARRIER)

    # ------------------------------------------------------------ what subtasks report

    def _open(self, message: ShareOpened) -> None:
        if self._requested is None:
            self._requested = message.first - 1
            self._max_running = message.max_running
            self._limits = ShareLimits(self._subtasks, message.max_records)

    def _share_ended(self, subtask: int, message: ShareEnded) -> list[Sent]:
        sent = self._request(message.number) if message.number > self._last_requested else []
        epoch = self._epoch(message.number)
        if subtask in epoch.reports:
            raise InvalidEvent(f"subtask {subtask} ends epoch {message.number} a second time")
        epoch.reports[subtask] = message
        epoch.records += message.records
        self._limits.share_ended(subtask, message.next_limit)
        if len(epoch.reports) == self._subtasks:
            epoch.phase, epoch.controls = LeaderPhase.WAITING, self._controls(epoch)
            limits = self._limits.epoch_ended([epoch.reports[each].records for each in range(self._subtasks)])
            sent += [(index, LimitShares(limit)) for index, limit in limits.items()]
        return sent

    def _controls(self, epoch: _Epoch) -> tuple[Watermark | WatermarkStatus, ...]:
        """What changes with an epoch. All subtasks have ended it: some have reported on later ones, too."""
        changes: list[Watermark | WatermarkStatus] = []
        # Those that are active first: the whole must not seem idle in between.
        for subtask, report in sorted(epoch.reports.items(), key=lambda item: (item[1].is_idle, item[0])):
            if report.watermark_ms > self._reported_ms[subtask]:
                self._reported_ms[subtask] = report.watermark_ms
                # A watermark that came between two times of idleness would not count.
                changes += self._valve.on_status(subtask, False)
                changes += self._valve.on_watermark(subtask, report.watermark_ms)
            changes += self._valve.on_status(subtask, report.is_idle)
        return tuple(changes)

    def _ran(self, message: EpochRan) -> list[Sent]:
        epoch = self._find(message.number)
        if epoch is None or epoch.phase is not LeaderPhase.RUNNING:
            # A run that was repeated: the first results count.
            return []
        epoch.phase = LeaderPhase.COLLECTING
        return [(index, TakeResults(epoch.number, part)) for index, part in enumerate(message.parts)]

    def _held(self, subtask: int, message: ResultsHeld) -> list[Sent]:
        epoch = self._find(message.number)
        if epoch is None or epoch.phase is not LeaderPhase.COLLECTING:
            raise InvalidEvent(f"subtask {subtask} holds results of epoch {message.number}, which has none")
        epoch.held[subtask] = message.last_barrier
        return self._may_leave(epoch) if self._all_hold(epoch) else []

    def _all_hold(self, epoch: _Epoch) -> bool:
        return len(epoch.held) == self._subtasks

    def _may_leave(self, epoch: _Epoch) -> list[Sent]:
        epoch.phase = LeaderPhase.HELD
        epoch.barrier = self._awaited(epoch)
        return self._to_all(_emission(epoch))

    def _emitted(self, subtask: int, number: int) -> None:
        epoch = self._find(number)
        if epoch is None:
            # Results of a checkpoint, which no run returned.
            return
        epoch.emitted.add(subtask)
        if len(epoch.emitted) == self._subtasks:
            self._epochs.remove(epoch)

    # ------------------------------------------------------------ what ends, and what runs

    def _advance(self) -> list[Sent]:
        if self._requested is None:
            return []
        sent = self._start()
        if self._has_ended() and not self._is_last:
            self._is_last = True
            return sent + self._request(self._requested + 1)
        if self._may_end_next():
            sent += self._request(self._requested + 1)
        return sent

    def _has_ended(self) -> bool:
        return len(self._inputs_ended) == self._subtasks

    def _start(self) -> list[Sent]:
        sent: list[Sent] = []
        for epoch in self._epochs:
            if epoch.phase is not LeaderPhase.WAITING:
                continue
            if not epoch.records:
                sent += self._may_leave(epoch)
            elif self._runner is not None and self._has_place():
                sent += self._run(epoch, self._runner)
            else:
                break
        return sent

    def _run(self, epoch: _Epoch, runner: int) -> list[Sent]:
        epoch.phase = LeaderPhase.RUNNING
        offers = tuple(epoch.reports[index].offer for index in range(self._subtasks))
        others = [index for index in range(self._subtasks) if index != runner]
        return [
            (runner, RunEpoch(epoch.number, offers)),
            *((index, ShareRuns(epoch.number)) for index in others),
        ]

    def _may_end_next(self) -> bool:
        """Whether the epoch that is gathered is due, and would not wait then."""
        number = self._last_requested + 1
        if number not in self._due or self._is_last:
            return False
        if any(epoch.phase in (LeaderPhase.ENDING, LeaderPhase.WAITING) for epoch in self._epochs):
            return False
        return not self._due[number] if self._runner is None else self._has_place()

    def _has_place(self) -> bool:
        # Results that wait for those of an earlier epoch use a place as well, or they would pile up.
        later = list(self._epochs)
        if later and later[0].phase is LeaderPhase.HELD:
            del later[0]
        free = (LeaderPhase.ENDING, LeaderPhase.WAITING)
        return sum(epoch.phase not in free and epoch.records > 0 for epoch in later) < self._max_running

    def _request(self, number: int) -> list[Sent]:
        for each in range(self._last_requested + 1, number + 1):
            self._epochs.append(_Epoch(each))
        self._requested = number
        self._due = {each: has_records for each, has_records in self._due.items() if each > number}
        return self._to_all(EndShare(number, self._is_last))

    @property
    def _last_requested(self) -> int:
        if self._requested is None:
            raise InvalidEvent("a subtask ends an epoch before it is open")
        return self._requested

    def _to_all(self, message: FromLeader) -> list[Sent]:
        return [(index, message) for index in range(self._subtasks)]

    def _find(self, number: int) -> _Epoch | None:
        return next((epoch for epoch in self._epochs if epoch.number == number), None)

    def _epoch(self, number: int) -> _Epoch:
        epoch = self._find(number)
        if epoch is None:
            raise InvalidEvent(f"epoch {number} has ended already")
        return epoch

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        numbers = [epoch.number for epoch in self._epochs]
        assert numbers == sorted(set(numbers)), "epochs are out of order"
        assert _count(self._epochs, LeaderPhase.RUNNING) <= self._max_running, "too many epochs run"
        for epoch in self._epochs:
            if epoch.phase is LeaderPhase.HELD and epoch.records:
                assert len(epoch.held) == self._subtasks, "an epoch leaves before all hold its results"


def _emission(epoch: _Epoch) -> EmitShare:
    return EmitShare(epoch.number, epoch.controls, epoch.barrier)


def _count(epochs: Iterable[_Epoch], phase: LeaderPhase) -> int:
    return sum(epoch.phase is phase for epoch in epochs)
