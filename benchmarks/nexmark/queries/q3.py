"""Local items: who in three states sells in category 10, and what."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedCoProcessFunction, RuntimeContext
from tidegate.datastream.state import ListStateDescriptor, ValueStateDescriptor

from .events import Event, auctions, persons

STATES = ("OR", "ID", "CA")


class SellerWithAuctions(KeyedCoProcessFunction):
    """Joins a seller with his auctions; those that come before him wait."""

    def open(self, runtime_context: RuntimeContext) -> None:
        seller = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()])
        self.seller = runtime_context.get_state(ValueStateDescriptor("seller", seller))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(value[1])
        else:
            yield (*seller, value[1])

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        seller = (value[2], value[5], value[6])
        self.seller.update(seller)
        for auction in self.waiting.get() or ():
            yield (*seller, auction)
        self.waiting.clear()


def q3(events: DataStream) -> DataStream:
    """(name, city, state, auction)."""
    items = auctions(events).filter(lambda event: event[9] == 10)
    sellers = persons(events).filter(lambda event: event[6] in STATES)
    both = items.connect(sellers)
    by_seller = both.key_by(lambda auction: auction[8], lambda person: person[1], Types.LONG())
    return by_seller.process(SellerWithAuctions())
