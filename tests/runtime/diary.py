"""A task whose operator writes down what happens to it."""

from __future__ import annotations

from typing import Any

from tidegate.operators.base import FrozenOperator, StreamOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.elements import (
    Batch,
    CheckpointBarrier,
    SnapshotKind,
)
from tidegate.protocol.ids import CheckpointId, SubtaskId
from tidegate.state.descriptors import ListStateDescriptor

from .fakes import RECORD_BYTES, TaskUnderTest, barrier, subtask_of

MY_ID = SubtaskId("task-10", 0)


class Diary(StreamOperator):
    """Emits its life as records: what it saw, in order; counts records in operator state.

    Args:
        failing: Name of the moment in which it raises.
        error: What it raises then.
    """

    closed = 0
    """How often any diary was closed; tests look at the difference."""

    def __init__(self, failing: str = "", error: Exception | None = None) -> None:
        self._failing = failing
        self._error = error or ValueError("no more paper")

    def _reach(self, moment: str) -> None:
        if moment == self._failing:
            raise self._error

    def open(self) -> None:
        self._state = self.context.operator_state.get_list_state(ListStateDescriptor("count", None))
        self.count = sum(self._state.get())
        self._reach("open")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._reach("process")
        self.count += len(batch)
        self.emit(Batch([f"{value}@{input_index}" for value in batch.values]))

    def advance_watermark(self, timestamp_ms: int) -> None:
        self.emit(Batch([f"watermark {timestamp_ms}"]))

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        self._reach("prepare")
        self.emit(Batch([f"before barrier {barrier.checkpoint_id}"]))

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._reach("snapshot")
        self._state.update([self.count])
        return super().snapshot_state(barrier)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._reach("notify")
        self.emit(Batch([f"complete {checkpoint_id}"]))

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self.emit(Batch([f"aborted {checkpoint_id}"]))

    def finish(self) -> None:
        self._reach("finish")
        self.emit(Batch(["finish"]))

    def close(self) -> None:
        Diary.closed += 1
        self._reach("close")
        super().close()


def diary_task(channels: int = 1, failing: str = "", **settings: Any) -> TaskUnderTest:
    error = settings.pop("error", None)
    # Every batch leaves at once, though nobody answers: two make more than a quarter of the credit.
    settings.setdefault("batch_size", 1)
    settings.setdefault("channel_credit_bytes", 7 * RECORD_BYTES)
    return TaskUnderTest(subtask_of([Diary(failing, error)], channels), **settings)


def complete(checkpoint_id: int) -> events.CheckpointCompleted:
    return events.CheckpointCompleted(CheckpointId(checkpoint_id))


def trigger(checkpoint_id: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> events.TriggerCheckpoint:
    return events.TriggerCheckpoint(barrier(checkpoint_id, kind))
