"""Bidding statistics: how many bids, bidders and auctions a day has, in all and by rank of price.

Who is counted already is kept for each bidder and each auction, so this work is shared among subtasks; what
is new in a batch goes on as one row.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedBatchFunction, RuntimeContext, Sum
from tidegate.datastream.state import ValueStateDescriptor

from ..queries.events import day_of
from .events import Int64s, bids, numbers

MS_PER_DAY = 86_400_000
IDS = 1 << 40
"""More than there are bidders or auctions."""
PRICES = pa.schema({"day": pa.int64(), "price": pa.int64()})
MEMBERS = pa.schema({"member": pa.int64(), "rank": pa.int64()})
SUBJECTS = ("bids", "bidders", "auctions")
COUNTS = [f"{rank}{subject}" for subject in SUBJECTS for rank in ("total_", "rank1_", "rank2_", "rank3_")]
CHANGES = pa.schema([("day", pa.int64()), *((name, pa.int64()) for name in COUNTS)])
STATISTICS = pa.schema([("day", pa.string()), *((name, pa.int64()) for name in COUNTS)])


def ranks_of(prices: Int64s) -> Int64s:
    """0 for prices below 10,000, 1 for those below a million, else 2."""
    return np.searchsorted([10_000, 1_000_000], prices, side="right")


def changes(days: Int64s, subject: str, counted: Int64s) -> pa.RecordBatch:
    """One row for each day: by how much the counts of a subject grow.

    Args:
        days: For each row of `counted`.
        counted: A column for the count of all and one for each rank.
    """
    days, codes = np.unique(days, return_inverse=True)
    sums = np.zeros((len(days), 4), np.int64)
    np.add.at(sums, codes, counted)
    columns = [np.zeros(len(days), np.int64)] * len(COUNTS)
    first = SUBJECTS.index(subject) * 4
    columns[first : first + 4] = sums.T
    return pa.record_batch([days, *columns], schema=CHANGES)


def days_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([numbers(batch, "date_time") // MS_PER_DAY, batch["price"]], schema=PRICES)


def bids_of_days(batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
    ranks = ranks_of(numbers(batch, "price"))
    counted = np.column_stack([np.ones(len(ranks), np.int64), *(ranks == rank for rank in range(3))])
    return changes(numbers(batch, "day"), "bids", counted)


def members_of(subject: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A bidder or auction on a day, in one number."""
    days = numbers(batch, "date_time") // MS_PER_DAY
    return pa.record_batch(
        [days * IDS + numbers(batch, subject), ranks_of(numbers(batch, "price"))], schema=MEMBERS
    )


class NewMembers(KeyedBatchFunction):
    """Counts bidders or auctions that a day, or a rank of a day, has not had before.

    Like Flink SQL it keeps the ranks in which a member was counted, as bits.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def open(self, runtime_context: RuntimeContext) -> None:
        self.ranks = runtime_context.get_state(ValueStateDescriptor("ranks", Types.LONG()))

    def process_batch(self, batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch | None:
        before = np.array([ranks or 0 for ranks in self.ranks.get_many(ctx.keys)])
        now = before.copy()
        np.bitwise_or.at(now, ctx.codes, 1 << numbers(batch, "rank"))
        grown = np.flatnonzero(now != before)
        if not len(grown):
            return None
        keys = np.array(ctx.keys)[grown]
        self.ranks.put_many(keys.tolist(), now[grown].tolist())
        new = now[grown] & ~before[grown]
        counted = np.column_stack([before[grown] == 0, *(new >> rank & 1 for rank in range(3))])
        return changes(keys // IDS, self.subject, counted)


def q15(events: DataStream) -> DataStream:
    """(day, bids, bidders and auctions, each in all and by rank); the latest row of a day counts."""
    prices = bids(events, "bidder", "auction", "price", "date_time")
    streams = [prices.map_batches(days_of, PRICES).key_by("day").process_batches(bids_of_days, CHANGES)]
    for column, subject in (("bidder", "bidders"), ("auction", "auctions")):
        members = prices.map_batches(partial(members_of, column), MEMBERS).key_by("member")
        streams.append(members.process_batches(NewMembers(subject), CHANGES))
    every = streams[0].union(*streams[1:]).key_by("day")
    totals = every.aggregate(**{name: Sum(name) for name in COUNTS})
    return totals.map_batches(with_day, STATISTICS)


def with_day(batch: pa.RecordBatch) -> pa.RecordBatch:
    days = [day_of(day * MS_PER_DAY) for day in batch["day"].to_pylist()]
    return pa.record_batch([pa.array(days), *batch.columns[1:]], schema=STATISTICS)
