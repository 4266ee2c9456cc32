"""Selection: the bids for every 123rd auction."""

from __future__ import annotations

from tidegate.datastream import DataStream

from .events import bids, numbers


def q2(events: DataStream) -> DataStream:
    """(auction, price)."""
    return bids(events, "auction", "price").filter_batches(lambda batch: numbers(batch, "auction") % 123 == 0)
