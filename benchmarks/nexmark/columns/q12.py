"""Windows by the clock: how many bids a bidder makes in ten seconds of processing time.

The bids of a batch come at one time, so they are counted in columns, and windows add up these counts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tidegate.common import Time, Types
from tidegate.datastream import DataStream, KeyedBatchFunction
from tidegate.datastream.window import TumblingProcessingTimeWindows

from ..queries.q11 import FOUR, WithLimits
from .events import bids
from .q11 import Total

COUNTS = pa.schema({"bidder": pa.int64(), "bids": pa.int64()})


def counted(batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
    return pa.record_batch([ctx.keys, np.bincount(ctx.codes)], schema=COUNTS)


def q12(events: DataStream, size_ms: int = 10_000) -> DataStream:
    """(bidder, bids, start, end)."""
    counts = bids(events, "bidder").key_by("bidder").process_batches(counted, COUNTS)
    windows = counts.key_by("bidder").window(TumblingProcessingTimeWindows.of(Time.milliseconds(size_ms)))
    return windows.aggregate(Total(), WithLimits(), Types.LONG(), FOUR)
