"""What a task measures of itself: counts, and where its time goes."""

from __future__ import annotations

from typing import Any

from tidegate.connectors.collection import CollectionSource
from tidegate.operators.base import StreamOperator
from tidegate.operators.sources.sources import SourceOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged
from tidegate.protocol.elements import Batch, EndOfInput, Watermark
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.task_metrics import TaskMetrics
from tidegate.state.descriptors import ValueStateDescriptor

from .diary import diary_task
from .fakes import RECORD_BYTES, FakePorts, TaskUnderTest, barrier, subtask_of


class Slow(StreamOperator):
    """Takes 7 ms for every record, by the clock of all the ports that it is given."""

    ports: tuple[FakePorts, ...]

    def process_batch(self, batch: Batch, input_index: int) -> None:
        for each in Slow.ports:
            each.pass_ms(7 * len(batch))
        self.emit(batch)


def slow_task(downstream: int = 1, **settings: Any) -> TaskUnderTest:
    test = TaskUnderTest(subtask_of([Slow()], downstream=downstream), **settings)
    Slow.ports = (test.ports,)
    return test.start()


def times(metrics: TaskMetrics) -> tuple[float, float, float]:
    return metrics.busy_ms, metrics.backpressured_ms, metrics.idle_ms


def test_records_and_bytes_are_counted_as_they_come_and_go() -> None:
    test = slow_task(batch_size=1, channel_credit_bytes=70)
    test.receive(Batch([1, 2, 3]), Watermark(5))
    test.receive(Batch([4]))
    metrics = test.task.metrics()
    sent = sum(message.size_bytes for message in test.ports.sent)
    assert (metrics.records_in, metrics.records_out) == (4, 4) == (4, len(test.ports.records()))
    assert metrics.bytes_in == 4 * RECORD_BYTES + 1
    assert metrics.bytes_out == metrics.output_bytes == sent
    assert metrics.watermark_ms == 5
    assert metrics.input_bytes == 0


def test_a_record_for_every_receiver_is_one_record_and_the_bytes_of_all() -> None:
    subtask = subtask_of([Slow()], downstream=3, partitioning=Partitioning.BROADCAST)
    test = TaskUnderTest(subtask, buffer_timeout_ms=0)
    Slow.ports = (test.ports,)
    test.start().receive(Batch([1, 2]))
    metrics = test.task.metrics()
    assert metrics.records_out == 2
    assert metrics.bytes_out == 3 * 2 * RECORD_BYTES


def test_a_source_counts_what_it_reads_and_tells_its_own_watermark() -> None:
    test = TaskUnderTest(subtask_of([SourceOperator(CollectionSource(range(250)))], channels=0)).start()
    assert test.task.metrics().watermark_ms is None
    for number in range(1, 4):
        test.put(events.CreditReturned(test.ports.sent[0].channel, 100 * RECORD_BYTES))
        assert test.task.metrics().records_in == min(250, 100 * number + 100)
    metrics = test.task.metrics()
    assert (metrics.records_in, metrics.records_out) == (250, 250)
    assert (metrics.bytes_in, metrics.input_bytes) == (0, 0)


def test_what_waits_for_credit_is_in_the_gate() -> None:
    test = slow_task(buffer_timeout_ms=0, channel_credit_bytes=10)
    test.receive(Batch([1]))
    test.receive(Batch([2, 3]))
    assert test.task.metrics().input_bytes == 2 * RECORD_BYTES
    assert test.task.metrics().records_in == 1


def test_work_is_busy_time_and_nothing_to_do_is_idle_time() -> None:
    test = slow_task()
    test.receive(Batch([1, 2]))
    test.ports.pass_ms(20)
    test.receive(Batch([3]))
    assert times(test.task.metrics()) == (21.0, 0.0, 20.0)
    test.ports.pass_ms(5)
    assert times(test.task.metrics()) == (21.0, 0.0, 25.0)


def test_without_credit_a_task_is_backpressured_if_it_has_input_and_else_idle() -> None:
    test = slow_task(buffer_timeout_ms=0, channel_credit_bytes=10)
    test.receive(Batch([1]))
    test.ports.pass_ms(30)
    assert times(test.task.metrics()) == (7.0, 0.0, 30.0)
    test.receive(Batch([2]))
    test.ports.pass_ms(40)
    assert times(test.task.metrics()) == (7.0, 40.0, 30.0)
    test.put(events.CreditReturned(test.ports.sent[0].channel, RECORD_BYTES))
    assert times(test.task.metrics()) == (14.0, 40.0, 30.0)


def test_a_slow_sink_is_busy_and_backpressures_its_source() -> None:
    source = TaskUnderTest(
        subtask_of([SourceOperator(CollectionSource(range(10_000)))], channels=0, downstream=1),
        channel_credit_bytes=100 * RECORD_BYTES,
    )
    sink = TaskUnderTest(subtask_of([Slow()], downstream=0))
    Slow.ports = (source.ports, sink.ports)
    sink.start()
    source.start()
    for _ in range(5):
        # What was sent is worked off while the source waits, and then its credit comes back.
        sent, source.ports.sent = source.ports.sent, []
        for message in sent:
            sink.receive(*message.elements)
            source.put(events.CreditReturned(message.channel, message.size_bytes))
    upstream, downstream = source.task.metrics(), sink.task.metrics()
    assert downstream.records_in == 500
    assert downstream.busy_ms == upstream.backpressured_ms == 500 * 7
    assert downstream.backpressured_ms == downstream.idle_ms == 0
    assert upstream.busy_ms == upstream.idle_ms == 0


class Stateful(StreamOperator):
    """Keeps the last value of a key, and counts in a metric."""

    asked = 0
    """How often the gauge of any of them was asked."""

    def open(self) -> None:
        self.keyed = self.context.create_keyed_backend(None)
        self._last = self.keyed.get_value_state(ValueStateDescriptor("last", None))
        group = self.context.metrics.add_group("orders").add_group("country", "fr")
        self._seen = group.counter("seen")
        group.gauge("asked", self._ask)

    def _ask(self) -> int:
        Stateful.asked += 1
        return 1

    def process_batch(self, batch: Batch, input_index: int) -> None:
        assert self.keyed is not None
        for value in batch.values:
            self.keyed.current_key = value
            self._last.update("x" * 100)
        self._seen.inc(len(batch))
        self.context.metrics.counter("numLateRecordsDropped").inc()


def test_state_is_as_large_as_its_last_snapshot() -> None:
    test = TaskUnderTest(subtask_of([Stateful()])).start()
    test.receive(Batch([1, 2, 3]))
    assert test.task.metrics().state_bytes is None
    test.receive(barrier(1))
    test.ports.run_background()
    test.run()
    (acknowledged,) = test.ports.reported(SubtaskAcknowledged)
    assert test.task.metrics().state_bytes == acknowledged.acknowledgement.metrics.size_bytes > 300
    restored = TaskUnderTest(subtask_of([Stateful()]), acknowledged.acknowledgement.snapshots)
    test.task.abandon()
    restored.start()
    assert restored.task.metrics().state_bytes == test.task.metrics().state_bytes
    restored.task.abandon()


def test_metrics_of_functions_come_by_name_and_with_what_the_name_is_made_of() -> None:
    test = TaskUnderTest(subtask_of([Stateful()])).start()
    test.receive(Batch([1, 2, 3]))
    metrics = test.task.metrics()
    assert metrics.user == {
        "Stateful.orders.country.fr.seen": 3,
        "Stateful.orders.country.fr.asked": 1,
        "Stateful.numLateRecordsDropped": 1,
    }
    scope = metrics.scopes["Stateful.orders.country.fr.seen"]
    assert (scope.operator_uid, scope.path, scope.labels) == (
        "uid-10",
        ("orders", "country", "seen"),
        {"country": "fr"},
    )
    assert metrics.late_records == 1
    test.task.abandon()
    assert test.task.metrics().user == {}


def test_a_finished_task_says_its_last_metrics() -> None:
    test = diary_task(is_checkpointing=False).start()
    test.receive(Batch(["a"]), EndOfInput())
    (finished,) = test.ports.reported(events.TaskFinished)
    assert (finished.metrics.records_in, finished.metrics.records_out) == (1, 3)


def test_no_gauge_is_asked_at_the_end_where_it_could_hang() -> None:
    test = TaskUnderTest(subtask_of([Stateful()]), is_checkpointing=False).start()
    test.receive(Batch([1]))
    asked = Stateful.asked
    test.receive(EndOfInput())
    (finished,) = test.ports.reported(events.TaskFinished)
    assert finished.metrics.user == {
        "Stateful.orders.country.fr.seen": 1,
        "Stateful.numLateRecordsDropped": 1,
    }
    assert Stateful.asked == asked


def test_a_task_that_is_not_initialised_has_measured_nothing() -> None:
    assert diary_task().task.metrics() == TaskMetrics()
