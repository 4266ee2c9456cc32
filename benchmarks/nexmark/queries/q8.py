"""New users: persons who open an auction in the ten seconds in which they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.common import Time, Types
from tidegate.datastream import AggregateFunction, DataStream, ProcessWindowFunction
from tidegate.datastream.window import TimeWindow, TumblingEventTimeWindows

from .events import BID, PERSON, Event, timed

Newcomer = tuple[str | None, bool]
"""A person's name if he came in this window, and whether he sells."""


class NameAndSale(AggregateFunction):
    def create_accumulator(self) -> Newcomer:
        return None, False

    def add(self, value: Event, accumulator: Newcomer) -> Newcomer:
        return (value[2], accumulator[1]) if value[0] == PERSON else (accumulator[0], True)

    def get_result(self, accumulator: Newcomer) -> Newcomer:
        return accumulator

    def merge(self, acc_a: Newcomer, acc_b: Newcomer) -> Newcomer:
        return acc_a[0] or acc_b[0], acc_a[1] or acc_b[1]


class SellersOnly(ProcessWindowFunction):
    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Newcomer]
    ) -> Iterator[Event]:
        for name, sells in elements:
            if name is not None and sells:
                yield key, name, context.window().start


def person_of(event: Event) -> int:
    return event[1] if event[0] == PERSON else event[8]


def q8(events: DataStream) -> DataStream:
    """(person, name, start of the window)."""
    both = timed(events.filter(lambda event: event[0] != BID)).key_by(person_of, Types.LONG())
    windows = both.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.aggregate(NameAndSale(), SellersOnly())
