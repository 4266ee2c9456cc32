"""Top ten: the highest bids for each auction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import ValueStateDescriptor

from .events import Event, bids

TOP = 10


class TopTen(KeyedProcessFunction):
    """Of bids alike the earlier one is above. Gives the rows of all ranks that have another bid now."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("top", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        bid = value[1:]
        top = self.state.value() or []
        if len(top) == TOP and bid[2] <= top[-1][2]:
            return
        place = bisect_right(top, -bid[2], key=lambda other: -other[2])
        top = [*top[:place], bid, *top[place : TOP - 1]]
        self.state.update(top)
        for rank in range(place, len(top)):
            yield (*top[rank], rank + 1)


def q19(events: DataStream) -> DataStream:
    """The columns of the bid, and its rank from 1; the latest row of an auction and rank counts."""
    return bids(events).key_by(lambda event: event[1], Types.LONG()).process(TopTen())
