"""Highest bid: of every ten seconds, all of them if several are alike.

The SQL of nexmark-flink also finds, for each window, bids at its very end that happen to be as high; they
belong to the next window and are left out here and in the check.
"""

from __future__ import annotations

from tidegate.common import Time
from tidegate.datastream import AggregateFunction, DataStream
from tidegate.datastream.window import TumblingEventTimeWindows

from .events import Event, bids, timed


class Highest(AggregateFunction):
    """The bids with the highest price, which is at 3."""

    def create_accumulator(self) -> list[Event]:
        return []

    def add(self, value: Event, accumulator: list[Event]) -> list[Event]:
        if not accumulator or value[3] > accumulator[0][3]:
            return [value]
        return [*accumulator, value] if value[3] == accumulator[0][3] else accumulator

    def get_result(self, accumulator: list[Event]) -> list[Event]:
        return accumulator

    def merge(self, acc_a: list[Event], acc_b: list[Event]) -> list[Event]:
        highest = max(bid[3] for bid in acc_a + acc_b)
        return [bid for bid in acc_a + acc_b if bid[3] == highest]


def result(event: Event) -> Event:
    _, auction, bidder, price, _, _, time, extra = event
    return auction, price, bidder, time, extra


def q7(events: DataStream) -> DataStream:
    """(auction, price, bidder, time, extra)."""
    windows = timed(bids(events)).window_all(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.aggregate(Highest()).flat_map(lambda highest: map(result, highest))
