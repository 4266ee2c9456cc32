"""The epochs of one subtask of a stage: gathers, holds and emits the subtask's share of each of them.

    gathering ──end──> waiting ──run──> running ──results──> finished ──emit──> emitting ──> (gone)

* An `EpochLeader` says when an epoch ends, runs, and may leave. A subtask ends an epoch by itself when its
  share is full. It always gathers the epoch after the last one that it ended.
* Up to the moment when a subtask emits its first result of an epoch, a checkpoint contains its records, and
  its results as soon as it holds them; from then on only the results that have not been emitted.
* Epochs leave each subtask in order. So the number of the last one that began to leave is all that a restore
  has to know: if any subtask began to emit an epoch, all hold their results of it, and these leave; all later
  epochs run again. Their results may be others then, and no checkpoint has seen the first ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ..elements import Watermark, WatermarkStatus
from ..ids import CheckpointId
from ..invalid_event import InvalidEvent
from ..share_limits import first_limit
from ..watermarks import MIN_WATERMARK_MS
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
)
from .epochs import (
    BarrierPassed,
    BarrierReceived,
    CollectResults,
    ControlReceived,
    EmitEpoch,
    EpochLimits,
    EpochPhase,
    ForwardControl,
    InputEnded,
    RecordsGathered,
    ResultsArrived,
    ResultsEmitted,
    RunnerStarted,
    RunReturned,
    SendToLeader,
    ShareCommand,
    ShareEvent,
    SpillRecords,
    StageRestored,
    StartRun,
    StoreShares,
    TimePassed,
    WakeAt,
)
from .stage_reports import EpochInFlight

# ---------------------------------------------------------------- the machine


@dataclass(slots=True)
class _Share:
    number: int
    phase: EpochPhase = EpochPhase.GATHERING
    due_ms: int | None = None
    is_announced: bool = False
    records: int = 0
    size_bytes: int = 0
    memory_bytes: int = 0
    is_run_here: bool = False
    emission: EmitShare | None = None

    @property
    def is_movable(self) -> bool:
        """Whether records are in memory, and may move: to executors they are served from where they are."""
        is_gone = self.phase in (EpochPhase.FINISHED, EpochPhase.EMITTING)
        return self.memory_bytes > 0 and not self.is_run_here and not is_gone


_SPILLED_PART = 4
"""This fraction of the memory, or more, is spilled at once, so that files on local disk are not tiny."""


class ShareMachine:
    """The shares of one subtask. The last of them gathers records.

    Args:
        limits: What bounds the epochs. Each subtask has a part of `max_records`, and all of the bytes.
        subtasks: How many subtasks the stage has.
    """

    def __init__(self, limits: EpochLimits, subtasks: int = 1) -> None:
        self._limits = limits
        self._subtasks = subtasks
        self._most_records = first_limit(subtasks, limits.max_records)
        self._shares: deque[_Share] = deque()
        self._began = 0
        self._last_barrier = CheckpointId(0)
        self._watermark_ms = MIN_WATERMARK_MS
        self._is_idle = False
        self._forwarded_ms = MIN_WATERMARK_MS
        self._has_forwarded_idle = False
        self._has_ended = False
        self._is_last_ended = False

    @property
    def gathering(self) -> int:
        """Number of the epoch that takes the next records."""
        return self._shares[-1].number

    @property
    def is_drained(self) -> bool:
        """Whether the input of all subtasks has ended, and this one has emitted its part of all results."""
        return self._is_last_ended and len(self._shares) == 1

    @property
    def is_full(self) -> bool:
        """Whether the stage takes no more records for now.

        It does while it waits for a barrier, which comes after records.
        """
        return self.buffered_bytes >= self._limits.buffer_bytes and not self._awaits_barrier

    @property
    def buffered_bytes(self) -> int:
        """Size of all records of epochs that have not begun to leave."""
        return sum(share.size_bytes for share in self._shares)

    @property
    def phases(self) -> dict[int, EpochPhase]:
        """What each share is doing, by the number of its epoch; without an empty one that gathers."""
        return {each.number: each.phase for each in self.in_flight}

    @property
    def in_flight(self) -> list[EpochInFlight]:
        """All shares, oldest first, without an empty one that gathers. May be called by another thread."""
        return [
            EpochInFlight(share.number, share.phase, share.records, share.size_bytes)
            for share in [*self._shares]
            if share.records or share.phase is not EpochPhase.GATHERING
        ]

    @property
    def _awaits_barrier(self) -> bool:
        emission = self._shares[0].emission
        return emission is not None and emission.barrier > self._last_barrier

    def handle(self, event: ShareEvent, now_ms: int) -> list[ShareCommand]:
        """Take an event; what is to be done, in this order and before the next event.

        Raises:
            InvalidEvent: The event cannot happen now.
        """
        match event:
            case StageRestored():
                commands = self._restore(event, now_ms)
            case RecordsGathered():
                commands = self._gather(event, now_ms)
            case ControlReceived(element):
                commands = self._control(element, now_ms)
            case BarrierReceived():
                return [self._stored()]
            case BarrierPassed(checkpoint_id):
                self._last_barrier = checkpoint_id
                commands = self._emit()
            case RunnerStarted():
                commands = [SendToLeader(RunnerReady())]
            case RunReturned(number, parts):
                commands = [SendToLeader(EpochRan(number, parts))]
            case ResultsArrived(number):
                commands = self._hold(number)
            case ResultsEmitted(number):
                commands = self._emitted(number)
            case InputEnded():
                self._has_ended = True
                commands = [SendToLeader(ShareInputEnded())]
            case TimePassed():
                commands = []
            case _:
                commands = self._led(event)
        return commands + self._announce(now_ms)

    def _led(self, message: FromLeader) -> list[ShareCommand]:
        match message:
            case EndShare(number, is_last):
                commands: list[ShareCommand] = []
                while self.gathering <= number:
                    commands += self._end()
                self._is_last_ended = self._is_last_ended or is_last
                return commands
            case LimitShares(records):
                self._most_records = records
                return []
            case RunEpoch(number, offers):
                self._share(number).is_run_here = True
                self._share(number).phase = EpochPhase.RUNNING
                return [StartRun(number, offers)]
            case ShareRuns(number):
                self._share(number).phase = EpochPhase.RUNNING
                return []
            case TakeResults(number, part):
                return [CollectResults(number, part)]
            case EmitShare(number):
                share = self._find(number)
                if share is None or share.phase is EpochPhase.EMITTING:
                    # A lower barrier than that of the first message, which has passed.
                    return []
                share.emission = message
                return self._emit()

    # ------------------------------------------------------------ what comes in

    def _restore(self, event: StageRestored, now_ms: int) -> list[ShareCommand]:
        if self._shares:
            raise InvalidEvent("the stage is restored a second time")
        self._began = event.began
        commands: list[ShareCommand] = []
        opened = ShareOpened(event.began + 1, self._limits.max_running, self._limits.max_records)
        commands.append(SendToLeader(opened))
        if event.has_results:
            self._shares.append(_Share(event.began, EpochPhase.EMITTING))
            commands.append(EmitEpoch(event.began))
        restored = {share.number: share for share in event.shares}
        for number in range(event.began + 1, max(event.gathering, event.began + 1) + 1):
            if number > event.began + 1:
                commands += self._end()
            else:
                self._shares.append(_Share(number))
            share = restored.get(number)
            if share is not None:
                commands += self._wake(now_ms)
                last = self._shares[-1]
                last.records, last.size_bytes = share.records, share.size_bytes
                last.memory_bytes = share.size_bytes
        return commands + self._spill()

    def _gather(self, event: RecordsGathered, now_ms: int) -> list[ShareCommand]:
        if self._has_ended:
            raise InvalidEvent("records follow the end of input")
        if not event.records:
            return []
        share = self._shares[-1]
        is_first = not share.records
        commands = self._wake(now_ms + self._limits.interval_ms) if is_first else []
        share.records += event.records
        share.size_bytes += event.size_bytes
        share.memory_bytes += event.size_bytes
        commands += self._spill()
        if share.records >= self._most_records:
            commands += self._end()
        return commands

    def _control(self, element: Watermark | WatermarkStatus, now_ms: int) -> list[ShareCommand]:
        if isinstance(element, Watermark):
            self._watermark_ms = element.timestamp_ms
        else:
            self._is_idle = element.is_idle
        if self._subtasks == 1:
            return self._pass_controls()
        return self._wake(now_ms + self._limits.interval_ms) if self._shares[-1].due_ms is None else []

    def _pass_controls(self) -> list[ShareCommand]:
        """A watermark of the only subtask has nothing to wait for if no records came before it."""
        if len(self._shares) > 1 or self._shares[0].records:
            return []
        status, watermark = WatermarkStatus(self._is_idle), Watermark(self._watermark_ms)
        return self._forward((watermark, status) if self._is_idle else (status, watermark))

    def _forward(self, controls: Sequence[Watermark | WatermarkStatus]) -> list[ShareCommand]:
        commands: list[ShareCommand] = []
        for control in controls:
            if isinstance(control, Watermark):
                is_new = control.timestamp_ms > self._forwarded_ms
                self._forwarded_ms = max(self._forwarded_ms, control.timestamp_ms)
            else:
                is_new = control.is_idle != self._has_forwarded_idle
                self._has_forwarded_idle = control.is_idle
            if is_new:
                commands.append(ForwardControl(control))
        return commands

    def _wake(self, due_ms: int) -> list[ShareCommand]:
        self._shares[-1].due_ms = due_ms
        return [WakeAt(due_ms)]

    def _spill(self) -> list[ShareCommand]:
        """Keep memory within its limit and a quarter of it; newest records first, which run last."""
        limit = self._limits.memory_bytes
        excess = sum(share.memory_bytes for share in self._shares) - limit
        movable = [share for share in reversed(self._shares) if share.is_movable]
        least = limit // (_SPILLED_PART * self._limits.max_running)
        if excess <= 0 or sum(share.memory_bytes for share in movable) < least:
            return []
        commands: list[ShareCommand] = []
        for share in movable:
            if excess > 0 or least > 0:
                commands.append(SpillRecords(share.number))
                excess, least = excess - share.memory_bytes, least - share.memory_bytes
                share.memory_bytes = 0
        return commands

    # ------------------------------------------------------------ what ends, and what leaves

    def _announce(self, now_ms: int) -> list[ShareCommand]:
        share = self._shares[-1]
        if share.due_ms is None or share.is_announced:
            return []
        if now_ms < share.due_ms and not (self.is_full and share.records):
            return []
        share.is_announced = True
        return [SendToLeader(EpochDue(share.number, share.records > 0))]

    def _end(self) -> list[ShareCommand]:
        share = self._shares[-1]
        share.phase = EpochPhase.WAITING
        self._shares.append(_Share(share.number + 1))
        ended = ShareEnded(share.number, share.records, self._watermark_ms, self._is_idle, self._most_records)
        return [SendToLeader(ended)]

    def _hold(self, number: int) -> list[ShareCommand]:
        share = self._share(number)
        if share.phase not in (EpochPhase.WAITING, EpochPhase.RUNNING):
            raise InvalidEvent(f"results of epoch {number} arrive, which is {share.phase.name}")
        share.phase, share.memory_bytes = EpochPhase.FINISHED, 0
        return [SendToLeader(ResultsHeld(number, self._last_barrier))]

    def _emit(self) -> list[ShareCommand]:
        commands: list[ShareCommand] = []
        while (emission := self._shares[0].emission) is not None and not self._awaits_barrier:
            share = self._shares[0]
            if share.phase is EpochPhase.EMITTING:
                break
            self._began = share.number
            if share.phase is EpochPhase.FINISHED:
                share.phase, share.size_bytes = EpochPhase.EMITTING, 0
                commands.append(EmitEpoch(share.number))
                break
            # No subtask had a record.
            self._shares.popleft()
            commands += [*self._forward(emission.controls), SendToLeader(ShareEmitted(share.number))]
        return commands

    def _emitted(self, number: int) -> list[ShareCommand]:
        share = self._shares[0]
        if share.phase is not EpochPhase.EMITTING or share.number != number:
            raise InvalidEvent(f"epoch {number} has been emitted, but its results were not to be")
        self._shares.popleft()
        controls = share.emission.controls if share.emission is not None else ()
        commands = [*self._forward(controls), SendToLeader(ShareEmitted(number)), *self._emit()]
        return commands + self._pass_controls() if self._subtasks == 1 else commands

    def _stored(self) -> StoreShares:
        """Results that the only subtask holds are in no checkpoint: no other one can begin to emit them."""
        in_phase = {share.number: share.phase for share in self._shares}
        emitting = [number for number, phase in in_phase.items() if phase is EpochPhase.EMITTING]
        held = [number for number, phase in in_phase.items() if phase is EpochPhase.FINISHED]
        numbers = tuple(s.number for s in self._shares if s.records and s.phase is not EpochPhase.EMITTING)
        return StoreShares(
            self._began,
            self.gathering,
            numbers,
            tuple(held) if self._subtasks > 1 else (),
            emitting[0] if emitting else None,
        )

    def _share(self, number: int) -> _Share:
        share = self._find(number)
        if share is None:
            raise InvalidEvent(f"epoch {number} has left")
        return share

    def _find(self, number: int) -> _Share | None:
        return next((share for share in self._shares if share.number == number), None)

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        numbers = [share.number for share in self._shares]
        assert numbers == sorted(set(numbers)), "epochs are out of order"
        phases = [share.phase for share in self._shares]
        assert phases.count(EpochPhase.GATHERING) == 1, "not one epoch gathers"
        assert phases[-1] is EpochPhase.GATHERING, "an epoch gathers and is not the last"
        assert EpochPhase.EMITTING not in phases[1:], "an epoch is emitted before an earlier one"
        for share in self._shares:
            assert share.number > self._began or share.phase is EpochPhase.EMITTING, "an epoch began twice"
