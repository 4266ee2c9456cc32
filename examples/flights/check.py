"""The same question answered by pandas alone, and a comparison row for row."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from data import Tables
from tables import LEGS, TOTALS

SHOWN_ROWS = 10


def expected_legs(tables: Tables) -> pd.DataFrame:
    """Every leg with its inherited and own delay, by `seq`."""
    legs = tables.flights.merge(tables.weather, on=["origin", "time_hour"], how="left")
    legs = legs.merge(tables.airlines, on="carrier", how="left")
    flown = legs[legs["dep_delay"].notna() & legs["tailnum"].notna()].sort_values("seq")
    previous = flown.groupby("tailnum")[["date", "arr_delay"]].shift(1)
    is_same_day = previous["date"] == flown["date"]
    late_before = previous["arr_delay"].where(is_same_day).clip(lower=0).fillna(0)
    legs["delay"] = legs["dep_delay"].clip(lower=0)
    inherited = late_before.reindex(legs.index).fillna(0)
    legs["inherited"] = inherited.where(inherited < legs["delay"], legs["delay"])
    legs["own"] = legs["delay"] - legs["inherited"]
    return legs.sort_values("seq", ignore_index=True)[LEGS.names]


def expected_totals(legs: pd.DataFrame) -> pd.DataFrame:
    """The totals of each carrier after its last leg."""
    bad_weather = (legs["precip"] > 0) | (legs["visib"] < 3) | (legs["wind_speed"] > 25)
    legs = legs.assign(
        legs=1, cancelled=legs["delay"].isna(), own_in_bad_weather=legs["own"].where(bad_weather, 0)
    )
    totals = legs.groupby("carrier").agg({"airline": "first"} | dict.fromkeys(TOTALS.names[2:], "sum"))
    return totals.reset_index()[TOTALS.names]


def read_legs(output: Path) -> pa.Table:
    """What the job wrote about legs."""
    return pq.read_table(output / "legs", schema=LEGS).sort_by("seq")


def read_totals(output: Path) -> pa.Table:
    """All running totals that the job wrote."""
    return pq.read_table(output / "totals", schema=TOTALS).sort_by(
        [("carrier", "ascending"), ("legs", "ascending")]
    )


def last_totals(running: pa.Table) -> pd.DataFrame:
    """The last of the running totals of each carrier."""
    return running.to_pandas().groupby("carrier", as_index=False).last()


def differences(tables: Tables, output: Path) -> list[str]:
    """What the job got wrong, in words; nothing if its output is identical to that of pandas."""
    legs = expected_legs(tables)
    running = read_totals(output)
    found = _difference("legs", read_legs(output), pa.Table.from_pandas(legs, LEGS, preserve_index=False))
    # Each carrier's running number of legs goes 1, 2, 3, …: no leg was counted twice or left out.
    numbers = running.select(["carrier", "legs"]).to_pandas()
    expected = numbers.groupby("carrier").cumcount() + 1
    if not numbers["legs"].equals(expected):
        found.append(f"totals: the running numbers of legs have gaps or repeats\n{_apart(numbers, expected)}")
    totals = pa.Table.from_pandas(expected_totals(legs), TOTALS, preserve_index=False)
    last = pa.Table.from_pandas(last_totals(running), TOTALS, preserve_index=False)
    return found + _difference("totals", last, totals)


def _difference(name: str, actual: pa.Table, expected: pa.Table) -> list[str]:
    if actual.equals(expected):
        return []
    if actual.num_rows != expected.num_rows:
        return [f"{name}: {actual.num_rows:,} rows instead of {expected.num_rows:,}"]
    apart = actual.to_pandas().compare(expected.to_pandas(), result_names=("job", "pandas"))
    return [f"{name}: {len(apart):,} rows differ\n{apart.head(SHOWN_ROWS)}"]


def _apart(numbers: pd.DataFrame, expected: pd.Series[int]) -> str:
    return str(numbers[numbers["legs"] != expected].head(SHOWN_ROWS))
