"""The job: how much of an airline's delay was inherited from the aircraft's previous leg?

    flights (2 splits) → weather and airline of each → by aircraft: inherited and own delay → legs/
                                                              └→ by carrier: running totals → totals/

Departures only: a leg's delay is how late it left. An aircraft that arrived late earlier on the same day
hands that lateness on, so of the next leg's delay at most so much is inherited; the rest is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tables import FLIGHTS, JOINED, LEGS, TOTALS, InputFiles
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.file_system import FileSink, FileSource
from tidegate.datastream.state import ValueStateDescriptor

KEYED_OPERATOR = "inherited delay"
EPOCH_RECORDS = 50_000


class InheritedDelay(KeyedProcessFunction):
    """Remembers how late each aircraft arrived last, and on which day."""

    def open(self, runtime_context: RuntimeContext) -> None:
        last = ValueStateDescriptor("last-arrival", Types.TUPLE([Types.STRING(), Types.LONG()]))
        self._last_arrival = runtime_context.get_state(last)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        *leg, dep_delay, arr_delay = value
        if dep_delay is None:
            # Cancelled: it had no delay, and the aircraft is where and as late as it was.
            yield (*leg, None, None, None)
            return
        delay = max(dep_delay, 0)
        inherited = min(delay, self._late_arrival(date=leg[1]))
        yield (*leg, delay, inherited, delay - inherited)
        if arr_delay is None:
            # Diverted: nobody knows when it was back in service.
            self._last_arrival.clear()
        else:
            self._last_arrival.update((leg[1], max(arr_delay, 0)))

    def _late_arrival(self, date: str) -> int:
        """Minutes by which this aircraft arrived late last, if that was on `date`."""
        last = self._last_arrival.value()
        return last[1] if last is not None and last[0] == date else 0


class CarrierTotals(KeyedProcessFunction):
    """Running totals of each carrier, one row for every leg."""

    def open(self, runtime_context: RuntimeContext) -> None:
        totals = ValueStateDescriptor("totals", Types.TUPLE([Types.LONG()] * 6))
        self._totals = runtime_context.get_state(totals)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        legs, cancelled, delay, inherited, own, in_bad_weather = self._totals.value() or (0,) * 6
        if value[11] is None:
            cancelled += 1
        else:
            delay, inherited, own = delay + value[11], inherited + value[12], own + value[13]
            if is_bad_weather(*value[8:11]):
                in_bad_weather += value[13]
        totals = (legs + 1, cancelled, delay, inherited, own, in_bad_weather)
        self._totals.update(totals)
        yield (value[2], value[3], *totals)


def is_bad_weather(wind_speed: float | None, precip: float | None, visib: float | None) -> bool:
    """Rain or snow, less than three miles of sight, or more than 25 miles an hour of wind."""
    return (precip or 0) > 0 or (visib is not None and visib < 3) or (wind_speed or 0) > 25


def join_in_spark(files: InputFiles) -> Callable[[Any], Any]:
    """What the Spark stage runs on the flights of every epoch."""
    sides = {"weather": f"file://{files.weather}", "airlines": f"file://{files.airlines}"}

    def join(flights: Any) -> Any:
        from pyspark.sql.functions import broadcast

        spark = flights.sparkSession
        for name, path in sides.items():
            # Read once in a session: to read a file for each epoch takes more time than to join with it.
            if not spark.catalog.tableExists(name):
                spark.read.parquet(path).createOrReplaceTempView(name)
                spark.catalog.cacheTable(name)
        joined = flights.join(broadcast(spark.table("weather")), ["origin", "time_hour"], "left")
        joined = joined.join(broadcast(spark.table("airlines")), "carrier", "left")
        # An aircraft's legs must stay in their order. One sorted partition costs less than `orderBy`,
        # which would first run the joins once more to find out where to cut.
        return joined.select(*JOINED.names).coalesce(1).sortWithinPartitions("seq")

    return join


class JoinInMemory(MapFunction):
    """The same joins with dictionaries, for the job without Spark."""

    def __init__(self, files: InputFiles) -> None:
        self._files = files

    def open(self, runtime_context: RuntimeContext) -> None:
        self._weather = {
            (origin, time_hour): tuple(rest) for origin, time_hour, *rest in _rows_of(self._files.weather)
        }
        self._airlines = dict(_rows_of(self._files.airlines))

    def map(self, value: Any) -> Any:
        seq, date, time_hour, carrier, flight, tailnum, origin, dest, dep_delay, arr_delay = value
        weather = self._weather.get((origin, time_hour), (None, None, None))
        airline = self._airlines.get(carrier)
        return (seq, date, carrier, airline, flight, tailnum, origin, dest, *weather, dep_delay, arr_delay)


def _rows_of(path: Path) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in pq.read_table(path).columns))


def tailnum_of(leg: Any) -> str:
    """The aircraft; legs without one are all cancelled, so it does not matter that they share a key."""
    return leg[5] or ""


def carrier_of(leg: Any) -> str:
    return leg[2]  # type: ignore[no-any-return]


def build_job(
    env: StreamExecutionEnvironment,
    files: InputFiles,
    output: Path,
    with_spark: bool,
    records_per_second: float | None,
) -> None:
    """Write down the operators of the job; nothing runs yet.

    Args:
        output: Directory in which the sinks make `legs` and `totals`.
        records_per_second: How fast each split is replayed; `None` is as fast as it goes.
    """
    source = FileSource(files.splits, FLIGHTS.names, records_per_second)
    flights = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights").uid("flights")
    legs = (
        _joined(flights, files, with_spark)
        .key_by(tailnum_of, key_type=Types.STRING())
        .process(InheritedDelay())
        .name(KEYED_OPERATOR)
        .uid("inherited-delay")
    )
    totals = (
        legs.key_by(carrier_of, key_type=Types.STRING())
        .process(CarrierTotals())
        .name("carrier totals")
        .uid("carrier-totals")
    )
    legs.sink_to(FileSink(output / "legs", LEGS)).name("legs").uid("legs-sink")
    totals.sink_to(FileSink(output / "totals", TOTALS)).name("totals").uid("totals-sink")


def _joined(flights: DataStream, files: InputFiles, with_spark: bool) -> DataStream:
    if with_spark:
        # Small epochs, so that legs go on to the keyed operators while later ones are joined.
        stage = flights.spark_stage(join_in_spark(files), JOINED, FLIGHTS, max_epoch_records=EPOCH_RECORDS)
        return stage.name("weather and airline").uid("join")
    return flights.map(JoinInMemory(files)).name("weather and airline").uid("join")
