"""Notifications of checkpoints and the records: one after the other, never at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar

from tidegate.operators.base import StreamOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import CheckpointId
from tidegate.runtime.tasks.task import TaskPhase

from .fakes import TaskUnderTest, barrier, subtask_of


class Busy(StreamOperator):
    """Writes down when it begins and ends to process a batch and to take a snapshot."""

    log: ClassVar[list[str]] = []
    meanwhile: ClassVar[Callable[[], None]] = staticmethod(lambda: None)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        Busy.log.append("begin")
        Busy.meanwhile()
        Busy.log.append("end")

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        Busy.log.append(f"prepare {barrier.checkpoint_id}")
        Busy.meanwhile()

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        Busy.log.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        Busy.log.append(f"aborted {checkpoint_id}")


def busy_task() -> TaskUnderTest:
    Busy.log.clear()
    Busy.meanwhile = staticmethod(lambda: None)
    return TaskUnderTest(subtask_of([Busy()])).start()


def test_a_notification_that_arrives_while_a_batch_is_processed_waits_for_its_end() -> None:
    test = busy_task()

    def notify() -> None:
        sender = threading.Thread(
            target=lambda: (
                test.task.put(events.CheckpointCompleted(CheckpointId(1))),
                test.task.put(events.CheckpointAborted(CheckpointId(2))),
            )
        )
        sender.start()
        sender.join()

    Busy.meanwhile = staticmethod(notify)
    test.receive(Batch(["a"]))
    assert Busy.log == ["begin", "end", "complete 1", "aborted 2"]


def test_a_notification_may_be_for_an_earlier_checkpoint_than_the_newest_snapshot() -> None:
    test = busy_task()
    test.receive(barrier(1))
    test.receive(barrier(2))
    test.ports.run_background()
    test.run()
    assert [done.checkpoint_id for done in test.ports.reported(SubtaskAcknowledged)] == [1, 2]
    test.put(events.CheckpointCompleted(CheckpointId(1)))
    test.put(events.CheckpointAborted(CheckpointId(2)))
    assert Busy.log == ["prepare 1", "prepare 2", "complete 1", "aborted 2"]
    assert test.task.phase is TaskPhase.RUNNING


def test_a_notification_after_the_end_of_the_task_changes_nothing() -> None:
    test = busy_task()
    test.task.cancel()
    test.put(events.CheckpointCompleted(CheckpointId(1)))
    assert Busy.log == []
