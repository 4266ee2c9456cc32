"""The codec of fixed-width numbers and tuples of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from itertools import starmap
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.bulk_comparison import all_equal
from ...common.typeinfo import BasicType, BasicTypeInfo, TupleTypeInfo, TypeInformation, type_text
from .encoded_values import decode_value, encode_value
from .type_layouts import layout_of
from .value_codecs import Opaque, ValueCodec, wrong_type
from .value_layouts import ValueLayout

_CODES = {
    BasicType.BYTE: "b",
    BasicType.SHORT: "h",
    BasicType.INT: "i",
    BasicType.LONG: "q",
    # 64 bits for FLOAT too: else a value would change when it is evicted or restored (docs/adr/007).
    BasicType.FLOAT: "d",
    BasicType.DOUBLE: "d",
    BasicType.BOOLEAN: "?",
}
_NUMPY = {"b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "d": "<f8", "?": "?"}
# A look at one entry of a column takes as long as a look at so many in a row.
_CANDIDATE_COST = 4
_NONE = b"\x00" + encode_value(None)
_UNSIGNED = {"b": "<u1", "h": "<u2", "i": "<u4", "q": "<u8"}
_PYTHON: dict[str, type] = {"b": int, "h": int, "i": int, "q": int, "d": float, "?": bool}
_EXACT: dict[str, type] = {"d": float, "?": bool}
_RANGE = {code: range(-(1 << bits), 1 << bits) for code, bits in zip("bhiq", (7, 15, 31, 63), strict=True)}
_ARROW = {
    "b": pa.int8(),
    "h": pa.int16(),
    "i": pa.int32(),
    "q": pa.int64(),
    "d": pa.float64(),
    "?": pa.bool_(),
}


class PackedCodec(ValueCodec):
    """Fixed-width numbers, and tuples of them.

    Args:
        codes: one `struct` code per field, of `b h i q d ?`.
        is_tuple: whether values are tuples.
        layout: of the type, to distinguish wrong values from those that are only encoded by themselves.
    """

    immutable = True

    def __init__(self, text: str, codes: str, is_tuple: bool, layout: ValueLayout) -> None:
        self.type_text = text
        self._layout = layout
        self._codes = codes
        self._is_tuple = is_tuple
        self._pack = partial(struct.Struct("<B" + codes).pack, 1)
        self._unpack = struct.Struct("<x" + codes).unpack
        names = [f"f{index}" for index in range(len(codes))]
        self._dtype = np.dtype(
            [
                ("tag", "u1"),
                *((name, _NUMPY[code]) for name, code in zip(names, codes, strict=True)),
            ]
        )
        self._field_types = [_ARROW[code] for code in codes]
        self._names = names
        self.arrow_type = (
            pa.struct(list(zip(names, self._field_types, strict=True))) if is_tuple else self._field_types[0]
        )
        self._getters = [itemgetter(index) for index in range(len(codes))]
        self._placeholder = (0,) * len(codes) if is_tuple else 0

    def encode_many(self, values: Sequence[Any]) -> list[bytes]:
        chunk = list(values)
        if self.packed_fields(chunk) is not None:
            return list(starmap(self._pack, chunk) if self._is_tuple else map(self._pack, chunk))
        return [self._encode(value) for value in chunk]

    def decode(self, data: bytes) -> Any:
        if data[0] == 0:
            return self._decode_opaque(data[1:])
        return self._unpack(data) if self._is_tuple else self._unpack(data)[0]

    def decode_many(self, stored: list[bytes]) -> list[Any]:
        size = self._dtype.itemsize
        if set(map(len, stored)) == {size}:
            packed = np.frombuffer(b"".join(stored), dtype=self._dtype)
            if packed["tag"].all():
                columns = [packed[name].tolist() for name in self._names]
                return list(zip(*columns, strict=True)) if self._is_tuple else columns[0]
        return list(map(self.decode, stored))

    def to_arrow(self, values: list[Any]) -> tuple[pa.Array, Opaque]:
        columns = self.packed_fields(values)
        if columns is not None:
            return self.column_of(columns), {}
        plain: list[Any] = []
        opaque: Opaque = {}
        mask = np.zeros(len(values), dtype=bool)
        for position, value in enumerate(values):
            if self._fits(value):
                plain.append(value)
                continue
            plain.append(self._placeholder)
            mask[position] = True
            if value is not None:
                opaque[position] = self._encode_opaque(value)
        return self._assemble(self._transpose(plain), mask), opaque

    def column_of(self, fields: list[bytes]) -> pa.Array:
        """The column of values whose fields `packed_fields` gave."""
        return self._assemble(fields, None)

    def from_arrow(self, column: pa.Array, opaque: Opaque) -> list[Any]:
        columns = [field.tolist() for field in self._fields(column)]
        values: list[Any]
        if not self._is_tuple:
            values = columns[0]
        else:
            values = list(zip(*columns, strict=True)) if columns else [()] * len(column)
        for position in _nulls(column):
            values[position] = None
        for position, data in opaque.items():
            values[position] = self._decode_opaque(data)
        return values

    def stored_bytes(self, column: pa.Array, opaque: Opaque) -> list[bytes]:
        packed = np.empty(len(column), dtype=self._dtype)
        packed["tag"] = 1
        for name, field in zip(self._names, self._fields(column), strict=True):
            packed[name] = field
        stored: list[bytes] = packed.view(f"V{self._dtype.itemsize}").tolist()
        for position in _nulls(column):
            stored[position] = _NONE
        for position, data in opaque.items():
            # What is damaged fails here, and not when a record needs it.
            decode_value(data)
            stored[position] = b"\x00" + data
        return stored

    def _transpose(self, values: list[Any]) -> list[bytes]:
        if not values:
            return [b""] * len(self._codes)
        columns = zip(*values, strict=True) if self._is_tuple else (values,)
        return [_packed(code, column) for code, column in zip(self._codes, columns, strict=True)]

    def packed_fields(self, values: list[Any]) -> list[bytes] | None:
        """The fields one after the other; None when some value needs a look of its own."""
        if not self._is_tuple:
            columns = [values]
        else:
            count, width = len(values), len(self._codes)
            if not (all_equal(map(type, values), tuple, count) and all_equal(map(len, values), width, count)):
                return None
            # Twice as fast as zip(*values), which has an iterator for every value.
            columns = [list(map(getter, values)) for getter in self._getters]
        result = []
        for code, column in zip(self._codes, columns, strict=True):
            # struct itself refuses what is no integer of the width; floats and bools it converts.
            exact = _EXACT.get(code)
            if exact is not None and not all_equal(map(type, column), exact, len(column)):
                return None
            try:
                numbers = _packed(code, column)
            except struct.error:
                return None
            if exact is None and _has_bool(numbers, code, column):
                return None
            result.append(numbers)
        return result

    def _assemble(self, columns: list[bytes], mask: Any) -> pa.Array:
        fields = []
        for code, column in zip(self._codes, columns, strict=True):
            fields.append(pa.array(np.frombuffer(column, dtype=_NUMPY[code]), mask=mask))
        if not self._is_tuple:
            return fields[0]
        nulls = None if mask is None else pa.array(mask)
        return pa.StructArray.from_arrays(fields, names=self._names, mask=nulls)

    def _fields(self, column: pa.Array) -> list[np.ndarray[Any, Any]]:
        """The fields as numpy arrays; zero where the value is null."""
        fields = range(len(self._codes))
        arrays = [column.field(index) for index in fields] if self._is_tuple else [column]
        return [
            (field.fill_null(False if pa.types.is_boolean(field.type) else 0)).to_numpy(zero_copy_only=False)
            for field in arrays
        ]

    def _fits(self, value: Any) -> bool:
        fields = value if self._is_tuple else (value,)
        if self._is_tuple and (type(value) is not tuple or len(value) != len(self._codes)):
            return False
        return all(
            type(field) is _PYTHON[code] and (code not in _RANGE or field in _RANGE[code])
            for code, field in zip(self._codes, fields, strict=True)
        )

    def _encode(self, value: Any) -> bytes:
        if self._fits(value):
            return self._pack(*value) if self._is_tuple else self._pack(value)
        return b"\x00" + self._encode_opaque(value)

    def _encode_opaque(self, value: Any) -> bytes:
        reason = None if value is None else self._layout.refusal(value)
        if reason is not None:
            raise wrong_type(value, self.type_text, reason)
        return encode_value(None if value is None else self._layout.to_encoded(value))

    def _decode_opaque(self, data: bytes) -> Any:
        value = decode_value(data)
        return None if value is None else self._layout.from_encoded(value)


def _nulls(column: pa.Array) -> list[int]:
    """Positions of None, and of what is pickled."""
    if column.null_count == 0:
        return []
    positions: list[int] = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
    return positions


def _packed(code: str, column: Sequence[Any]) -> bytes:
    """The numbers one after the other; nearly twice as fast as `array`."""
    return struct.pack(f"{len(column)}{code}", *column)


def _has_bool(numbers: bytes, code: str, column: Sequence[Any]) -> bool:
    """Whether an integer column was given a bool. Looks only where the number is 0 or 1."""
    candidates = np.flatnonzero(np.frombuffer(numbers, dtype=_NUMPY[code]).view(_UNSIGNED[code]) <= 1)
    if len(candidates) * _CANDIDATE_COST > len(column):
        return bool in map(type, column)
    return bool in {type(column[position]) for position in candidates.tolist()}


def packed_codec(type_info: TypeInformation) -> PackedCodec | None:
    """The packed codec of a declared type; None when its values have no fixed width."""
    is_tuple = isinstance(type_info, TupleTypeInfo)
    fields = type_info.get_field_types() if isinstance(type_info, TupleTypeInfo) else [type_info]
    codes = ""
    for field in fields:
        if not isinstance(field, BasicTypeInfo) or field.basic_type not in _CODES:
            return None
        codes += _CODES[field.basic_type]
    return PackedCodec(type_text(type_info), codes, is_tuple, layout_of(type_info)) if codes else None
