"""Deliberate protocol bugs, each of which the simulation must find.

A mutant replaces one method while it is planted. That is done here only: it is what planting a bug
means, and no test of the product works this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..actors import task as task_module
from ..actors.gate import InputGate
from ..actors.task import StreamTask
from ..operators.sinks import SinkOperator
from ..operators.sources import SourceOperator
from ..protocol import redistribution
from ..protocol.alignment import BarrierAligner, BarrierTracker, ResumeChannels, TakeSnapshot
from ..protocol.checkpoint import CheckpointCoordinator, NotifyComplete


@dataclass(frozen=True)
class Mutant:
    """One bug: what it breaks, and where it is planted."""

    description: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]


def _no_alignment(original: Any) -> Any:
    return lambda mode, channels: BarrierTracker(channels)


def _first_barrier_is_enough(original: Any) -> Any:
    def on_barrier(self: BarrierAligner, channel: int, barrier: Any, now_ms: int) -> Any:
        if barrier.checkpoint_id <= self._last:
            return []
        self._last = barrier.checkpoint_id
        return [TakeSnapshot(barrier, now_ms), ResumeChannels(())]

    return on_barrier


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


def _commit_what_was_aborted(original: Any) -> Any:
    def aborted(self: SinkOperator, checkpoint_id: Any) -> None:
        self.notify_checkpoint_complete(checkpoint_id)

    return aborted


def _no_commit_after_restore(original: Any) -> Any:
    def commit(self: SinkOperator, committables: list[Any]) -> None:
        if self._writer is not None:
            original(self, committables)

    return commit


def _positions_forgotten(original: Any) -> Any:
    def snapshot(self: SourceOperator, barrier: Any) -> Any:
        frozen = original(self, barrier)
        self._splits.update([(name, 0) for name, _ in self._splits.get()])
        return replace(frozen, frozen_lists=self.context.operator_state.snapshot())

    return snapshot


def _wrong_key_groups(original: Any) -> Any:
    def wrong(index: int, max_parallelism: int, parallelism: int) -> Any:
        right = original(index, max_parallelism, parallelism)
        return replace(right, end=right.end - 1) if parallelism > 1 else right

    return wrong


def _early_notification(original: Any) -> Any:
    def acknowledged(self: CheckpointCoordinator, event: Any) -> Any:
        commands = original(self, event)
        if len(commands) > 1:
            return commands
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or event.subtask not in pending.acknowledgements:
            return commands
        return [*commands, NotifyComplete(event.checkpoint_id, (event.subtask,))]

    return acknowledged


def _one_acknowledgement_missing(original: Any) -> Any:
    def acknowledged(self: CheckpointCoordinator, event: Any) -> Any:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None and len(pending.missing) == 2 and event.subtask in pending.missing:
            other = next(s for s in sorted(pending.missing) if s != event.subtask)
            pending.missing.discard(other)
            pending.acknowledgements[other] = event.acknowledgement
        return original(self, event)

    return acknowledged


def _process_after_barrier(original: Any) -> Any:
    def take(self: StreamTask, barrier: Any, started_ms: int) -> None:
        source = self._chain.source
        if source is not None and self._phase is task_module.TaskPhase.RUNNING:
            self._chain.prepare_snapshot(barrier)
            self._parts.output.broadcast(barrier)
            self._poll_source()
            self._snapshots.start(barrier, started_ms)
        else:
            original(self, barrier, started_ms)

    return take


def _records_dropped(original: Any) -> Any:
    return lambda self: None


def _records_replayed_twice(original: Any) -> Any:
    def recover(self: InputGate, elements: Any) -> None:
        found = list(elements)
        original(self, found + found)

    return recover


def _only_what_waits_is_recorded(original: Any) -> Any:
    def start(self: InputGate, checkpoint_id: Any, channels: Any) -> None:
        original(self, checkpoint_id, channels)
        for channel in self._channels:
            channel.is_recording = False

    return start


def _only_what_arrives_is_recorded(original: Any) -> Any:
    def start(self: InputGate, checkpoint_id: Any, channels: Any) -> None:
        original(self, checkpoint_id, channels)
        for recorded in self._recorded.values():
            recorded.clear()

    return start


MUTANTS: dict[str, Mutant] = {
    "dropped-records": Mutant(
        "records that a barrier overtook are not replayed",
        StreamTask,
        "_recover_records",
        _records_dropped,
    ),
    "double-replay": Mutant(
        "records that a barrier overtook are replayed twice", InputGate, "recover", _records_replayed_twice
    ),
    "late-records-unrecorded": Mutant(
        "records that arrive behind the first barrier but before their own are not recorded",
        InputGate,
        "start_recording",
        _only_what_waits_is_recorded,
    ),
    "overtaken-unrecorded": Mutant(
        "a barrier overtakes records that wait, without recording them",
        InputGate,
        "start_recording",
        _only_what_arrives_is_recorded,
    ),
    "no-alignment": Mutant(
        "barriers are counted, channels are not blocked", task_module, "barrier_handler", _no_alignment
    ),
    "first-barrier": Mutant(
        "the first barrier is enough for a snapshot",
        BarrierAligner,
        "_on_barrier",
        _first_barrier_is_enough,
    ),
    "any-order": Mutant("sequence numbers are ignored", InputGate, "accept", _any_order),
    "any-attempt": Mutant("messages of old attempts are taken", InputGate, "accept", _any_attempt),
    "commit-aborted": Mutant(
        "an aborted checkpoint is committed",
        SinkOperator,
        "notify_checkpoint_aborted",
        _commit_what_was_aborted,
    ),
    "no-recommit": Mutant(
        "what a restored checkpoint holds is not committed",
        SinkOperator,
        "_commit",
        _no_commit_after_restore,
    ),
    "lost-positions": Mutant(
        "sources store their start instead of their position",
        SourceOperator,
        "snapshot_state",
        _positions_forgotten,
    ),
    "wrong-key-groups": Mutant(
        "a restored subtask misses its last key group",
        redistribution,
        "key_group_range_of_subtask",
        _wrong_key_groups,
    ),
    "early-notification": Mutant(
        "a subtask is told of completion as soon as it has acknowledged",
        CheckpointCoordinator,
        "_on_acknowledged",
        _early_notification,
    ),
    "missing-acknowledgement": Mutant(
        "a checkpoint completes one acknowledgement early",
        CheckpointCoordinator,
        "_on_acknowledged",
        _one_acknowledgement_missing,
    ),
    "processing-after-barrier": Mutant(
        "a source goes on between its barrier and its snapshot",
        StreamTask,
        "_take_snapshot",
        _process_after_barrier,
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug for the duration of the block."""
    mutant = MUTANTS[name]
    original = getattr(mutant.owner, mutant.attribute)
    setattr(mutant.owner, mutant.attribute, mutant.make(original))
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.attribute, original)
