"""Average price: of the highest bids for the auctions of each category.

Auctions and bids go to one function as rows of one stream, and it looks at a whole batch of them: which
come first does not matter within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedBatchFunction, RuntimeContext, Sum
from tidegate.datastream.state import ValueStateDescriptor

from ..generator import AUCTION, PERSON
from .events import Int64s, numbers

ROWS = pa.schema(
    {
        "auction": pa.int64(),
        "is_auction": pa.bool_(),
        "date_time": pa.int64(),
        "price": pa.int64(),
        "expires": pa.int64(),
        "category": pa.int64(),
    }
)
CHANGES = pa.schema({"category": pa.int64(), "more": pa.int64(), "first": pa.int64()})
AVERAGES = pa.schema({"category": pa.int64(), "average": pa.int64()})
UNKNOWN = -1
NOTHING = (UNKNOWN, 0, 0, UNKNOWN, ())


def auctions_and_bids(batch: pa.RecordBatch) -> pa.RecordBatch:
    auction, bid = batch["auction"], batch["bid"]
    is_auction = pc.equal(batch["kind"], AUCTION)
    columns = {
        "auction": pc.coalesce(auction.field("id"), bid.field("auction"), 0),
        "is_auction": is_auction,
        "date_time": batch["date_time"],
        "price": pc.coalesce(bid.field("price"), 0),
        "expires": pc.coalesce(auction.field("expires"), 0),
        "category": pc.coalesce(auction.field("category"), 0),
    }
    return pa.record_batch(columns, schema=ROWS)


class HighestBids(KeyedBatchFunction):
    """The highest bid for each auction while it was open; bids that come before the auction wait.

    Gives the category, by how much the highest bid has grown, and 1 if it is the first.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        # Category, begin, end, highest bid, and the (price, time) of bids that wait.
        descriptor = ValueStateDescriptor("auction", Types.PICKLED_BYTE_ARRAY())
        self.state = runtime_context.get_state(descriptor)

    def process_batch(self, batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
        codes, times, prices = ctx.codes, numbers(batch, "date_time"), numbers(batch, "price")
        states = [state or NOTHING for state in self.state.get_many(ctx.keys)]
        waiting = [state[4] for state in states]
        category, begin, end, highest = np.array([state[:4] for state in states]).T.copy()
        is_auction = batch["is_auction"].to_numpy(zero_copy_only=False)
        new = codes[is_auction]
        category[new] = numbers(batch, "category")[is_auction]
        begin[new], end[new] = times[is_auction], numbers(batch, "expires")[is_auction]
        before = highest.copy()
        is_known = category[codes] != UNKNOWN
        is_open = is_known & ~is_auction & (times >= begin[codes]) & (times <= end[codes])
        np.maximum.at(highest, codes[is_open], prices[is_open])
        for code in new.tolist():
            for price, time in waiting[code]:
                if begin[code] <= time <= end[code]:
                    highest[code] = max(highest[code], price)
            waiting[code] = ()
        for row in np.flatnonzero(~is_known).tolist():
            waiting[codes[row]] = (*waiting[codes[row]], (int(prices[row]), int(times[row])))
        self._put(ctx.keys, (category, begin, end, highest), waiting)
        has_grown = np.flatnonzero(highest > before)
        first = before[has_grown] == UNKNOWN
        more = highest[has_grown] - np.where(first, 0, before[has_grown])
        return pa.record_batch([category[has_grown], more, first.astype(np.int64)], schema=CHANGES)

    def _put(self, keys: list[Any], columns: tuple[Int64s, ...], waiting: list[Any]) -> None:
        lists = [column.tolist() for column in columns]
        self.state.put_many(keys, list(zip(*lists, waiting, strict=True)))


def averages(batch: pa.RecordBatch) -> pa.RecordBatch:
    average = numbers(batch, "total") // numbers(batch, "count")
    return pa.record_batch([batch["category"], average], schema=AVERAGES)


def q4(events: DataStream) -> DataStream:
    """(category, average); the latest row of a category counts."""
    rows = events.filter_batches(lambda batch: pc.not_equal(batch["kind"], PERSON))
    rows = rows.map_batches(auctions_and_bids, ROWS)
    changes = rows.key_by("auction").process_batches(HighestBids(), CHANGES)
    totals = changes.key_by("category").aggregate(total=Sum("more"), count=Sum("first"))
    return totals.map_batches(averages, AVERAGES)
