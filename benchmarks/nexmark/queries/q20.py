"""Bids with their auctions, of category 10."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedCoProcessFunction, RuntimeContext
from tidegate.datastream.state import ListStateDescriptor, ValueStateDescriptor

from .events import Event, auctions, bids

OTHER_CATEGORY: Event = ()


class WithAuction(KeyedCoProcessFunction):
    """Joins bids with their auction; those that come before it wait."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pickled = Types.PICKLED_BYTE_ARRAY()
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", pickled))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", pickled))

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        auction = value[2:] if value[9] == 10 else OTHER_CATEGORY
        self.auction.update(auction)
        if auction:
            for bid in self.waiting.get() or ():
                yield bid + auction
        self.waiting.clear()

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        auction = self.auction.value()
        if auction is None:
            self.waiting.add(value[1:])
        elif auction:
            yield value[1:] + auction


def q20(events: DataStream) -> DataStream:
    """The columns of the bid, then those of its auction without its number."""
    both = auctions(events).connect(bids(events))
    by_auction = both.key_by(lambda auction: auction[1], lambda bid: bid[1], Types.LONG())
    return by_auction.process(WithAuction())
