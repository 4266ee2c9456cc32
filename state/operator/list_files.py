"""List files: the Parquet files that operator state is stored in, one row per item.

Columns: `operator_uid`, `state_name`, `map_key` (broadcast state only, else null), `value` and
`value_encoded` as in segments; the metadata has the keys of a segment. Parquet although the files are
small: a file of ten items took 0.19 ms to write and 0.17 ms to read (Arrow IPC: 0.03 ms each), and any
tool can read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...common.errors import CorruptCheckpointError
from ..serializers.key_codec import encode_map_key
from ..serializers.value_codecs import ValueCodec
from ..snapshots.segments import (
    ENCODED_COLUMNS,
    ENCODED_KEY,
    FORMAT_VERSION,
    column_slice,
    key_encoding,
    key_values,
    opaque_values,
    with_encoded_values,
)


@dataclass(frozen=True)
class EncodedItems:
    """Items as columns of one length; nothing the user can still change."""

    map_keys: pa.Array
    values: pa.Array
    encoded: pa.Array


def encode_items(codec: ValueCodec, values: list[Any], map_keys: list[Any] | None = None) -> EncodedItems:
    """Encode items for a list file.

    Args:
        map_keys: One per value for broadcast state, else None.

    Raises:
        StateError: A value does not fit its declared type.
        KeyTypeError: A map key has no deterministic encoding.
    """
    column, opaque = codec.to_arrow(values)
    count = len(values)
    encoded = (
        pa.array([opaque.get(row) for row in range(count)], type=pa.large_binary())
        if opaque
        else pa.nulls(count, pa.large_binary())
    )
    return EncodedItems(pa.nulls(count) if map_keys is None else _key_column(map_keys), column, encoded)


def _key_column(keys: list[Any]) -> pa.Array:
    kinds = set(map(type, keys))
    try:
        if kinds == {int}:
            return pa.array(keys, type=pa.int64())
        if kinds == {str}:
            return pa.array(keys, type=pa.large_string())
    except (pa.ArrowException, OverflowError, UnicodeError):
        pass  # an integer of more than 64 bits, or a lone surrogate: the general encoding takes both
    return pa.array(list(map(encode_map_key, keys)), type=ENCODED_KEY)


def write_list_file(
    items: EncodedItems, operator_uid: str, state_name: str, schema: Mapping[str, object]
) -> memoryview:
    """A list file.

    Args:
        schema: The state's schema with `value_encoding`.
    """
    import pyarrow.parquet as pq

    rows = len(items.values)
    constant = pa.array([0] * rows, pa.int8())
    columns = {
        "operator_uid": pa.DictionaryArray.from_arrays(constant, pa.array([operator_uid])),
        "state_name": pa.DictionaryArray.from_arrays(constant, pa.array([state_name])),
        "map_key": items.map_keys,
        "value": items.values,
        "value_encoded": items.encoded,
    }
    metadata = {
        "tidegate.format_version": str(FORMAT_VERSION),
        "tidegate.operator_uid": operator_uid,
        "tidegate.state_name": state_name,
        "tidegate.map_key_encoding": key_encoding(items.map_keys.type),
        **{f"tidegate.{name}": str(text) for name, text in schema.items()},
    }
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(columns).replace_schema_metadata(metadata),
        sink,
        compression="snappy",
        use_dictionary=["operator_uid", "state_name"],
        write_statistics=False,
    )
    return memoryview(sink.getvalue())


def read_list_file(data: bytes, path: str) -> tuple[pa.Table, dict[str, str]]:
    """The columns `map_key`, `value` and `value_encoded` of a list file, and the state's schema in it.

    Raises:
        CorruptCheckpointError: It is no list file, or of a newer format.
    """
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata = {
            name.decode().removeprefix("tidegate."): text.decode()
            for name, text in (file.schema_arrow.metadata or {}).items()
            if name.startswith(b"tidegate.")
        }
        version = int(metadata["format_version"])
        if version > FORMAT_VERSION:
            raise CorruptCheckpointError(
                f"checkpoint file {path!r} has format version {version}; this release reads up to "
                f"{FORMAT_VERSION}: upgrade tidegate"
            )
        stored = file.read(columns=["map_key", "value", ENCODED_COLUMNS[version]], use_threads=False)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptCheckpointError(
            f"checkpoint file {path!r} is not a file of operator state: {error}; restore another "
            f"checkpoint or savepoint"
        ) from error
    table = stored.rename_columns(["map_key", "value", "value_encoded"])
    return with_encoded_values(table, version, metadata, path), metadata


def decode_items(codec: ValueCodec, rows: pa.Table) -> tuple[list[Any], list[Any]]:
    """Map keys (none unless broadcast) and values of rows of a list file."""
    keys = column_slice(rows["map_key"], 0, rows.num_rows)
    values = codec.from_arrow(
        column_slice(rows["value"], 0, rows.num_rows),
        opaque_values(column_slice(rows["value_encoded"], 0, rows.num_rows)),
    )
    return [] if pa.types.is_null(keys.type) else key_values(keys), values
