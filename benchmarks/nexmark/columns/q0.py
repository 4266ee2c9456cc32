"""Pass through: every bid."""

from __future__ import annotations

from tidegate.datastream import DataStream

from .events import bids


def q0(events: DataStream) -> DataStream:
    """(auction, bidder, price, date_time, extra)."""
    return bids(events, "auction", "bidder", "price", "date_time", "extra")
