"""Highest bid: of every ten seconds, all of them if several are alike.

Of each batch only the highest bids of a window go on, so the windows get few records.
"""

from __future__ import annotations

import pyarrow as pa
from tidegate.common import Time
from tidegate.datastream import DataStream
from tidegate.datastream.window import TumblingEventTimeWindows

from ..queries.q7 import Highest
from .events import bids, is_largest, numbers

SIZE_MS = 10_000


def highest_of_batch(batch: pa.RecordBatch) -> object:
    return is_largest(numbers(batch, "price"), numbers(batch, "date_time") // SIZE_MS)


def q7(events: DataStream) -> DataStream:
    """(auction, price, bidder, date_time, extra)."""
    # `Highest` looks for the price at 3.
    high = bids(events, "auction", "bidder", "date_time", "price", "extra").filter_batches(highest_of_batch)
    windows = high.window_all(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
    return windows.aggregate(Highest()).flat_map(
        lambda found: ((auction, price, bidder, time, extra) for auction, bidder, time, price, extra in found)
    )
