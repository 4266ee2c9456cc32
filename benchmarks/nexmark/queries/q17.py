"""Auction statistics: the bids for an auction on a day, by rank, and their prices."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import ValueStateDescriptor

from .events import Event, bids, day_of, rank_of

LONG = Types.LONG()


class AuctionStatistics(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        # Bids of each rank, lowest and highest price, sum.
        self.state = runtime_context.get_state(ValueStateDescriptor("statistics", Types.TUPLE([LONG] * 6)))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        price = value[3]
        *ranks, lowest, highest, total = self.state.value() or (0, 0, 0, price, price, 0)
        ranks[rank_of(price)] += 1
        lowest, highest, total = min(lowest, price), max(highest, price), total + price
        self.state.update((*ranks, lowest, highest, total))
        count = sum(ranks)
        yield value[1], day_of(value[6]), count, *ranks, lowest, highest, total // count, total


def q17(events: DataStream) -> DataStream:
    """(auction, day, bids, those of each rank, lowest, highest, average and total price).

    The latest row of an auction and day counts.
    """
    pair = Types.TUPLE([LONG, Types.STRING()])
    by_auction = bids(events).key_by(lambda event: (event[1], day_of(event[6])), pair)
    return by_auction.process(AuctionStatistics())
