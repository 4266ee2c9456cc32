"""Bugs of barriers that overtake: what is recorded, acknowledged and replayed."""

from __future__ import annotations

from typing import Any

from tidegate.protocol.checkpoints.channel_state import StoredExchange
from tidegate.runtime.checkpoints import channel_state
from tidegate.runtime.checkpoints.snapshots import Snapshotter
from tidegate.runtime.gate import InputGate
from tidegate.runtime.tasks.task_loop import TaskLoop

from .base import Mutant


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


def _recovered_records_not_recorded_again(original: Any) -> Any:
    return lambda self, index: None


def _acknowledged_without_records(original: Any) -> Any:
    return lambda self, checkpoint_id: None


def _everybody_gets_all_records(original: Any) -> Any:
    return lambda batch, *_: batch


def _nobody_gets_records_of_others(original: Any) -> Any:
    def old_subtasks(self: StoredExchange, index: int) -> Any:
        return [(old, key_groups) for old, key_groups in original(self, index) if old == index]

    return old_subtasks


MUTANTS: dict[str, Mutant] = {
    "dropped-records": Mutant(
        "records that a barrier overtook are not replayed",
        TaskLoop,
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
    "replay-unrecorded": Mutant(
        "a barrier overtakes records that are being replayed, without recording them again",
        InputGate,
        "_record_recovered",
        _recovered_records_not_recorded_again,
    ),
    "ack-without-records": Mutant(
        "a snapshot is acknowledged before the records that its barrier overtook are stored",
        Snapshotter,
        "expect_records",
        _acknowledged_without_records,
    ),
    "records-unfiltered": Mutant(
        "after rescaling a subtask keeps recovered records of keys that it does not own",
        channel_state,
        "_kept",
        _everybody_gets_all_records,
    ),
    "records-of-others": Mutant(
        "after rescaling a subtask looks only at the records of the old one with its index",
        StoredExchange,
        "_old_subtasks",
        _nobody_gets_records_of_others,
    ),
}
