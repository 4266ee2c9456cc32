"""Last bid: the latest of each bidder for each auction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedBatchFunction, RuntimeContext
from tidegate.datastream.state import ValueStateDescriptor

from ..generator import BID_SCHEMA
from .events import bids, numbers

IDS = 1 << 31
"""More than there are auctions."""
BIDS = BID_SCHEMA.append(pa.field("key", pa.int64()))


def with_key(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Bidder and auction in one number."""
    key = numbers(batch, "bidder") * IDS + numbers(batch, "auction")
    return pa.record_batch([*batch.columns, key], schema=BIDS)


class Latest(KeyedBatchFunction):
    """Of bids at the same time the one that comes last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.time = runtime_context.get_state(ValueStateDescriptor("time", Types.LONG()))

    def process_batch(self, batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
        times = numbers(batch, "date_time")
        # In the order of keys and times, those alike in the order in which they came.
        order = np.lexsort((times, ctx.codes))
        codes = ctx.codes[order]
        rows = order[np.append(codes[1:] != codes[:-1], True)]
        before = [-1 if time is None else time for time in self.time.get_many(ctx.keys)]
        rows = rows[times[rows] >= np.array(before)]
        keys = numbers(batch, "key")[rows]
        self.time.put_many(keys.tolist(), times[rows].tolist())
        return batch.select(BID_SCHEMA.names).take(pa.array(rows))


def q18(events: DataStream) -> DataStream:
    """The columns of the bid; the latest row of a bidder and auction counts."""
    rows = bids(events, *BID_SCHEMA.names).map_batches(with_key, BIDS)
    return rows.key_by("key").process_batches(Latest(), BID_SCHEMA)
