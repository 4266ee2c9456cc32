"""Brings a user's DataFrame into the columns that state is written from, or says why it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...common.errors import StateError
from ...common.type_system.type_parser import type_from_text
from ...state.serializers.type_layouts import layout_of
from ...state.snapshots.snapshot_columns import StoredValues
from ...state.snapshots.snapshot_files import StateLocation
from ..exchange.exchange_frames import arrow_schema_of
from .state_types import EXPIRY, spark_type

_OPTIONAL = {"key_group", "subtask", "key", "value", "value_encoded", "expiry"}


def keyed_frame(
    frame: Any, where: StateLocation, schema: Mapping[str, object], key_types: Mapping[str, str]
) -> Any:
    """The DataFrame of a keyed state with exactly the columns that are stored, one row per entry.

    Raises:
        StateError: A column is missing, unknown or of another type.
    """
    values = StoredValues(where, schema, is_keyed=True)
    needed = ["key", *(["namespace"] if schema.get("namespaced") else [])]
    needed += ["map_key"] if "map_key_type" in schema else []
    is_list = pa.types.is_large_list(values.arrow_type)
    _check_columns(frame, where, [*needed, "value"], has_position=schema.get("kind") == "list" and is_list)
    if "position" in frame.columns:
        frame = _collected(frame, needed)
    if "ttl" in schema:
        frame = _with_expiry(frame, is_list)
    elif "expiry" in frame.columns:
        raise StateError(f"{where}: the DataFrame has a column expiry, but the state has no time to live")
    _check_types(frame, where, values, key_types, is_list)
    optional = [name for name in ("value_encoded", "expiry") if name in frame.columns]
    return frame.select(*needed, "value", *optional)


def item_frame(
    frame: Any, where: StateLocation, schema: Mapping[str, object], key_types: Mapping[str, str]
) -> Any:
    """The DataFrame of an operator state with exactly the columns that are stored, one row per item."""
    values = StoredValues(where, schema, is_keyed=False)
    needed = ["map_key"] if "map_key_type" in schema else []
    _check_columns(frame, where, [*needed, "value"], has_position=False)
    _check_types(frame, where, values, key_types, is_list=False)
    optional = [name for name in ("subtask", "value_encoded") if name in frame.columns]
    return frame.select(*needed, "value", *optional)


def _check_columns(frame: Any, where: StateLocation, needed: list[str], has_position: bool) -> None:
    allowed = {*needed, *_OPTIONAL, *(["position"] if has_position else [])}
    missing = [name for name in needed if name not in frame.columns]
    unknown = [name for name in frame.columns if name not in allowed]
    if missing or unknown:
        raise StateError(
            f"{where}: the DataFrame has the columns {', '.join(frame.columns)}; "
            + (f"it lacks {', '.join(missing)}" if missing else f"the state has no {', '.join(unknown)}")
            + f". Select {', '.join(needed)} and, where there are such, value_encoded and expiry"
        )


def _collected(frame: Any, by: list[str]) -> Any:
    """One row per list, of rows that are its elements."""
    from pyspark.sql import functions as F

    columns = ["position", "value", *(["expiry"] if "expiry" in frame.columns else [])]
    encoded = [F.first("value_encoded").alias("value_encoded")] if "value_encoded" in frame.columns else []
    rows = frame.groupBy(*by).agg(F.collect_list(F.struct(*columns)).alias("elements"), *encoded)
    # A list without elements, or one that is encoded as a whole, was read as one row without a position.
    there = F.filter("elements", lambda element: element["position"].isNotNull())
    ordered = F.array_sort(there, lambda a, b: (a["position"] - b["position"]).cast("int"))
    rows = rows.withColumn("elements", ordered)
    for name in columns[1:]:
        rows = rows.withColumn(name, F.col(f"elements.{name}"))
    if encoded:
        rows = rows.withColumn("value", F.when(F.col("value_encoded").isNull(), F.col("value")))
    return rows.drop("elements")


def _with_expiry(frame: Any, is_list: bool) -> Any:
    """Entries without an expiry never expire."""
    from pyspark.sql import functions as F

    if "expiry" in frame.columns:
        return frame
    never = F.lit(None).cast("timestamp")
    return frame.withColumn("expiry", F.transform("value", lambda _: never) if is_list else never)


def _check_types(
    frame: Any, where: StateLocation, values: StoredValues, key_types: Mapping[str, str], is_list: bool
) -> None:
    found = arrow_schema_of(frame)
    expected = {"value": spark_type(values.arrow_type), "value_encoded": pa.binary()}
    expected["expiry"] = pa.list_(EXPIRY) if is_list else EXPIRY
    for name, text in key_types.items():
        if "CUSTOM(" in text:
            raise StateError(f"{where}: Spark cannot write a {name} of type {text}: only its codec can")
        expected[name] = spark_type(layout_of(type_from_text(text)).arrow_type)
    for field in found:
        wanted = expected.get(field.name)
        if wanted is not None and not _fits(field.type, wanted):
            raise StateError(
                f"{where}: the column {field.name} of the DataFrame is {field.type}, but the state holds "
                f"{wanted}; cast it"
            )


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is one of the other."""
    kinds = pa.types
    if found.equals(wanted) or kinds.is_null(found):
        return True
    if kinds.is_integer(found) and kinds.is_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if kinds.is_floating(found) and kinds.is_floating(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if kinds.is_timestamp(found) and kinds.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    if kinds.is_boolean(wanted):
        return bool(kinds.is_integer(found))
    if kinds.is_list(found) and kinds.is_list(wanted):
        return _fits(found.value_type, wanted.value_type)
    if kinds.is_map(found) and kinds.is_map(wanted):
        return _fits(found.key_type, wanted.key_type) and _fits(found.item_type, wanted.item_type)
    if kinds.is_struct(found) and kinds.is_struct(wanted):
        names = [[kind.field(index).name for index in range(kind.num_fields)] for kind in (found, wanted)]
        return names[0] == names[1] and all(
            _fits(found.field(index).type, wanted.field(index).type) for index in range(wanted.num_fields)
        )
    return False
