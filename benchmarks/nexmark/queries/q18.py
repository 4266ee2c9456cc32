"""Last bid: the latest of each bidder for each auction."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import ValueStateDescriptor

from .events import Event, bids


class Latest(KeyedProcessFunction):
    """Of bids at the same time the one that comes last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.time = runtime_context.get_state(ValueStateDescriptor("time", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        time, latest = value[6], self.time.value()
        if latest is None or time >= latest:
            self.time.update(time)
            yield value[1:]


def q18(events: DataStream) -> DataStream:
    """(auction, bidder, price, channel, url, time, extra); the latest row of bidder and auction counts."""
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    return bids(events).key_by(lambda event: (event[2], event[1]), pair).process(Latest())
