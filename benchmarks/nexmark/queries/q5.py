"""Hot items: the auctions with the most bids in the last ten seconds, every two seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.common import Time, Types
from tidegate.datastream import AggregateFunction, DataStream, ProcessWindowFunction
from tidegate.datastream.window import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows

from .events import Event, bids, timed

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Event, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithAuction(ProcessWindowFunction):
    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> Iterator[tuple[int, int]]:
        for count in elements:
            yield key, count


class Hottest(AggregateFunction):
    """Those with the largest count."""

    def create_accumulator(self) -> list[tuple[int, int]]:
        return []

    def add(self, value: tuple[int, int], accumulator: list[tuple[int, int]]) -> list[tuple[int, int]]:
        if not accumulator or value[1] > accumulator[0][1]:
            return [value]
        return [*accumulator, value] if value[1] == accumulator[0][1] else accumulator

    def get_result(self, accumulator: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return accumulator

    def merge(self, acc_a: list[tuple[int, int]], acc_b: list[tuple[int, int]]) -> list[tuple[int, int]]:
        most = max(count for _, count in acc_a + acc_b)
        return [pair for pair in acc_a + acc_b if pair[1] == most]


def q5(events: DataStream) -> DataStream:
    """(auction, bids)."""
    windows = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2))
    by_auction = timed(bids(events)).key_by(lambda event: event[1], Types.LONG())
    counts = by_auction.window(windows).aggregate(Count(), WithAuction(), Types.LONG(), PAIR)
    # A count has the time of its window's end, so those of one sliding window meet in one of two seconds.
    hottest = counts.window_all(TumblingEventTimeWindows.of(Time.seconds(2))).aggregate(Hottest())
    return hottest.flat_map(lambda pairs: pairs, PAIR)
