"""Avro schemas as Arrow schemas, and records of one in columns of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ...common.errors import ConfigurationError

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


def arrow_schema(parsed: Any) -> pa.Schema:
    """The columns for the records of an Avro schema.

    Args:
        parsed: A record schema, as `fastavro.parse_schema` returns it.

    Raises:
        ConfigurationError: It is no record, refers to itself, or has a union of several types besides null.
    """
    if not isinstance(parsed, dict) or parsed.get("type") not in ("record", "error"):
        raise ConfigurationError("A file has an Avro schema of type record; wrap other types in a record")
    return pa.schema(list(_Types().of(parsed)))


class _Types:
    def __init__(self) -> None:
        self._named: dict[str, pa.DataType | None] = {}

    def of(self, schema: Any) -> pa.DataType:
        """The Arrow type of an Avro type."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._by_name(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            return pa.list_(self.of(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"]))
        if kind in ("enum", "fixed"):
            found = pa.string() if kind == "enum" else _fixed(schema)
            self._named[schema["name"]] = found
            return found
        return self._logical(schema, kind)

    def _by_name(self, name: str) -> pa.DataType:
        found = _PLAIN.get(name) or self._named.get(name)
        if found is None:
            raise ConfigurationError(f"The Avro type {name!r} refers to itself; columns cannot represent it")
        return found

    def _record(self, schema: Any) -> pa.DataType:
        self._named[schema["name"]] = None
        fields = [
            pa.field(field["name"], self.of(field["type"]), nullable=_is_nullable(field["type"]))
            for field in schema["fields"]
        ]
        found = self._named[schema["name"]] = pa.struct(fields)
        return found

    def _union(self, branches: list[Any]) -> pa.DataType:
        present = [branch for branch in branches if branch != "null"]
        if len(present) > 1:
            raise ConfigurationError(
                f"The Avro union {branches} has several types besides null; columns cannot represent it. "
                f"Use a record with a nullable field for each"
            )
        return self.of(present[0]) if present else pa.null()

    def _logical(self, schema: Any, kind: Any) -> pa.DataType:
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return _decimal(schema)
        if isinstance(kind, str) and (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        return self.of(kind)


def _fixed(schema: Any) -> pa.DataType:
    return _decimal(schema) if schema.get("logicalType") == "decimal" else pa.binary(schema["size"])


def _decimal(schema: Any) -> pa.DataType:
    precision = schema["precision"]
    make: Callable[[int, int], pa.DataType] = pa.decimal128 if precision <= 38 else pa.decimal256
    return make(precision, schema.get("scale", 0))


def _is_nullable(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


def plain_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as dicts, in which maps are dicts too, at every depth."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        convert = _map_converter(field.type)
        if convert is not None:
            for row in rows:
                row[field.name] = convert(row[field.name])
    return rows


def _map_converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes dicts of the maps in a value; `None` where the type has no map."""
    if pa.types.is_map(kind):
        inner = _map_converter(kind.item_type) or _unchanged
        return lambda pairs: None if pairs is None else {key: inner(value) for key, value in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _map_converter(kind.value_type)
        if element is None:
            return None
        return lambda values: None if values is None else [element(value) for value in values]
    if pa.types.is_struct(kind):
        parts = {field.name: _map_converter(field.type) or _unchanged for field in kind}
        if all(part is _unchanged for part in parts.values()):
            return None
        return lambda row: None if row is None else {name: part(row[name]) for name, part in parts.items()}
    return None


def _unchanged(value: Any) -> Any:
    return value
