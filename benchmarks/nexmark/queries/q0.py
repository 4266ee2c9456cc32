"""Pass through: every bid."""

from __future__ import annotations

from tidegate.datastream import DataStream

from .events import Event, bids


def bid(event: Event) -> Event:
    _, auction, bidder, price, _, _, time, extra = event
    return auction, bidder, price, time, extra


def q0(events: DataStream) -> DataStream:
    """(auction, bidder, price, time, extra)."""
    return bids(events).map(bid)
