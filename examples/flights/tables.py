"""Columns of what the job reads, joins and writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

FLIGHTS = pa.schema(
    [
        ("seq", pa.int64()),
        ("date", pa.string()),
        ("time_hour", pa.string()),
        ("carrier", pa.string()),
        ("flight", pa.int64()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("dep_delay", pa.int64()),
        ("arr_delay", pa.int64()),
    ]
)
WEATHER = pa.schema(
    [
        ("origin", pa.string()),
        ("time_hour", pa.string()),
        ("wind_speed", pa.float64()),
        ("precip", pa.float64()),
        ("visib", pa.float64()),
    ]
)
AIRLINES = pa.schema([("carrier", pa.string()), ("airline", pa.string())])
JOINED = pa.schema(
    [
        ("seq", pa.int64()),
        ("date", pa.string()),
        ("carrier", pa.string()),
        ("airline", pa.string()),
        ("flight", pa.int64()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("wind_speed", pa.float64()),
        ("precip", pa.float64()),
        ("visib", pa.float64()),
        ("dep_delay", pa.int64()),
        ("arr_delay", pa.int64()),
    ]
)
LEGS = pa.schema(
    [field for field in JOINED if field.name not in ("dep_delay", "arr_delay")]
    + [("delay", pa.int64()), ("inherited", pa.int64()), ("own", pa.int64())]
)
TOTALS = pa.schema(
    [
        ("carrier", pa.string()),
        ("airline", pa.string()),
        ("legs", pa.int64()),
        ("cancelled", pa.int64()),
        ("delay", pa.int64()),
        ("inherited", pa.int64()),
        ("own", pa.int64()),
        ("own_in_bad_weather", pa.int64()),
    ]
)


@dataclass(frozen=True)
class InputFiles:
    """What the job reads: flights in splits, and the two small tables to join them with."""

    splits: list[Path]
    weather: Path
    airlines: Path
