"""Events of one kind, as flat Arrow batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.datastream import DataStream

from ..generator import AUCTION, AUCTION_SCHEMA, BID, BID_SCHEMA, PERSON, PERSON_SCHEMA

Int64s = npt.NDArray[np.int64]


def persons(events: DataStream, *names: str) -> DataStream:
    """Some columns of the persons."""
    return _of_kind(events, PERSON, "person", [PERSON_SCHEMA.field(name) for name in names])


def auctions(events: DataStream, *names: str) -> DataStream:
    """Some columns of the auctions."""
    return _of_kind(events, AUCTION, "auction", [AUCTION_SCHEMA.field(name) for name in names])


def bids(events: DataStream, *names: str) -> DataStream:
    """Some columns of the bids."""
    return _of_kind(events, BID, "bid", [BID_SCHEMA.field(name) for name in names])


def _of_kind(events: DataStream, kind: int, column: str, fields: list[pa.Field]) -> DataStream:
    # Columns are chosen before rows: a column is chosen without copying it, a row is not.
    schema = pa.schema([("kind", pa.int8()), *fields])
    names = [field.name for field in fields]

    def chosen(batch: pa.RecordBatch) -> pa.RecordBatch:
        whole = batch[column]
        return pa.record_batch([batch["kind"], *map(whole.field, names)], schema=schema)

    some = events.map_batches(chosen, schema).filter_batches(lambda batch: pc.equal(batch["kind"], kind))
    return some.map_batches(lambda batch: batch.select(names), pa.schema(fields))


def numbers(batch: pa.RecordBatch, name: str) -> Int64s:
    """A column of integers without nulls, as NumPy sees it."""
    return batch[name].to_numpy()


def is_largest(values: Int64s, groups: Int64s) -> npt.NDArray[np.bool_]:
    """Which values are the largest of their group."""
    _, codes = np.unique(groups, return_inverse=True)
    largest = np.full(codes.max(initial=0) + 1, np.iinfo(np.int64).min)
    np.maximum.at(largest, codes, values)
    return values == largest[codes]
