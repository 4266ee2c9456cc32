"""Currency: every bid, its price in euros."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from tidegate.datastream import DataStream

from .q0 import q0

EUROS = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.float64()),
        ("date_time", pa.int64()),
        ("extra", pa.string()),
    ]
)


def in_euros(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(2, "price", pc.multiply(batch["price"], 0.908))


def q1(events: DataStream) -> DataStream:
    """(auction, bidder, price, date_time, extra)."""
    return q0(events).map_batches(in_euros, EUROS)
