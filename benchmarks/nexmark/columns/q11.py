"""User sessions: how many bids a bidder makes before he pauses for ten seconds.

The bids of a batch that belong together go on as one, the first, which knows how many they are and when the
last one was. It opens a window that ends ten seconds after that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from tidegate.common import Types
from tidegate.datastream import AggregateFunction, DataStream
from tidegate.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor

from ..queries.q11 import FOUR, WithLimits
from .events import bids, numbers

GAP_MS = 10_000
RUNS = pa.schema({"bidder": pa.int64(), "bids": pa.int64(), "length": pa.int64()})


def runs(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For the first bid of a run how many it has and how long it lasts; for the others 0."""
    bidders, times = numbers(batch, "bidder"), numbers(batch, "date_time")
    order = np.lexsort((times, bidders))
    bidder, time = bidders[order], times[order]
    is_first = np.append(True, (bidder[1:] != bidder[:-1]) | (time[1:] - time[:-1] > GAP_MS))
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(order)) - 1
    counts, lengths = np.zeros((2, len(order)), np.int64)
    counts[order[first]] = last - first + 1
    lengths[order[first]] = time[last] - time[first]
    return pa.record_batch([batch["bidder"], counts, lengths], schema=RUNS)


class RunAndGap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element[2] + GAP_MS


class Total(AggregateFunction):
    """The sum of the second column."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def q11(events: DataStream) -> DataStream:
    """(bidder, bids, start, end)."""
    every = bids(events, "bidder", "date_time").map_batches(runs, RUNS)
    by_bidder = every.filter_batches(lambda batch: numbers(batch, "bids") > 0).key_by("bidder")
    sessions = by_bidder.window(EventTimeSessionWindows.with_dynamic_gap(RunAndGap()))
    return sessions.aggregate(Total(), WithLimits(), Types.LONG(), FOUR)
