"""A watermark that makes many timers due: some fire at a time, and everything else waits for the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from tidegate.connectors.collection import CollectionSource
from tidegate.operators.base import StreamOperator
from tidegate.operators.functions import KeyedProcessFunction
from tidegate.operators.keyed.keyed import KeyedProcessOperator
from tidegate.operators.sources.sources import SourceOperator
from tidegate.operators.timers.timers import FIRED_AT_ONCE
from tidegate.protocol import task_events as events
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch, CheckpointBarrier, EndOfInput, Watermark
from tidegate.protocol.ids import CheckpointId

from tests.runtime.fakes import TaskUnderTest, barrier, subtask_of

MANY = 2 * FIRED_AT_ONCE + 1


class Alarms(KeyedProcessFunction):
    """A timer at 5 for each number; what is no number goes through."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if isinstance(value, int):
            ctx.timer_service().register_event_time_timer(5)
        else:
            yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key()


class Mailing(StreamOperator):
    """Emits later what it is told to; `do` says when."""

    do: ClassVar[list[Callable[[], None]]] = []

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.do.append(lambda: self.context.mailbox(lambda: self.emit(Batch(["mail"]))))
        self.emit(batch)


def alarms(before: tuple[StreamOperator, ...] = (), **settings: Any) -> TaskUnderTest:
    operators = [*before, KeyedProcessOperator(Alarms(), str)]
    test = TaskUnderTest(subtask_of(operators), buffer_timeout_ms=0, batch_size=1, **settings).start()
    test.receive(Batch(list(range(MANY))))
    return test


def consume(test: TaskUnderTest, position: int) -> None:
    """The receiver takes a message."""
    message = test.ports.sent[position]
    test.put(events.CreditReturned(message.channel, message.size_bytes))


def test_what_timers_give_waits_for_credit_and_barriers_and_records_wait_for_them() -> None:
    test = alarms(channel_credit_bytes=10)
    test.receive(Watermark(7), Batch(["behind"]), barrier(1))
    assert len(test.ports.records()) == FIRED_AT_ONCE
    consume(test, 0)
    assert len(test.ports.records()) == 2 * FIRED_AT_ONCE
    consume(test, 1)
    numbers = list(map(str, range(MANY)))
    assert test.ports.records() == numbers
    assert test.ports.elements()[3:] == [Watermark(7)]
    consume(test, 2)
    consume(test, 3)
    assert test.ports.records() == [*numbers, "behind"]
    consume(test, 4)
    assert test.ports.elements()[-1] == barrier(1)


def test_a_source_takes_its_trigger_behind_the_timers_that_the_end_of_its_input_made_due() -> None:
    chain = [SourceOperator(CollectionSource(range(MANY))), KeyedProcessOperator(Alarms(), str)]
    settings = {"batch_size": MANY, "buffer_timeout_ms": 0, "channel_credit_bytes": 10}
    test = TaskUnderTest(subtask_of(chain, channels=0), **settings).start()
    test.put(events.TriggerCheckpoint(barrier(1)))
    assert len(test.ports.records()) == FIRED_AT_ONCE
    consume(test, 0)
    assert len(test.ports.elements()) == 2
    consume(test, 1)
    assert len(test.ports.records()) == MANY
    assert test.ports.elements()[3:] == [Watermark(MAX_WATERMARK_MS), barrier(1)]


def test_a_barrier_that_overtakes_records_does_not_overtake_timers_that_are_due() -> None:
    test = alarms(channel_credit_bytes=10)
    test.receive(Watermark(7))
    test.receive(Batch(["overtaken"]))
    overtaking = CheckpointBarrier(CheckpointId(1), 0, aligned_timeout_ms=0)
    test.receive(overtaking)
    consume(test, 0)
    assert len(test.ports.elements()) == 2
    consume(test, 1)
    assert len(test.ports.records()) == MANY
    assert test.ports.elements()[3:] == [Watermark(7), overtaking]


def test_an_operator_before_them_emits_what_it_has_under_way_behind_the_watermark() -> None:
    Mailing.do.clear()
    test = alarms((Mailing(),), channel_credit_bytes=10)
    test.receive(Watermark(7))
    Mailing.do[0]()
    test.run()
    consume(test, 0)
    consume(test, 1)
    consume(test, 2)
    consume(test, 3)
    assert test.ports.elements()[3:] == [Watermark(7), Batch(["mail"])]


def test_the_end_of_the_input_waits_for_the_last_timer() -> None:
    test = alarms(channel_credit_bytes=10)
    test.receive(EndOfInput())
    assert EndOfInput() not in test.ports.elements()
    for position in range(4):
        consume(test, position)
    assert len(test.ports.records()) == MANY
    assert test.ports.elements()[-1] == EndOfInput()
