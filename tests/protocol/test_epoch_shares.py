"""The epochs of a stage with several subtasks: all agree on them, and each result leaves once."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from tidegate.protocol.elements import MAX_WATERMARK_MS, Watermark, WatermarkStatus
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.invalid_event import InvalidEvent
from tidegate.protocol.stages.epoch_leader import NO_BARRIER, EpochLeader
from tidegate.protocol.stages.epoch_messages import (
    EmitShare,
    EndShare,
    EpochDue,
    EpochRan,
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
from tidegate.protocol.stages.epoch_shares import ShareMachine
from tidegate.protocol.stages.epochs import (
    BarrierPassed,
    BarrierReceived,
    ControlReceived,
    EmitEpoch,
    EpochLimits,
    EpochPhase,
    ForwardControl,
    InputEnded,
    RecordsGathered,
    RestoredShare,
    ResultsArrived,
    ResultsEmitted,
    SendToLeader,
    SpillRecords,
    StageRestored,
    StoreShares,
    TimePassed,
    WakeAt,
)
from tidegate.protocol.watermarks import MIN_WATERMARK_MS as MIN_MS

from ..simulation.mutants.base import Mutant
from .share_world import Subtask, World

SEEDS = 300


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, 100))
def test_each_result_leaves_once_whatever_fails_between_two_events(first: int) -> None:
    for seed in range(first, first + 100):
        assert World(seed).run() == [], f"seed {seed}"


def test_the_simulation_fails_restores_and_waits_for_barriers() -> None:
    worlds = [World(seed) for seed in range(50)]
    for world in worlds:
        world.run()
    assert sum(world.failures for world in worlds) > 50
    assert sum(world.restored for world in worlds) > 50
    assert sum(world.restored_results for world in worlds) > 10
    assert sum(world.waits for world in worlds) > 100


# ---------------------------------------------------------------- planted bugs


def _one_is_enough(original: Any) -> Any:
    return lambda self, epoch: True


def _no_barrier(original: Any) -> Any:
    return lambda self, epoch: NO_BARRIER


def _first_input(original: Any) -> Any:
    return lambda self: bool(self._inputs_ended)


def _newest_reports(original: Any) -> Any:
    def controls(self: EpochLeader, epoch: Any) -> Any:
        for later in self._epochs:
            if later.number > epoch.number:
                epoch.reports |= later.reports
        return original(self, epoch)

    return controls


def _not_heard(original: Any) -> Any:
    return lambda self, checkpoint_id: []


def _epoch_before(original: Any) -> Any:
    def gathering(self: ShareMachine) -> int:
        waiting = [number for number, phase in self.phases.items() if phase is EpochPhase.WAITING]
        return waiting[-1] if waiting else self._shares[-1].number

    return property(gathering)


def _own_watermark(original: Any) -> Any:
    def forward(self: ShareMachine, controls: Any) -> Any:
        return original(self, (Watermark(self._watermark_ms),))

    return forward


def _without_phase(phase: EpochPhase) -> Any:
    def make(original: Any) -> Any:
        def stored(self: ShareMachine) -> StoreShares:
            command = original(self)
            kept = tuple(number for number in command.numbers if self.phases[number] is not phase)
            return replace(command, numbers=kept)

        return stored

    return make


def _held_not_stored(original: Any) -> Any:
    return lambda self: replace(original(self), held=())


def _as_they_come(original: Any) -> Any:
    def emit(self: ShareMachine) -> Any:
        for share in list(self._shares):
            is_emitting = self._shares[0].phase is EpochPhase.EMITTING
            if share.emission is not None and share.phase is EpochPhase.FINISHED and not is_emitting:
                self._shares.remove(share)
                self._shares.appendleft(share)
        return original(self)

    return emit


def _full_is_full(original: Any) -> Any:
    return property(lambda self: self.buffered_bytes >= self._limits.buffer_bytes)


def _own_begun(original: Any) -> Any:
    return lambda self, states: min((state.began for state in states), default=0)


def _results_dropped(original: Any) -> Any:
    def restore(self: World, task: Subtask, began: int, gathering: int, records: Any, results: Any) -> None:
        original(self, task, began, gathering, records, [])

    return restore


def _never_spilled(original: Any) -> Any:
    return lambda self: []


MUTANTS = {
    "memory-unbounded": Mutant("nothing goes to local disk", ShareMachine, "_spill", _never_spilled),
    "disagree": Mutant(
        "a subtask adds records to an epoch that has ended", ShareMachine, "gathering", _epoch_before
    ),
    "orphan": Mutant("an epoch leaves before all hold its results", EpochLeader, "_all_hold", _one_is_enough),
    "no-barrier": Mutant("an epoch leaves before a barrier", EpochLeader, "_awaited", _no_barrier),
    "results-dropped": Mutant("a restore drops results", World, "restore_task", _results_dropped),
    "results-not-stored": Mutant(
        "a checkpoint contains no held results", ShareMachine, "_stored", _held_not_stored
    ),
    "own-watermark": Mutant("a subtask forwards its own", ShareMachine, "_forward", _own_watermark),
    "newest-watermark": Mutant("a later watermark counts", EpochLeader, "_controls", _newest_reports),
    "lost-waiting": Mutant(
        "a checkpoint lacks ended epochs", ShareMachine, "_stored", _without_phase(EpochPhase.WAITING)
    ),
    "lost-gathering": Mutant(
        "a checkpoint lacks gathered records", ShareMachine, "_stored", _without_phase(EpochPhase.GATHERING)
    ),
    "re-run": Mutant("an epoch runs again after it began to leave", World, "last_begun", _own_begun),
    "out-of-order": Mutant("epochs leave as they come", ShareMachine, "_emit", _as_they_come),
    "early-end": Mutant("the first end of input ends all", EpochLeader, "_has_ended", _first_input),
    "full-at-barrier": Mutant(
        "a full subtask does not read up to the barrier", ShareMachine, "is_full", _full_is_full
    ),
    "aborted-barrier": Mutant(
        "a barrier that never comes is waited for", EpochLeader, "checkpoint_aborted", _not_heard
    ),
}
KNOWN_SEEDS = {
    "memory-unbounded": 1,
    "disagree": 0,
    "orphan": 0,
    "no-barrier": 3,
    "results-dropped": 2,
    "results-not-stored": 35,
    "own-watermark": 0,
    "newest-watermark": 18,
    "lost-waiting": 1,
    "lost-gathering": 0,
    "re-run": 35,
    "out-of-order": 3,
    "early-end": 0,
    "full-at-barrier": 3,
    "aborted-barrier": 43,
}
"""The first seed that finds each bug."""


def first_finding(name: str, seeds: int = 300) -> int | None:
    """The first seed that finds a planted bug."""
    with contextlib.ExitStack() as planted:
        planted.enter_context(MUTANTS[name].planted())
        return next((seed for seed in range(seeds) if _finds(seed)), None)


def _finds(seed: int) -> bool:
    try:
        return bool(World(seed).run())
    except InvalidEvent:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert first_finding(name) == KNOWN_SEEDS[name]


# ---------------------------------------------------------------- one rule each


def led(subtasks: int = 2, max_running: int = 1) -> EpochLeader:
    leader = EpochLeader(subtasks)
    for subtask in range(subtasks):
        leader.handle(subtask, ShareOpened(1, max_running, 100))
    leader.handle(0, RunnerReady())
    return leader


def share_ended(number: int, records: int = 1, watermark_ms: int = 0, is_idle: bool = False) -> ShareEnded:
    return ShareEnded(number, records, watermark_ms, is_idle, 50)


def run_to_results(leader: EpochLeader, number: int) -> None:
    for subtask in range(2):
        leader.handle(subtask, share_ended(number))
    leader.handle(0, EpochRan(number, ("a", "b")))


def test_an_epoch_that_is_due_ends_in_all_subtasks_and_runs_once() -> None:
    leader = led()
    assert leader.handle(1, EpochDue(1, True)) == [(0, EndShare(1)), (1, EndShare(1))]
    assert leader.handle(0, EpochDue(1, True)) == []
    assert leader.handle(0, share_ended(1)) == []
    started = leader.handle(1, share_ended(1, records=0))
    assert started == [(0, RunEpoch(1, (None, None))), (1, ShareRuns(1))]
    taken = leader.handle(0, EpochRan(1, ("a", "b")))
    assert taken == [(0, TakeResults(1, "a")), (1, TakeResults(1, "b"))]
    assert leader.handle(0, EpochRan(1, ("c", "d"))) == []
    with pytest.raises(InvalidEvent):
        leader.handle(0, ResultsHeld(2, NO_BARRIER))


def test_a_share_that_is_full_ends_in_its_subtask_first() -> None:
    leader = led()
    assert leader.handle(1, share_ended(1)) == [(0, EndShare(1)), (1, EndShare(1))]
    assert leader.handle(1, share_ended(2)) == [(0, EndShare(2)), (1, EndShare(2))]
    with pytest.raises(InvalidEvent):
        leader.handle(1, share_ended(2))


def test_due_epochs_grow_while_a_run_has_no_place() -> None:
    leader = EpochLeader(2)
    for subtask in range(2):
        leader.handle(subtask, ShareOpened(1, 1, 100))
    assert leader.handle(0, EpochDue(1, True)) == []
    assert leader.handle(0, RunnerReady()) == [(0, EndShare(1)), (1, EndShare(1))]
    leader.handle(0, share_ended(1))
    leader.handle(1, share_ended(1))
    assert leader.handle(1, EpochDue(2, True)) == []
    leader.handle(0, EpochRan(1, ("a", "b")))
    leader.handle(0, ResultsHeld(1, NO_BARRIER))
    sent = leader.handle(1, ResultsHeld(1, NO_BARRIER))
    assert {(0, EndShare(2)), (1, EndShare(2))} <= set(sent)


def test_an_epoch_leaves_after_the_last_barrier_before_the_results_came() -> None:
    leader = led()
    for checkpoint_id in (5, 6, 7):
        leader.checkpoint_triggered(CheckpointId(checkpoint_id))
    run_to_results(leader, 1)
    assert leader.handle(0, ResultsHeld(1, CheckpointId(5))) == []
    sent = leader.handle(1, ResultsHeld(1, CheckpointId(6)))
    assert [message.barrier for _, message in sent if isinstance(message, EmitShare)] == [6, 6]
    sent = leader.checkpoint_aborted(CheckpointId(6))
    assert [message.barrier for _, message in sent if isinstance(message, EmitShare)] == [5, 5]
    assert leader.checkpoint_aborted(CheckpointId(7)) == []
    sent = leader.checkpoint_completed(CheckpointId(5))
    assert [message.barrier for _, message in sent if isinstance(message, EmitShare)] == [0, 0]


def test_a_watermark_is_the_lowest_of_all_subtasks_without_idle_ones() -> None:
    leader = led()
    leader.handle(0, share_ended(1, 0, watermark_ms=7))
    sent = leader.handle(1, share_ended(1, 0, watermark_ms=3))
    assert sent == [(index, EmitShare(1, (Watermark(3),), NO_BARRIER)) for index in range(2)]
    leader.handle(0, share_ended(2, 0, watermark_ms=9))
    sent = leader.handle(1, share_ended(2, 0, watermark_ms=3, is_idle=True))
    assert sent[0] == (0, EmitShare(2, (Watermark(9),), NO_BARRIER))
    leader.handle(0, share_ended(3, 0, watermark_ms=9, is_idle=True))
    sent = leader.handle(1, share_ended(3, 0, watermark_ms=3, is_idle=True))
    assert sent[0] == (0, EmitShare(3, (WatermarkStatus(True),), NO_BARRIER))


def test_all_inputs_end_before_the_last_epoch_does() -> None:
    leader = led()
    assert leader.handle(0, ShareInputEnded()) == []
    assert leader.handle(1, ShareInputEnded()) == [(0, EndShare(1, True)), (1, EndShare(1, True))]


def opened(subtasks: int = 2, **limits: Any) -> ShareMachine:
    machine = ShareMachine(EpochLimits(**{"max_records": 100, "interval_ms": 10, **limits}), subtasks)
    machine.handle(StageRestored(), 0)
    return machine


def test_a_share_is_due_after_its_interval_and_ends_when_it_is_asked_to() -> None:
    machine = opened()
    assert machine.handle(RecordsGathered(1, 10), 0) == [WakeAt(10)]
    assert machine.handle(TimePassed(), 10) == [SendToLeader(EpochDue(1, True))]
    machine.handle(ControlReceived(Watermark(4)), 11)
    assert machine.handle(EndShare(1), 11) == [SendToLeader(ShareEnded(1, 1, 4, False, 50))]
    assert machine.handle(EndShare(1), 11) == []
    assert machine.gathering == 2


def test_a_watermark_without_records_is_due_as_well() -> None:
    machine = opened()
    assert machine.handle(ControlReceived(Watermark(4)), 0) == [WakeAt(10)]
    assert machine.handle(TimePassed(), 10) == [SendToLeader(EpochDue(1, False))]
    machine.handle(EndShare(1), 10)
    assert machine.handle(EmitShare(1, (Watermark(3),), NO_BARRIER), 10) == [
        ForwardControl(Watermark(3)),
        SendToLeader(ShareEmitted(1)),
    ]


def test_the_only_subtask_forwards_a_watermark_that_waits_for_nothing_at_once() -> None:
    machine = opened(subtasks=1)
    assert machine.handle(ControlReceived(Watermark(4)), 0) == [ForwardControl(Watermark(4))]
    machine.handle(RecordsGathered(1, 10), 0)
    assert machine.handle(ControlReceived(Watermark(5)), 0) == []


def test_results_are_stored_when_they_are_held_and_leave_after_the_barrier() -> None:
    machine = opened()
    machine.handle(RecordsGathered(1, 10), 0)
    machine.handle(EndShare(1), 0)
    assert machine.handle(BarrierReceived(CheckpointId(1)), 0) == [StoreShares(0, 2, (1,))]
    machine.handle(BarrierPassed(CheckpointId(1)), 0)
    assert machine.handle(ResultsArrived(1), 0) == [SendToLeader(ResultsHeld(1, CheckpointId(1)))]
    assert machine.handle(EmitShare(1, (), CheckpointId(2)), 0) == []
    assert machine.handle(BarrierReceived(CheckpointId(2)), 0) == [StoreShares(0, 2, (1,), held=(1,))]
    assert machine.handle(BarrierPassed(CheckpointId(2)), 0) == [EmitEpoch(1)]
    assert machine.handle(BarrierReceived(CheckpointId(3)), 0) == [StoreShares(1, 2, (), emitting=1)]
    assert machine.handle(ResultsEmitted(1), 0) == [SendToLeader(ShareEmitted(1))]
    with pytest.raises(InvalidEvent):
        machine.handle(ResultsEmitted(1), 0)


def test_a_restore_emits_what_began_to_leave_and_gathers_the_others_again() -> None:
    machine = ShareMachine(EpochLimits(100, 10), 2)
    shares = [RestoredShare(6, 3, 30)]
    assert machine.handle(StageRestored(4, 7, True, shares), 5) == [
        SendToLeader(ShareOpened(5, 1, 100)),
        EmitEpoch(4),
        SendToLeader(ShareEnded(5, 0, MIN_MS, False, 50)),
        WakeAt(5),
        SendToLeader(ShareEnded(6, 3, MIN_MS, False, 50)),
    ]
    assert machine.gathering == 7
    with pytest.raises(InvalidEvent):
        machine.handle(StageRestored(), 5)


def test_a_full_share_is_due_and_takes_input_only_to_reach_a_barrier() -> None:
    machine = opened(buffer_bytes=100)
    assert machine.handle(RecordsGathered(1, 100), 0) == [WakeAt(10), SendToLeader(EpochDue(1, True))]
    assert machine.is_full
    machine.handle(EndShare(1), 0)
    machine.handle(ResultsArrived(1), 0)
    machine.handle(EmitShare(1, (), CheckpointId(2)), 0)
    assert not machine.is_full


def test_records_go_to_local_disk_when_memory_is_full() -> None:
    machine = opened(buffer_bytes=100, memory_bytes=40)
    assert machine.handle(RecordsGathered(1, 60), 0) == [WakeAt(10), SpillRecords(1)]
    assert not machine.is_full
    announced = SendToLeader(EpochDue(1, True))
    assert machine.handle(RecordsGathered(1, 60), 0) == [SpillRecords(1), announced]
    assert machine.is_full


def test_a_subtask_is_drained_when_the_last_epoch_has_left() -> None:
    machine = opened()
    machine.handle(ControlReceived(Watermark(MAX_WATERMARK_MS)), 0)
    assert machine.handle(InputEnded(), 0) == [SendToLeader(ShareInputEnded())]
    assert not machine.is_drained
    machine.handle(EndShare(1, True), 0)
    assert not machine.is_drained
    machine.handle(EmitShare(1, (Watermark(MAX_WATERMARK_MS),), NO_BARRIER), 0)
    assert machine.is_drained
    with pytest.raises(InvalidEvent):
        machine.handle(RecordsGathered(1, 1), 0)
