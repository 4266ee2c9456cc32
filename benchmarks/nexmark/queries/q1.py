"""Currency: every bid, its price in euros."""

from __future__ import annotations

from tidegate.datastream import DataStream

from .events import Event, bids


def in_euros(event: Event) -> Event:
    _, auction, bidder, price, _, _, time, extra = event
    return auction, bidder, 0.908 * price, time, extra


def q1(events: DataStream) -> DataStream:
    """(auction, bidder, price, time, extra)."""
    return bids(events).map(in_euros)
