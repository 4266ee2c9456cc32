"""Selection: the bids for every 123rd auction."""

from __future__ import annotations

from tidegate.common import Types
from tidegate.datastream import DataStream

from .events import bids


def q2(events: DataStream) -> DataStream:
    """(auction, price)."""
    chosen = bids(events).filter(lambda event: event[1] % 123 == 0)
    return chosen.map(lambda event: (event[1], event[3]), Types.TUPLE([Types.LONG(), Types.LONG()]))
