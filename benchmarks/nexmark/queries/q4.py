"""Average price: of the highest bids for the auctions of each category."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedCoProcessFunction, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import ListStateDescriptor, ValueStateDescriptor

from .events import Event, auctions, bids

LONG = Types.LONG()


class HighestBid(KeyedCoProcessFunction):
    """The highest bid for an auction while it was open; bids that come before the auction wait.

    Gives the category, by how much the highest bid has grown, and 1 if it is the first.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        # Category, begin, end, and the highest bid or -1.
        auction = ValueStateDescriptor("auction", Types.TUPLE([LONG, LONG, LONG, LONG]))
        self.auction = runtime_context.get_state(auction)
        # Price and time.
        waiting = ListStateDescriptor("waiting", Types.TUPLE([LONG, LONG]))
        self.waiting = runtime_context.get_list_state(waiting)

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        begin, end, category = value[6], value[7], value[9]
        prices = [price for price, time in self.waiting.get() or () if begin <= time <= end]
        highest = max(prices, default=-1)
        self.auction.update((category, begin, end, highest))
        self.waiting.clear()
        if highest >= 0:
            yield category, highest, 1

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        price, time = value[3], value[6]
        auction = self.auction.value()
        if auction is None:
            self.waiting.add((price, time))
            return
        category, begin, end, highest = auction
        if price > highest and begin <= time <= end:
            self.auction.update((category, begin, end, price))
            yield (category, price, 1) if highest < 0 else (category, price - highest, 0)


class Average(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        state = ValueStateDescriptor("total and count", Types.TUPLE([LONG, LONG]))
        self.state = runtime_context.get_state(state)

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        total, count = self.state.value() or (0, 0)
        category, more, first = value
        total, count = total + more, count + first
        self.state.update((total, count))
        yield category, total // count


def q4(events: DataStream) -> DataStream:
    """(category, average); the latest row of a category counts."""
    both = auctions(events).connect(bids(events))
    by_auction = both.key_by(lambda auction: auction[1], lambda bid: bid[1], LONG)
    changes = by_auction.process(HighestBid(), Types.TUPLE([LONG, LONG, LONG]))
    return changes.key_by(lambda change: change[0], LONG).process(Average())
