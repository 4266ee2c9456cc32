"""Watermarks, idleness, side outputs, timers and the mailbox on the loop of a task."""

from __future__ import annotations

import threading
from dataclasses import replace

import cloudpickle
from tidegate.operators.base import FrozenOperator, StreamOperator
from tidegate.operators.elementwise import MapOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.elements import (
    MAX_WATERMARK_MS,
    Batch,
    CheckpointBarrier,
    EndOfInput,
    SnapshotKind,
    Watermark,
    WatermarkStatus,
)
from tidegate.protocol.ids import ChannelId, CheckpointId, SubtaskId
from tidegate.protocol.scheduling.execution_graph import Subtask, build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.runtime.tasks.task import TaskPhase

from tests.runtime.fakes import TaskUnderTest, barrier, subtask_of


class Reporter(StreamOperator):
    """Emits what event time does, in words."""

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.emit(batch)

    def advance_watermark(self, timestamp_ms: int) -> None:
        self.emit(Batch([f"reached {timestamp_ms}"]))


class Halving(Reporter):
    """Makes watermarks of its own in the middle of a chain."""

    def process_watermark(self, timestamp_ms: int, input_index: int = 0) -> None:
        super().process_watermark(timestamp_ms if timestamp_ms == MAX_WATERMARK_MS else timestamp_ms // 2)


class Meeting(Reporter):
    input_count = 2


def two_inputs(operator: StreamOperator) -> Subtask:
    """The first input has two channels, the second one."""
    subtask = subtask_of([operator], channels=3)
    (exchange,) = subtask.incoming
    first = replace(exchange, origin=replace(exchange.origin, parallelism=2))
    second = replace(
        exchange,
        edge=replace(exchange.edge, edge_id=2, input_index=1),
        origin=replace(exchange.origin, parallelism=1),
    )
    return replace(subtask, incoming=(first, second))


def test_an_operator_in_the_middle_of_a_chain_makes_the_watermarks_of_those_after_it() -> None:
    test = TaskUnderTest(
        subtask_of([Reporter(), Halving(), MapOperator(str.upper)]), buffer_timeout_ms=0
    ).start()
    test.receive(Watermark(10), EndOfInput())
    assert test.ports.records() == [
        "REACHED 10",
        "REACHED 5",
        f"REACHED {MAX_WATERMARK_MS}",
        f"REACHED {MAX_WATERMARK_MS}",
    ]
    marks = [element for element in test.ports.elements() if isinstance(element, Watermark)]
    assert marks == [Watermark(5), Watermark(MAX_WATERMARK_MS)]


def test_the_event_time_of_an_operator_with_two_inputs_is_the_lower_one() -> None:
    test = TaskUnderTest(two_inputs(Meeting()), buffer_timeout_ms=0).start()
    test.receive(Watermark(10), channel=0)
    test.receive(Watermark(30), channel=2)
    assert test.ports.records() == []
    test.receive(Watermark(20), channel=1)
    assert test.ports.records() == ["reached 10"]
    test.receive(EndOfInput(), channel=0)
    test.receive(EndOfInput(), channel=1)
    assert test.ports.records() == ["reached 10", "reached 20", "reached 30"]


def test_an_idle_input_holds_nobody_back_and_idleness_travels_on() -> None:
    test = TaskUnderTest(two_inputs(Meeting()), buffer_timeout_ms=0).start()
    test.receive(Watermark(10), channel=0)
    test.receive(Watermark(10), channel=1)
    test.receive(WatermarkStatus(True), channel=2)
    assert test.ports.elements() == [Batch(["reached 10"]), Watermark(10)]
    test.receive(WatermarkStatus(True), channel=0)
    test.receive(WatermarkStatus(True), channel=1)
    assert test.ports.elements()[2:] == [WatermarkStatus(True)]
    test.receive(WatermarkStatus(False), channel=2)
    assert test.ports.elements()[3:] == [WatermarkStatus(False)]


class Sorter(StreamOperator):
    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.emit(Batch([value for value in batch.values if value >= 0]))
        self.output.emit_side("negative", Batch([value for value in batch.values if value < 0]))
        self.output.emit_side("nobody's", batch)


def with_side_output(is_chained: bool) -> Subtask:
    """A sorter, its main output and, chained or over an exchange, its side output (negated)."""
    graph = StreamGraph("job")
    operators: dict[int, StreamOperator | None] = {
        1: None,
        2: Sorter(),
        3: None,
        4: MapOperator(abs),
        5: None,
    }
    for number, operator in operators.items():
        pickled = b"" if operator is None else cloudpickle.dumps(operator)
        graph.nodes[number] = StreamNode(
            number, str(number), str(number), pickled, 1, 128, is_source=number == 1
        )
    way = Partitioning.FORWARD if is_chained else Partitioning.REBALANCE
    graph.edges = [
        StreamEdge(0, 1, 2, Partitioning.REBALANCE),
        StreamEdge(1, 2, 3, Partitioning.REBALANCE),
        StreamEdge(2, 2, 4, way, output_tag="negative"),
        StreamEdge(3, 4, 5, Partitioning.REBALANCE),
    ]
    return build_execution_graph(build_job_graph(graph)).subtasks[SubtaskId("task-2", 0)]


def sent(test: TaskUnderTest, edge_id: int) -> list[object]:
    messages = [message for message in test.ports.sent if message.channel == ChannelId(edge_id, 0, 0)]
    return [element for message in messages for element in message.elements]


def test_a_side_output_leaves_the_task_on_an_edge_of_its_own() -> None:
    test = TaskUnderTest(with_side_output(is_chained=False), buffer_timeout_ms=0).start()
    test.receive(Batch([1, -2, 3]), Watermark(7))
    assert sent(test, 1) == [Batch([1, 3]), Watermark(7)]
    assert sent(test, 2) == [Batch([-2]), Watermark(7)]


def test_a_side_output_goes_to_an_operator_of_the_same_chain() -> None:
    test = TaskUnderTest(with_side_output(is_chained=True), buffer_timeout_ms=0).start()
    test.receive(Batch([1, -2, 3]), Watermark(7))
    assert sent(test, 1) == [Batch([1, 3]), Watermark(7)]
    assert sent(test, 3) == [Batch([2]), Watermark(7)]


# ---------------------------------------------------------------- actions


class Clock(StreamOperator):
    """Emits at the times that its records name."""

    def process_batch(self, batch: Batch, input_index: int) -> None:
        for due_ms in batch.values:
            self.context.processing_time.call_at(due_ms, lambda due_ms=due_ms: self.emit(Batch([due_ms])))


def test_a_task_wakes_up_when_an_action_is_due() -> None:
    test = TaskUnderTest(subtask_of([Clock()]), buffer_timeout_ms=0).start()
    test.receive(Batch([300, 20]))
    assert test.task.step().wait_ns == 20_000_000
    test.ports.pass_ms(20)
    test.run()
    assert test.ports.records() == [20]
    assert test.task.step().wait_ns == 280_000_000


def test_actions_wait_for_credit() -> None:
    test = TaskUnderTest(subtask_of([Clock()]), buffer_timeout_ms=0, channel_credit_bytes=10).start()
    test.receive(Batch([1, 2]))
    for _ in range(2):
        test.ports.pass_ms(1)
        test.run()
    assert test.ports.records() == [1]
    assert test.task.step().wait_ns > 100_000_000, "no credit: the task waits for mail, not for the time"
    message = test.ports.sent[0]
    test.put(events.CreditReturned(message.channel, message.size_bytes))
    assert test.ports.records() == [1, 2]


class Mailing(StreamOperator):
    """A thread of its own mails what it makes, from the opening on."""

    def open(self) -> None:
        thread = threading.Thread(target=self._work)
        thread.start()
        thread.join()

    def _work(self) -> None:
        self.context.mailbox(
            lambda: self.emit(Batch([threading.current_thread() is threading.main_thread()]))
        )

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._work()


def test_mail_from_another_thread_runs_on_the_loop_and_not_before_the_start() -> None:
    test = TaskUnderTest(subtask_of([Mailing()]), buffer_timeout_ms=0)
    test.task.initialize()
    test.run()
    assert test.ports.sent == []
    test.put(events.StartRunning())
    assert test.ports.records() == [True]


def test_after_the_barrier_of_a_stop_no_action_runs_until_the_stop_is_given_up() -> None:
    test = TaskUnderTest(subtask_of([Clock()]), buffer_timeout_ms=0).start()
    test.receive(Batch([20]), barrier(1, SnapshotKind.STOP))
    test.ports.pass_ms(20)
    test.run()
    assert test.task.phase is TaskPhase.STOPPING
    assert test.ports.records() == []
    test.put(events.CheckpointAborted(CheckpointId(1)))
    assert test.ports.records() == [20]


class LateMail(Mailing):
    """Mails when its snapshot was taken: the task is stopping then."""

    def open(self) -> None: ...

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        if barrier.kind is SnapshotKind.STOP:
            self._work()
        return super().snapshot_state(barrier)


def test_mail_during_a_stop_waits_until_a_newer_checkpoint_says_that_the_stop_was_given_up() -> None:
    test = TaskUnderTest(subtask_of([LateMail()]), buffer_timeout_ms=0).start()
    test.receive(barrier(1, SnapshotKind.STOP))
    test.run()
    assert test.ports.records() == []
    test.put(events.TriggerCheckpoint(barrier(2)))
    test.run()
    assert test.ports.records() == [True]


class Slow(StreamOperator):
    """Has something under way after the end of its input."""

    def __init__(self) -> None:
        self._under_way = 0

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._under_way += 1
        self.context.processing_time.call_at(500, lambda: self._done(batch))

    def _done(self, batch: Batch) -> None:
        self._under_way -= 1
        self.emit(batch)

    def is_drained(self) -> bool:
        return self._under_way == 0

    def finish(self) -> None:
        self.emit(Batch(["finish"]))


def test_the_output_ends_only_when_nothing_is_under_way_any_more() -> None:
    test = TaskUnderTest(subtask_of([Slow(), MapOperator(str.upper)]), buffer_timeout_ms=0).start()
    test.receive(Batch(["late"]), EndOfInput())
    assert EndOfInput() not in test.ports.elements()
    assert test.task.phase is TaskPhase.RUNNING
    test.ports.pass_ms(500)
    test.run()
    assert test.ports.records() == ["LATE", "FINISH"]
    assert test.ports.elements()[-1] == EndOfInput()
    assert test.task.phase is TaskPhase.COMMITTING
