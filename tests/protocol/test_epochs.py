"""The epochs of a stage: exactly once and in order, whatever their runs do and whenever the job fails."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tidegate.protocol.elements import Watermark, WatermarkStatus
from tidegate.protocol.epochs import (
    BarrierReceived,
    ControlReceived,
    EmitEpoch,
    EpochFinished,
    EpochLimits,
    EpochMachine,
    EpochPhase,
    EpochRestored,
    ForwardControl,
    InputEnded,
    RecordsGathered,
    ResultsEmitted,
    ResultsRestored,
    RunnerStarted,
    SpillRecords,
    StartEpoch,
    StoreEpochs,
    TimePassed,
    WakeAt,
)
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.invalid_event import InvalidEvent

from ..simulation.mutants.base import Mutant
from .epoch_world import Stage, World

SEEDS = 600


@pytest.mark.parametrize("first", range(0, SEEDS, 200))
def test_each_epoch_leaves_once_whatever_fails_between_two_events(first: int) -> None:
    for seed in range(first, first + 200):
        assert World(seed).run() == [], f"seed {seed}"


def test_the_simulation_fails_and_restores_epochs() -> None:
    worlds = [World(seed) for seed in range(50)]
    for world in worlds:
        world.run()
    assert sum(world.failures for world in worlds) > 50
    assert sum(world.restored for world in worlds) > 50
    assert sum(world.restored_results for world in worlds) > 10


# ---------------------------------------------------------------- planted bugs


def _records_kept(original: Any) -> Any:
    def begin_emission(self: Stage, number: int) -> None:
        records = list(self.records.get(number, []))
        original(self, number)
        self.records[number] = records

    return begin_emission


def _records_stored(original: Any) -> Any:
    def stored(self: EpochMachine) -> Any:
        command = original(self)
        numbers = command.numbers if not command.emitting else (command.emitting, *command.numbers)
        return StoreEpochs(numbers)

    return stored


def _results_not_stored(original: Any) -> Any:
    return lambda self, results, epochs: original(self, [], epochs)


def _without(phase: EpochPhase) -> Any:
    def make(original: Any) -> Any:
        def handle(self: EpochMachine, event: Any, now_ms: int) -> Any:
            commands = original(self, event, now_ms)
            return [_filtered(self, each, phase) for each in commands]

        return handle

    return make


def _filtered(machine: EpochMachine, command: Any, phase: EpochPhase) -> Any:
    if not isinstance(command, StoreEpochs):
        return command
    return StoreEpochs(tuple(number for number in command.numbers if machine.phases[number] is not phase))


def _not_removed(original: Any) -> Any:
    def emitted(self: EpochMachine, number: int) -> Any:
        epoch = self._epochs[0]
        commands = original(self, number)
        if number % 3 == 0 and EpochPhase.EMITTING not in self.phases.values():
            epoch.phase = EpochPhase.WAITING
            self._epochs.appendleft(epoch)
        return commands

    return emitted


def _any_finished(original: Any) -> Any:
    def emit(self: EpochMachine) -> Any:
        for epoch in list(self._epochs):
            is_emitting = self._epochs[0].phase is EpochPhase.EMITTING
            if epoch.phase is EpochPhase.FINISHED and not is_emitting:
                self._epochs.remove(epoch)
                self._epochs.appendleft(epoch)
        return original(self)

    return emit


def _forwarded_at_once(original: Any) -> Any:
    return lambda self, element: [ForwardControl(element)]


def _followers_first(original: Any) -> Any:
    def emit(self: EpochMachine) -> Any:
        commands = original(self)
        if commands:
            commands += map(ForwardControl, self._epochs[0].followers)
            self._epochs[0].followers.clear()
        return commands

    return emit


def _numbered_from_one(original: Any) -> Any:
    def restore(self: EpochMachine, event: Any, now_ms: int) -> Any:
        commands = original(self, event, now_ms)
        self._next_number = len(self._epochs) + 1
        return commands

    return restore


def _gathers_while_running(original: Any) -> Any:
    def start(self: EpochMachine, now_ms: int) -> Any:
        commands = original(self, now_ms)
        if commands and self._epochs[-1].number == commands[-1].number:
            self._epochs[-1].phase = EpochPhase.GATHERING
        return commands

    return start


def _never_spilled(original: Any) -> Any:
    return lambda self: []


MUTANTS = {
    "lost-running": (
        Mutant("a running epoch is in no checkpoint", EpochMachine, "handle", _without(EpochPhase.RUNNING)),
    ),
    "lost-gathering": (
        Mutant(
            "gathered records are in no checkpoint", EpochMachine, "handle", _without(EpochPhase.GATHERING)
        ),
    ),
    "lost-finished": (
        Mutant(
            "an epoch that waits for an earlier one is in no checkpoint",
            EpochMachine,
            "handle",
            _without(EpochPhase.FINISHED),
        ),
    ),
    "across-barrier": (
        Mutant("a barrier after the first results keeps the records", Stage, "begin_emission", _records_kept),
        Mutant("and a checkpoint contains them", EpochMachine, "_stored", _records_stored),
    ),
    "results-lost": (Mutant("no checkpoint contains results", World, "store", _results_not_stored),),
    "re-run": (Mutant("an epoch runs again after it was emitted", EpochMachine, "_emitted", _not_removed),),
    "out-of-order": (Mutant("epochs leave as they finish", EpochMachine, "_emit", _any_finished),),
    "watermark-overtakes": (Mutant("a watermark does not wait", EpochMachine, "_hold", _forwarded_at_once),),
    "watermark-before-results": (
        Mutant("a watermark leaves before its epoch", EpochMachine, "_emit", _followers_first),
    ),
    "number-reused": (
        Mutant("a restored stage reuses numbers", EpochMachine, "_restore", _numbered_from_one),
    ),
    "gathers-on": (Mutant("an epoch gathers while it runs", EpochMachine, "_start", _gathers_while_running),),
    "memory-unbounded": (Mutant("nothing goes to local disk", EpochMachine, "_spill", _never_spilled),),
}
KNOWN_SEEDS = {
    "lost-running": 1,
    "lost-gathering": 0,
    "lost-finished": 0,
    "across-barrier": 0,
    "results-lost": 0,
    "re-run": 0,
    "out-of-order": 3,
    "watermark-overtakes": 0,
    "watermark-before-results": 0,
    "number-reused": 0,
    "gathers-on": 0,
    "memory-unbounded": 1,
}
"""The first seed that finds each bug."""


def first_finding(name: str, seeds: int = 300) -> int | None:
    """The first seed that finds a planted bug."""
    with contextlib.ExitStack() as planted:
        for mutant in MUTANTS[name]:
            planted.enter_context(mutant.planted())
        return next((seed for seed in range(seeds) if World(seed).run()), None)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert first_finding(name) == KNOWN_SEEDS[name]


# ---------------------------------------------------------------- one rule each


def started(**limits: Any) -> EpochMachine:
    machine = EpochMachine(EpochLimits(**{"max_records": 100, "interval_ms": 10, **limits}))
    machine.handle(RunnerStarted(), 0)
    return machine


def test_a_barrier_waits_for_nothing_and_stores_what_was_not_emitted() -> None:
    machine = started(interval_ms=0)
    assert machine.handle(RecordsGathered(1, 10), 0) == [WakeAt(0), StartEpoch(1)]
    assert machine.handle(RecordsGathered(1, 10), 1) == [WakeAt(1)]
    assert machine.handle(BarrierReceived(CheckpointId(1)), 2) == [StoreEpochs((1, 2))]
    assert machine.handle(EpochFinished(1), 3) == [EmitEpoch(1), StartEpoch(2)]
    assert machine.handle(BarrierReceived(CheckpointId(2)), 4) == [StoreEpochs((2,), emitting=1)]
    assert machine.handle(ResultsEmitted(1), 5) == []
    assert machine.handle(BarrierReceived(CheckpointId(3)), 6) == [StoreEpochs((2,))]


def test_an_epoch_grows_until_it_is_due_and_a_run_can_begin() -> None:
    machine = EpochMachine(EpochLimits(100, 10))
    assert machine.handle(RecordsGathered(1, 1), 0) == [WakeAt(10)]
    assert machine.handle(TimePassed(), 10) == []
    assert machine.handle(RecordsGathered(1, 1), 11) == []
    assert machine.handle(RunnerStarted(), 12) == [StartEpoch(1)]
    assert machine.handle(RecordsGathered(1, 1), 13) == [WakeAt(23)]
    assert machine.handle(TimePassed(), 23) == []
    assert machine.handle(EpochFinished(1), 24) == [EmitEpoch(1), StartEpoch(2)]


def test_an_epoch_that_is_full_runs_at_once_and_in_parallel() -> None:
    machine = started(max_records=2, max_running=2)
    assert machine.handle(RecordsGathered(2, 1), 0) == [WakeAt(10), StartEpoch(1)]
    assert machine.handle(RecordsGathered(3, 1), 0) == [WakeAt(10), StartEpoch(2)]
    assert machine.handle(RecordsGathered(2, 1), 0) == [WakeAt(10)]
    assert machine.handle(EpochFinished(2), 1) == []
    assert machine.handle(EpochFinished(2), 1) == []
    assert machine.handle(EpochFinished(1), 1) == [EmitEpoch(1), StartEpoch(3)]
    assert machine.handle(ResultsEmitted(1), 1) == [EmitEpoch(2)]
    with pytest.raises(InvalidEvent):
        machine.handle(ResultsEmitted(1), 1)


def test_watermarks_and_idleness_follow_the_records_before_them() -> None:
    machine = started()
    idle = WatermarkStatus(True)
    assert machine.handle(ControlReceived(Watermark(1)), 0) == [ForwardControl(Watermark(1))]
    machine.handle(RecordsGathered(1, 1), 0)
    for element in (Watermark(2), Watermark(3), idle):
        assert machine.handle(ControlReceived(element), 0) == []
    assert machine.handle(TimePassed(), 10) == [StartEpoch(1)]
    assert machine.handle(ControlReceived(WatermarkStatus(False)), 10) == []
    assert machine.handle(EpochFinished(1), 10) == [EmitEpoch(1)]
    assert machine.handle(ResultsEmitted(1), 10) == [
        ForwardControl(Watermark(3)),
        ForwardControl(idle),
        ForwardControl(WatermarkStatus(False)),
    ]


def test_the_end_of_input_ends_the_epoch() -> None:
    machine = started()
    machine.handle(RecordsGathered(1, 1), 0)
    assert machine.handle(InputEnded(), 1) == [StartEpoch(1)]
    assert not machine.is_empty
    machine.handle(EpochFinished(1), 2)
    assert not machine.is_empty
    machine.handle(ResultsEmitted(1), 3)
    assert machine.is_empty
    with pytest.raises(InvalidEvent):
        machine.handle(RecordsGathered(1, 1), 3)


def test_restored_epochs_run_again_in_order() -> None:
    machine = EpochMachine(EpochLimits(100, 10))
    assert machine.handle(ResultsRestored(), 5) == [EmitEpoch(0)]
    machine.handle(EpochRestored(4, 1, 10, 10), 5)
    machine.handle(EpochRestored(7, 1, 10, 10), 5)
    assert machine.gathering == 7
    assert machine.handle(RunnerStarted(), 6) == [StartEpoch(4)]
    assert machine.handle(EpochFinished(4), 6) == []
    assert machine.handle(ResultsEmitted(0), 6) == [EmitEpoch(4), StartEpoch(7)]
    assert machine.gathering == 8
    with pytest.raises(InvalidEvent):
        machine.handle(ResultsRestored(), 6)
    with pytest.raises(InvalidEvent):
        machine.handle(EpochRestored(3, 1, 10, 10), 6)


def test_a_full_buffer_ends_the_epoch_and_takes_no_more() -> None:
    machine = started(buffer_bytes=100, memory_bytes=40)
    assert machine.handle(RecordsGathered(1, 60), 0) == [WakeAt(10), SpillRecords(1)]
    assert not machine.is_full
    assert machine.handle(RecordsGathered(1, 60), 0) == [SpillRecords(1), StartEpoch(1)]
    assert machine.is_full
    machine.handle(EpochFinished(1), 0)
    assert not machine.is_full
