"""A task whose barriers overtake: snapshot first, records as they arrive, one acknowledgement for both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tidegate.operators.base import FrozenOperator
from tidegate.operators.elementwise import MapOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.channel_state import RecoveredChannel
from tidegate.protocol.checkpoints.checkpoint_events import SubtaskAcknowledged, SubtaskDeclined
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.protocol.elements import (
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointingMode,
    EndOfInput,
)
from tidegate.protocol.ids import ChannelId, CheckpointId
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.runtime.checkpoints.channel_state import recovered_elements
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import TaskUnderTest, subtask_of


def barrier(checkpoint_id: int, timeout_ms: int | None = 0) -> CheckpointBarrier:
    return CheckpointBarrier(CheckpointId(checkpoint_id), 0, aligned_timeout_ms=timeout_ms)


class Broken(MapOperator):
    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        raise ValueError("no more paper")


class FullDisk(MemoryCheckpointStorage):
    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if "/channels/" in path:
            raise OSError("no space left on device")
        return super().write_file(path, data)


class Unready(MapOperator):
    """Takes no records after the first."""

    def open(self) -> None:
        super().open()
        self._is_ready = True

    def is_ready(self) -> bool:
        return self._is_ready

    def process_batch(self, batch: Batch, input_index: int) -> None:
        super().process_batch(batch, input_index)
        self._is_ready = False


def stuck_task(
    channels: int = 1,
    operator: Any = None,
    upstream: Partitioning = Partitioning.REBALANCE,
    **settings: Any,
) -> TaskUnderTest:
    """A task whose output has no credit, so that what arrives waits. One record has been processed."""
    settings = {"channel_credit_bytes": 10, "batch_size": 1, **settings}
    subtask = subtask_of([operator or MapOperator(str)], channels=channels, upstream=upstream)
    test = TaskUnderTest(subtask, **settings).start()
    test.receive(Batch(["first"]))
    return test


def settle(test: TaskUnderTest) -> None:
    """Let the background thread work and the task hear of it."""
    test.ports.run_background()
    test.run()


def free(test: TaskUnderTest) -> None:
    """The receiver consumes whatever was and will be sent."""
    test.put(events.CreditReturned(test.subtask.outputs[0].channels[0], 10_000))


def stored(test: TaskUnderTest) -> list[Any]:
    """The records in the newest acknowledgement, channel by channel."""
    acknowledged = test.ports.reported(SubtaskAcknowledged)[-1].acknowledgement
    handle = acknowledged.snapshots["uid-10"].channels
    if handle is None:
        return []
    channels = [
        RecoveredChannel(
            ChannelId(1, one.upstream_index, 0), handle.file, one.offset, one.size_bytes, None, 128, True
        )
        for one in handle.channels
    ]
    read = recovered_elements(channels, MemoryCheckpointStorage())
    return [value for _, element in read if isinstance(element, Batch) for value in element.values]


def test_a_barrier_overtakes_records_that_wait_for_credit() -> None:
    test = stuck_task()
    test.receive(Batch(["a"]))
    test.receive(Batch(["b"]))
    test.receive(barrier(1))
    assert test.ports.elements() == [Batch(["first"]), barrier(1)]
    settle(test)
    assert stored(test) == ["a", "b"]
    metrics = test.ports.reported(SubtaskAcknowledged)[0].acknowledgement.metrics
    assert metrics.persisted_bytes > 0
    assert metrics.processed_bytes == 0
    free(test)
    assert test.ports.records() == ["first", "a", "b"]


def test_barriers_that_overtook_do_not_pile_up_behind_the_records_they_overtook() -> None:
    test = stuck_task()
    test.receive(Batch(["waits"]))
    before = len(test.ports.credits)
    for checkpoint_id in range(1, 101):
        test.receive(barrier(checkpoint_id))
        settle(test)
        assert stored(test) == ["waits"]
    assert len(test.ports.credits) - before == 100, "the task still holds barriers that mean nothing any more"
    free(test)
    assert test.ports.records() == ["first", "waits"]


def test_what_comes_for_a_checkpoint_that_a_task_has_refused_is_not_kept() -> None:
    test = stuck_task(channels=2)
    for channel in range(2):
        test.receive(Batch(["waits"]), channel=channel)
    before = len(test.ports.credits)
    for checkpoint_id in range(1, 101):
        test.receive(barrier(checkpoint_id), channel=0)
        test.receive(CancelCheckpointMarker(CheckpointId(checkpoint_id)), channel=0)
        test.receive(CancelCheckpointMarker(CheckpointId(checkpoint_id)), channel=1)
    assert len(test.ports.reported(SubtaskDeclined)) == 100
    assert len(test.ports.credits) - before == 300
    free(test)
    assert test.ports.records() == ["first", "waits", "waits"]


def test_the_acknowledgement_waits_for_the_barrier_of_every_channel() -> None:
    test = stuck_task(channels=2)
    free(test)
    test.receive(barrier(1), channel=0)
    test.ports.pass_ms(20)
    test.receive(Batch(["late"]), channel=1)
    settle(test)
    assert not test.ports.reported(SubtaskAcknowledged)
    test.receive(barrier(1), channel=1)
    assert not test.ports.reported(SubtaskAcknowledged)
    settle(test)
    assert stored(test) == ["late"]
    metrics = test.ports.reported(SubtaskAcknowledged)[0].acknowledgement.metrics
    assert metrics.alignment_ms == 20
    assert metrics.processed_bytes >= 10, "the record was processed between the two barriers"
    assert test.ports.records() == ["first", "late"]


def test_a_barrier_tries_to_align_until_its_timeout() -> None:
    test = stuck_task(channels=2)
    free(test)
    test.receive(barrier(1, timeout_ms=50), channel=0)
    test.ports.pass_ms(30)
    assert test.task.step().wait_ns == 20_000_000
    assert barrier(1) not in test.ports.elements()
    test.receive(Batch(["held"]), channel=0)
    test.ports.pass_ms(20)
    test.run()
    assert test.ports.elements()[-2:] == [barrier(1), Batch(["held"])], "resumed, and downstream is told"
    test.receive(barrier(1, timeout_ms=50), channel=1)
    settle(test)
    assert stored(test) == []
    assert len(test.ports.reported(SubtaskAcknowledged)) == 1


def test_a_barrier_that_is_aligned_in_time_overtakes_nothing() -> None:
    test = stuck_task(channels=2)
    free(test)
    for channel in range(2):
        test.receive(barrier(1, timeout_ms=50), channel=channel)
    assert test.ports.elements()[-1] == barrier(1, timeout_ms=50), "downstream has its own try"
    settle(test)
    assert stored(test) == []


@pytest.mark.parametrize("timeout_ms", [0, 50])
@pytest.mark.parametrize("credit_bytes", [10, 10_000])
def test_a_barrier_with_nothing_before_it_waits_neither_for_credit_nor_for_operators(
    timeout_ms: int, credit_bytes: int
) -> None:
    test = stuck_task(2, Unready(str), upstream=Partitioning.BROADCAST, channel_credit_bytes=credit_bytes)
    test.receive(barrier(1, timeout_ms), channel=0)
    assert barrier(1, timeout_ms) not in test.ports.elements()
    test.receive(barrier(1, timeout_ms), channel=1)
    assert test.ports.elements() == [Batch(["first"]), barrier(1, timeout_ms)]
    settle(test)
    assert len(test.ports.reported(SubtaskAcknowledged)) == 1


def test_a_barrier_behind_records_that_it_may_not_overtake_waits_with_them() -> None:
    test = stuck_task(upstream=Partitioning.BROADCAST)
    test.receive(Batch(["before"]))
    test.receive(barrier(1))
    assert test.ports.elements() == [Batch(["first"])]
    free(test)
    assert test.ports.elements() == [Batch(["first"]), Batch(["before"]), barrier(1)]


def test_a_barrier_that_may_overtake_nothing_waits_for_credit() -> None:
    test = stuck_task(upstream=Partitioning.BROADCAST)
    test.receive(barrier(1, timeout_ms=None))
    assert test.ports.elements() == [Batch(["first"])]
    free(test)
    assert test.ports.elements() == [Batch(["first"]), barrier(1, timeout_ms=None)]


def test_nothing_is_acted_on_before_the_task_runs() -> None:
    test = TaskUnderTest(subtask_of([MapOperator(str)]))
    test.task.initialize()
    test.receive(barrier(1))
    assert test.ports.elements() == []
    test.put(events.StartRunning())
    assert test.ports.elements() == [barrier(1)]


def test_the_end_of_a_channel_ends_its_recording() -> None:
    test = stuck_task(channels=2)
    test.receive(barrier(1), channel=0)
    test.receive(Batch(["last"]), channel=1)
    test.receive(EndOfInput(), channel=1)
    settle(test)
    assert stored(test) == ["last"]


def test_a_newer_barrier_gives_the_older_checkpoint_up_but_reports_its_files() -> None:
    test = stuck_task(channels=2)
    test.receive(barrier(1), channel=0)
    settle(test)
    test.receive(barrier(2), channel=1)
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert (declined.checkpoint_id, declined.reason) == (1, AbortReason.BARRIER_SUBSUMED)
    assert [one.checkpoint_id for one in test.ports.reported(SubtaskAcknowledged)] == [1]
    acknowledged = test.ports.reported(SubtaskAcknowledged)[0]
    assert test.ports.reports.index(declined) < test.ports.reports.index(acknowledged), "it must not count"
    test.receive(barrier(2), channel=0)
    settle(test)
    assert [one.checkpoint_id for one in test.ports.reported(SubtaskAcknowledged)] == [1, 2]


def test_what_the_coordinator_gives_up_is_not_recorded_any_more() -> None:
    test = stuck_task(channels=2)
    test.receive(barrier(1), channel=0)
    settle(test)
    test.put(events.CheckpointAborted(CheckpointId(1)))
    assert not test.ports.reported(SubtaskDeclined)
    assert test.ports.elements()[-1] == CancelCheckpointMarker(CheckpointId(1))
    test.receive(Batch(["not recorded"]), channel=1)
    test.receive(barrier(1), channel=1)
    settle(test)
    assert stored(test) == []


def test_what_the_coordinator_gives_up_blocks_no_channel_any_more() -> None:
    test = stuck_task(channels=2)
    free(test)
    test.receive(barrier(1, timeout_ms=None), channel=0)
    test.receive(Batch(["held"]), channel=0)
    assert test.ports.records() == ["first"]
    test.put(events.CheckpointAborted(CheckpointId(1)))
    assert test.ports.records() == ["first", "held"]
    assert CancelCheckpointMarker(CheckpointId(1)) in test.ports.elements()
    assert not test.ports.reported(SubtaskDeclined)


def test_more_than_may_be_held_back_gives_the_checkpoint_up_and_the_task_goes_on() -> None:
    test = stuck_task(channels=2, max_buffered_bytes=25)
    free(test)
    test.receive(barrier(1, timeout_ms=None), channel=0)
    for value in "ab":
        test.receive(Batch([value]), channel=0)
    assert not test.ports.reported(SubtaskDeclined)
    test.receive(Batch(["c"]), channel=0)
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert (declined.checkpoint_id, declined.reason) == (1, AbortReason.ALIGNMENT_LIMIT)
    assert "tidegate.checkpointing.alignment.max-size" in declined.cause
    assert test.ports.records() == ["first", "a", "b", "c"]
    assert CancelCheckpointMarker(CheckpointId(1)) in test.ports.elements()


def test_records_that_cannot_be_stored_decline_the_checkpoint() -> None:
    test = stuck_task(storage=InlineStorage(FullDisk(), 0))
    test.receive(Batch(["a"]))
    test.receive(barrier(1))
    settle(test)
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert declined.reason is AbortReason.CHANNEL_STATE_FAILED
    assert "no space left on device" in declined.cause
    assert not test.task.phase.is_terminal


def test_a_snapshot_that_fails_declines_once() -> None:
    test = stuck_task(channels=2, operator=Broken(str))
    test.receive(barrier(1), channel=0)
    test.receive(barrier(1), channel=1)
    settle(test)
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert declined.reason is AbortReason.SYNC_FAILED
    assert not test.ports.reported(SubtaskAcknowledged)


def test_at_least_once_overtakes_nothing() -> None:
    test = stuck_task(mode=CheckpointingMode.AT_LEAST_ONCE)
    test.receive(Batch(["a"]))
    test.receive(barrier(1))
    assert test.ports.elements() == [Batch(["first"])]
    free(test)
    assert test.ports.elements() == [Batch(["first"]), Batch(["a"]), barrier(1)]
    settle(test)
    assert stored(test) == []


def test_stored_records_are_replayed_before_anything_that_arrives() -> None:
    storage = InlineStorage(MemoryCheckpointStorage(), None)
    test = stuck_task(channels=2, storage=storage)
    test.receive(Batch(["a"]), channel=0)
    test.receive(Batch(["b"]), channel=1)
    for channel in range(2):
        test.receive(barrier(1), channel=channel)
    settle(test)
    acknowledged = test.ports.reported(SubtaskAcknowledged)[0].acknowledgement
    handle = acknowledged.snapshots["uid-10"].channels
    assert handle is not None
    recovered = tuple(
        RecoveredChannel(
            ChannelId(1, one.upstream_index, 0), handle.file, one.offset, one.size_bytes, None, 128, True
        )
        for one in handle.channels
    )
    again = TaskUnderTest(
        test.subtask, acknowledged.snapshots, recovered=recovered, batch_size=1, channel_credit_bytes=70
    )
    again.task.initialize()
    again.task.put(again.message(Batch(["new"])))
    again.put(events.StartRunning())
    assert again.ports.records() == ["a", "b", "new"]


def test_a_savepoint_or_another_barrier_without_a_timeout_waits_its_turn() -> None:
    test = stuck_task()
    test.receive(Batch(["a"]))
    test.receive(replace(barrier(1), aligned_timeout_ms=None))
    assert test.ports.elements() == [Batch(["first"])]
    free(test)
    settle(test)
    assert stored(test) == []
    assert test.ports.records() == ["first", "a"]


def test_a_barrier_overtakes_records_that_have_not_arrived_and_they_are_stored_when_they_do() -> None:
    test = stuck_task()
    under_way = test.message(Batch(["b"]))
    test.put(test.message(barrier(1)))
    assert [type(message.announces) for message in test.ports.sent][-1] is CheckpointBarrier
    settle(test)
    assert not test.ports.reported(SubtaskAcknowledged)
    test.put(under_way)
    settle(test)
    assert stored(test) == ["b"]


def test_the_time_to_align_runs_from_when_the_barrier_is_known() -> None:
    test = stuck_task()
    under_way = test.message(Batch(["b"]))
    test.put(test.message(barrier(1, timeout_ms=50)))
    test.ports.pass_ms(49)
    test.run()
    assert not any(message.announces for message in test.ports.sent)
    test.ports.pass_ms(1)
    test.run()
    assert test.ports.sent[-1].announces is not None
    test.put(under_way)
    settle(test)
    assert stored(test) == ["b"]


def test_an_aligned_barrier_waits_for_the_records_before_it() -> None:
    test = stuck_task()
    test.put(test.message(barrier(1, timeout_ms=None)))
    free(test)
    assert any(isinstance(message.announces, CheckpointBarrier) for message in test.ports.sent)
    test = stuck_task()
    under_way = test.message(Batch(["b"]))
    test.put(test.message(barrier(1, timeout_ms=None)))
    free(test)
    assert not any(message.announces for message in test.ports.sent)
    test.put(under_way)
    assert isinstance(test.ports.sent[-1].announces, CheckpointBarrier)
