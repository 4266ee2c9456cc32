"""Auction statistics: the bids for an auction on a day, by rank, and their prices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.datastream import Count, DataStream, Max, Min, Sum

from ..queries.events import day_of
from .events import bids, numbers
from .q15 import MS_PER_DAY, ranks_of

DAYS = 1 << 20
"""More days than there will be."""
RANKS = ("rank1_bids", "rank2_bids", "rank3_bids")
BIDS = pa.schema([("key", pa.int64()), ("price", pa.int64()), *((name, pa.bool_()) for name in RANKS)])
STATISTICS = pa.schema(
    [
        ("auction", pa.int64()),
        ("day", pa.string()),
        *((name, pa.int64()) for name in ("total_bids", *RANKS)),
        *((f"{name}_price", pa.int64()) for name in ("min", "max", "avg", "sum")),
    ]
)


def with_rank(batch: pa.RecordBatch) -> pa.RecordBatch:
    """An auction and a day in one number, and for each rank whether it is the bid's."""
    key = numbers(batch, "auction") * DAYS + numbers(batch, "date_time") // MS_PER_DAY
    ranks = ranks_of(numbers(batch, "price"))
    return pa.record_batch(
        [key, batch["price"], *(pa.array(ranks == rank) for rank in range(3))], schema=BIDS
    )


def statistics(batch: pa.RecordBatch) -> pa.RecordBatch:
    key = numbers(batch, "key")
    days, codes = np.unique(key % DAYS, return_inverse=True)
    day = pa.array([day_of(day * MS_PER_DAY) for day in days.tolist()]).take(pa.array(codes))
    average = pc.divide(batch["sum_price"], batch["total_bids"])
    columns = [batch[name] for name in ("total_bids", *RANKS, "min_price", "max_price")]
    return pa.record_batch([key // DAYS, day, *columns, average, batch["sum_price"]], schema=STATISTICS)


def q17(events: DataStream) -> DataStream:
    """(auction, day, bids, those of each rank, lowest, highest, average and total price).

    The latest row of an auction and day counts.
    """
    rows = bids(events, "auction", "price", "date_time").map_batches(with_rank, BIDS)
    running = rows.key_by("key").aggregate(
        total_bids=Count(),
        **{name: Sum(name) for name in RANKS},
        min_price=Min("price"),
        max_price=Max("price"),
        sum_price=Sum("price"),
    )
    return running.map_batches(statistics, STATISTICS)
