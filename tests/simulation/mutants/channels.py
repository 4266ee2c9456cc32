"""Bugs between two tasks: alignment, barriers, messages and credit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.coordinator.deployment.report_order import ReportOrder
from tidegate.protocol.channels.credit_returns import CreditReturns
from tidegate.protocol.channels.sequence_gaps import Gap, SequenceGaps
from tidegate.protocol.checkpoints import alignment_table
from tidegate.protocol.checkpoints.alignment import BarrierAligner, BarrierTracker, TakeSnapshot
from tidegate.protocol.checkpoints.alignment_table import AlignmentInput
from tidegate.protocol.checkpoints.mode_switch import SwitchingHandler
from tidegate.protocol.elements import Probe
from tidegate.runtime import gate as gate_module
from tidegate.runtime.gate import InputGate
from tidegate.runtime.network.lost_messages import LostMessages
from tidegate.runtime.output import OutputChannel, TaskOutput
from tidegate.runtime.tasks.task_loop import TaskLoop

from .base import Mutant


def _no_alignment(original: Any) -> Any:
    return lambda self, mode: BarrierTracker(self._channel_count)


def _first_barrier_is_enough(original: Any) -> Any:
    def arrive(self: BarrierAligner, happened: Any) -> Any:
        self._pending.missing.clear()
        return original(self, happened)

    return arrive


def _nothing(original: Any) -> Any:
    return lambda self, *arguments: []


def _any_order(original: Any) -> Any:
    def accept(self: InputGate, message: Any) -> bool:
        index = self._index.get(message.channel)
        if index is None or message.attempt != self._attempt:
            return False
        self._channels[index].ready.append(message)
        return True

    return accept


def _any_attempt(original: Any) -> Any:
    def accept(self: InputGate, message: Any) -> Any:
        return original(self, replace(message, attempt=self._attempt))

    return accept


def _credit_kept_at_rest(original: Any) -> Any:
    return lambda self, wait_ns, now_ns: ({}, wait_ns)


def _held_from_the_last(original: Any) -> Any:
    def consumed(self: CreditReturns, channel: Any, size_bytes: int, now_ns: int) -> int:
        due_bytes = int(original(self, channel, size_bytes, now_ns))
        self._held_since_ns = now_ns
        return due_bytes

    return consumed


def _held_is_given_twice(original: Any) -> Any:
    def consumed(self: CreditReturns, channel: Any, size_bytes: int, now_ns: int) -> int:
        held_bytes = self._held.get(channel, 0)
        due_bytes = int(original(self, channel, size_bytes, now_ns))
        if due_bytes and held_bytes:
            self._held[channel] = held_bytes
        return due_bytes

    return consumed


def _credit_lost(original: Any) -> Any:
    def take(self: InputGate, channel: Any) -> Any:
        give = self._return_credit
        is_lost = bool(channel.ready) and channel.ready[0].sequence_number % 7 == 3
        self._return_credit = (lambda *credit: None) if is_lost else give
        try:
            return original(self, channel)
        finally:
            self._return_credit = give

    return take


def _credit_on_arrival(original: Any) -> Any:
    def accept(self: InputGate, message: Any) -> bool:
        is_new = bool(original(self, message))
        if is_new:
            self._return_credit(message.channel, message.sequence_number, message.size_bytes)
            message.size_bytes = 0
        return is_new

    return accept


def _barrier_first(original: Any) -> Any:
    def marked(self: OutputChannel, marker: Any, payload: Any) -> Any:
        pending, self._pending = self._pending, []
        message = original(self, marker, payload)
        self._pending = pending
        self.flush()
        return message

    return marked


def _process_after_barrier(original: Any) -> Any:
    def take(self: TaskLoop, command: TakeSnapshot, arrival: Any) -> None:
        if self._polling is not None and self._life.is_running:
            self._chain.prepare_snapshot(command.barrier)
            self._output.mark(command.barrier)
            self._poll_source(self._polling)
            self._snapshots.start(command.barrier, arrival)
        else:
            original(self, command, arrival)

    return take


def _marker_on_arrival(original: Any) -> Any:
    def accept(self: InputGate, message: Any) -> bool:
        index = self._index.get(message.channel)
        is_early = index is not None and message.sequence_number > self._channels[index].order.next_number
        if is_early and message.announces is not None and message.attempt == self._attempt:
            self._channels[index].ready.append(message)  # type: ignore[index]
            message = replace(message, announces=Probe(), elements=[])
        return bool(original(self, message))

    return accept


def _two_sequences(original: Any) -> Any:
    def marked(self: OutputChannel, marker: Any, payload: Any) -> Any:
        number = self._sequence_number
        message = original(self, marker, payload)
        self._sequence_number = max(number, message.sequence_number)
        return message

    return marked


def _credit_twice(original: Any) -> Any:
    def returned(self: OutputChannel, size_bytes: int) -> None:
        original(self, size_bytes)
        original(self, size_bytes)

    return returned


def _any_early_message_shows_a_gap(original: Any) -> Any:
    return property(lambda self: bool(self.order.early))


def _known_is_announced(original: Any) -> Any:
    known, announced = AlignmentInput.KNOWN, AlignmentInput.ANNOUNCED
    return {
        row: original.get((row[0], announced, row[2])) if row[1] is known else steps
        for row, steps in original.items()
    }


def _without(event: AlignmentInput) -> Any:
    return lambda original: {row: steps for row, steps in original.items() if row[1] is not event}


def _any_gap_is_a_loss(original: Any) -> Any:
    def look(self: SequenceGaps[Any], missing: Any, now_ms: int) -> Any:
        original(self, missing, now_ms)
        return [Gap(sequence, number) for sequence, number in missing.items()]

    return look


def _gaps_unseen(original: Any) -> Any:
    return lambda self, gate, order, now_ms: self._gaps.timeout_ms


MUTANTS = {
    "marker-on-arrival": Mutant(
        "a barrier has its turn when it arrives", InputGate, "accept", _marker_on_arrival
    ),
    "two-sequences": Mutant(
        "markers and records are numbered apart", OutputChannel, "marked", _two_sequences
    ),
    "credit-twice": Mutant("credit comes back twice", OutputChannel, "credit_returned", _credit_twice),
    "record-is-lost-marker": Mutant(
        "a record that is under way counts as a lost marker",
        gate_module._Channel,
        "lacks_marker",
        _any_early_message_shows_a_gap,
    ),
    "known-is-announced": Mutant(
        "records that are under way when their barrier is known are not recorded",
        alignment_table,
        "TABLE",
        _known_is_announced,
    ),
    "gap-ignored": Mutant(
        "a gap in what a task receives is never reported", LostMessages, "_look_at_gaps", _gaps_unseen
    ),
    "gap-too-early": Mutant(
        "a gap counts as a loss as soon as it is seen", SequenceGaps, "look", _any_gap_is_a_loss
    ),
    "report-gap-ignored": Mutant("a lost report is never missed", ReportOrder, "look", _nothing),
    "no-probes": Mutant("the last message for now is not followed by a probe", TaskOutput, "probe", _nothing),
    "no-alignment": Mutant(
        "barriers are counted, channels are not blocked", SwitchingHandler, "_new_handler", _no_alignment
    ),
    "first-barrier": Mutant(
        "the first barrier is enough for a snapshot", BarrierAligner, "_arrive", _first_barrier_is_enough
    ),
    "cancel-ignored": Mutant(
        "a cancel marker does not release the alignment",
        alignment_table,
        "TABLE",
        _without(AlignmentInput.CANCEL),
    ),
    "end-is-no-barrier": Mutant(
        "a channel that ended is waited for", alignment_table, "TABLE", _without(AlignmentInput.ENDED)
    ),
    "barrier-first": Mutant(
        "a barrier overtakes the records before it", OutputChannel, "marked", _barrier_first
    ),
    "processing-after-barrier": Mutant(
        "a source goes on between its barrier and its snapshot",
        TaskLoop,
        "_take_snapshot",
        _process_after_barrier,
    ),
    "any-order": Mutant("sequence numbers are ignored", InputGate, "accept", _any_order),
    "any-attempt": Mutant("messages of old attempts are taken", InputGate, "accept", _any_attempt),
    "credit-lost": Mutant("the credit of some messages never returns", InputGate, "_take", _credit_lost),
    "credit-kept-at-rest": Mutant(
        "a task that rests keeps the credit of small messages", CreditReturns, "rest", _credit_kept_at_rest
    ),
    "credit-held-longer": Mutant(
        "each small message extends the time that credit is held",
        CreditReturns,
        "consumed",
        _held_from_the_last,
    ),
    "held-credit-twice": Mutant(
        "credit that was held is given back twice", CreditReturns, "consumed", _held_is_given_twice
    ),
    "credit-early": Mutant(
        "credit returns when a message arrives, not when it is taken up",
        InputGate,
        "accept",
        _credit_on_arrival,
    ),
}
