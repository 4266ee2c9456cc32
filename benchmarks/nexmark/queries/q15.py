"""Bidding statistics: how many bids, bidders and auctions a day has, in all and by rank of price."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import MapStateDescriptor, ValueStateDescriptor

from .events import Event, bids, day_of, rank_of

COUNTS = Types.TUPLE([Types.LONG()] * 12)
NOTHING = (0,) * 12


class DistinctCounts:
    """Counts of bids, of bidders and of auctions, each in all and for the three ranks.

    Like Flink SQL it keeps for each bidder, and each auction, the ranks in which he was counted, as bits.
    """

    def __init__(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", COUNTS))
        names = ("bidders", "auctions")
        kinds = [MapStateDescriptor(name, Types.LONG(), Types.LONG()) for name in names]
        self.bidders, self.auctions = (runtime_context.get_map_state(kind) for kind in kinds)

    def add(self, event: Event) -> tuple[int, ...]:
        rank = rank_of(event[3])
        counts = list(self.counts.value() or NOTHING)
        counts[0] += 1
        counts[1 + rank] += 1
        for first, seen, member in ((4, self.bidders, event[2]), (8, self.auctions, event[1])):
            ranks = seen.get(member) or 0
            if not ranks:
                counts[first] += 1
            if not ranks >> rank & 1:
                counts[first + 1 + rank] += 1
                seen.put(member, ranks | 1 << rank)
        result = tuple(counts)
        self.counts.update(result)
        return result


class DayStatistics(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.distinct = DistinctCounts(runtime_context)

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        yield (ctx.get_current_key(), *self.distinct.add(value))


def q15(events: DataStream) -> DataStream:
    """(day, bids, bidders and auctions, each in all and by rank); the latest row of a day counts."""
    return bids(events).key_by(lambda event: day_of(event[6]), Types.STRING()).process(DayStatistics())
