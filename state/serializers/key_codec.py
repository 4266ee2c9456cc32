"""Deterministic encoding of keys: the bytes that key groups, LMDB and snapshots are built on.

The encoding is self-delimiting and sorts like the keys themselves within one type, so that a key
followed by a map key can be scanned by prefix, in order. Keys that are equal in Python encode equally,
except that a float or a Decimal is never the key that an equal number of another type is.
After the tuple layer of FoundationDB: text and bytes end with `00`, an inner `00` becomes `00 FF`, and
floats are their IEEE 754 bits with the sign flipped, or all bits of a negative one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from ...common.errors import KeyTypeError
from ...common.types import Row, RowKind

_END = 0x00
_BYTES = 0x01
_STR = 0x02
_TUPLE = 0x05
_ROW = 0x06
_BIG_NEGATIVE = 0x14
_INT = 0x15
_BIG_POSITIVE = 0x16
_DATE = 0x20
_DATETIME = 0x21
_INSTANT = 0x22
_TIME = 0x23
_FLOAT = 0x24
_DECIMAL = 0x25
_UUID = 0x26

_CONTAINERS = frozenset({list, tuple})
_SIGN = 1 << 63
_ALL_BITS = (1 << 64) - 1
_BITS = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_INT_STRUCT = struct.Struct(">BQ")
_LENGTH = struct.Struct(">I")
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def encode_key(key: Any) -> bytes:
    """Encode one key.

    Raises:
        KeyTypeError: when the type has no deterministic encoding.
    """
    encoder = _ENCODERS.get(type(key)) or _encoder_of_subclass(key)
    return encoder(key)


def encode_map_key(key: Any) -> bytes:
    """Encode the key of a map entry, which may also be or contain a float or a Decimal.

    A record's key may not: it decides where the record goes, and a rounding error would tear it apart
    from its equals.

    Raises:
        KeyTypeError: when the type has no deterministic encoding, or the number is no number (NaN).
    """
    if isinstance(key, float):
        return _encode_float(key)
    if isinstance(key, Decimal):
        return _encode_decimal(key)
    if isinstance(key, tuple):
        return b"\x05" + b"".join(map(encode_map_key, key)) + b"\x00"
    return encode_key(key)


def decode_key(data: bytes) -> Any:
    """The key whose encoding is `data`."""
    return decode_key_at(data, 0)[0]


def encode_keys(keys: Sequence[Any]) -> list[bytes]:
    """Encode many keys; integers of 64 bits in one vectorised step."""
    kinds = set(map(type, keys))
    if kinds == {int}:
        try:
            return encode_int64(np.array(keys, dtype=np.int64))
        except OverflowError:
            pass
    return [encode_key(key) for key in keys]


def without_lists(keys: list[Any]) -> list[Any]:
    """Keys that can be hashed: a list becomes the tuple of its elements, also inside a list or tuple.

    Args:
        keys: Keys of any types. The same list is returned if there is nothing to change.
    """
    if _CONTAINERS.isdisjoint(map(type, keys)):
        return keys
    return [_without_list(key) for key in keys]


def checked_key(key: Any) -> Any:
    """A key as records have it: without lists.

    Raises:
        KeyTypeError: The type has no deterministic encoding.
    """
    key = _without_list(key)
    encode_key(key)
    return key


def _without_list(key: Any) -> Any:
    if type(key) is list or (type(key) is tuple and not _CONTAINERS.isdisjoint(map(type, key))):
        return tuple(_without_list(element) for element in key)
    return key


def encode_int64(keys: npt.NDArray[np.int64]) -> list[bytes]:
    """Encodings of 64-bit integer keys."""
    encoded = np.empty(len(keys), dtype=INT_KEY_DTYPE)
    fill_int64(encoded, keys)
    result: list[bytes] = encoded.view("V9").tolist()
    return result


INT_KEY_DTYPE = np.dtype([("tag", "u1"), ("key", ">u8")])


def fill_int64(encoded: npt.NDArray[Any], keys: npt.NDArray[np.int64]) -> None:
    """Write the encodings into a structured array with the fields of `INT_KEY_DTYPE`."""
    encoded["tag"] = _INT
    encoded["key"] = keys.view(np.uint64) ^ np.uint64(_SIGN)


def _encode_int(key: int) -> bytes:
    if -_SIGN <= key < _SIGN:
        return _INT_STRUCT.pack(_INT, key + _SIGN)
    magnitude = abs(key)
    length = (magnitude.bit_length() + 7) // 8
    body = _LENGTH.pack(length) + magnitude.to_bytes(length, "big")
    if key > 0:
        return bytes((_BIG_POSITIVE,)) + body
    return bytes((_BIG_NEGATIVE,)) + bytes(255 - byte for byte in body)


def _encode_bytes(key: bytes) -> bytes:
    return b"\x01" + key.replace(b"\x00", b"\x00\xff") + b"\x00"


def _encode_str(key: str) -> bytes:
    return b"\x02" + key.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00"


def _encode_tuple(key: tuple[Any, ...]) -> bytes:
    return b"\x05" + b"".join(map(encode_key, key)) + b"\x00"


def _encode_row(key: Row) -> bytes:
    if key.get_row_kind() is not RowKind.INSERT:
        raise KeyTypeError(f"a Row of kind {key.get_row_kind().name} cannot be a key; use an INSERT row")
    fields = () if key._fields is None else key._fields
    return b"\x06" + _encode_tuple(tuple(key)) + _encode_tuple(fields)


def _encode_date(key: date) -> bytes:
    return bytes((_DATE,)) + _LENGTH.pack(key.toordinal())


def _encode_datetime(key: datetime) -> bytes:
    if key.utcoffset() is None:
        tag, since = _DATETIME, key.replace(tzinfo=None) - _EPOCH
    else:
        tag, since = _INSTANT, key - _EPOCH_UTC
    return _INT_STRUCT.pack(tag, since // _MICROSECOND + _SIGN)


def _encode_time(key: time) -> bytes:
    if key.tzinfo is not None:
        raise KeyTypeError("a time of day with a time zone cannot be a key; use a datetime")
    seconds = (key.hour * 60 + key.minute) * 60 + key.second
    return _INT_STRUCT.pack(_TIME, seconds * 1_000_000 + key.microsecond)


def _encode_float(key: float) -> bytes:
    if key != key:
        raise KeyTypeError("NaN cannot be a key: it does not equal itself")
    # Adding zero makes 0.0 of -0.0, which equals it.
    (bits,) = _BITS.unpack(_DOUBLE.pack(key + 0.0))
    return _INT_STRUCT.pack(_FLOAT, bits ^ _ALL_BITS if bits & _SIGN else bits | _SIGN)


def _decode_float(raw: int) -> float:
    bits = raw ^ _SIGN if raw & _SIGN else raw ^ _ALL_BITS
    value: float = _DOUBLE.unpack(_BITS.pack(bits))[0]
    return value


def _encode_decimal(key: Decimal) -> bytes:
    if key.is_nan():
        raise KeyTypeError("NaN cannot be a key: it does not equal itself")
    sign, digits, exponent = key.as_tuple()
    if isinstance(exponent, int):
        # Equal decimals differ in their trailing zeros; normalize() would round to the context.
        text = "".join(map(str, digits)).rstrip("0")
        exponent += len(digits) - len(text)
        key = Decimal((sign, tuple(map(int, text)), exponent)) if text else Decimal(0)
    return bytes((_DECIMAL,)) + str(key).encode() + b"\x00"


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    int: _encode_int,
    bool: lambda key: _encode_int(int(key)),
    str: _encode_str,
    bytes: _encode_bytes,
    tuple: _encode_tuple,
    Row: _encode_row,
    date: _encode_date,
    datetime: _encode_datetime,
    time: _encode_time,
    UUID: lambda key: b"\x26" + key.bytes,
}
# Every key of exactly one of these types has an encoding.
PLAIN_KEY_TYPES = frozenset({int, bool, str, bytes, date, datetime})


def _encoder_of_subclass(key: Any) -> Callable[[Any], bytes]:
    if isinstance(key, np.integer):
        return lambda value: _encode_int(int(value))
    # datetime comes before its parent date.
    for parent in (int, str, bytes, tuple, datetime, date, time, UUID):
        if isinstance(key, parent):
            return _ENCODERS[parent]
    what = "None" if key is None else f"a key of type {type(key).__name__}"
    raise KeyTypeError(
        f"{what} has no deterministic encoding ({key!r:.100}); use int, str, bytes, bool, date, datetime, "
        f"time, UUID, or a tuple of these; as the key of a map entry also float and Decimal"
    )


def decode_key_at(data: bytes, at: int) -> tuple[Any, int]:
    """The key that starts at offset `at`, and the offset behind it."""
    tag = data[at]
    if tag in _FIXED:
        _, raw = _INT_STRUCT.unpack_from(data, at)
        return _FIXED[tag](raw), at + _INT_STRUCT.size
    if tag in (_STR, _BYTES):
        return _decode_text(data, at)
    if tag == _TUPLE:
        return _decode_tuple(data, at + 1)
    if tag == _ROW:
        return _decode_row(data, at + 1)
    if tag == _DATE:
        return date.fromordinal(_LENGTH.unpack_from(data, at + 1)[0]), at + 5
    if tag == _UUID:
        return UUID(bytes=data[at + 1 : at + 17]), at + 17
    if tag == _DECIMAL:
        end = data.index(_END, at)
        return Decimal(data[at + 1 : end].decode()), end + 1
    if tag in (_BIG_POSITIVE, _BIG_NEGATIVE):
        return _decode_big_int(data, at)
    raise KeyTypeError(f"encoded key {data.hex()} has the unknown tag {tag} at offset {at}")


def _decode_time(raw: int) -> time:
    return (_EPOCH + timedelta(microseconds=raw)).time()


_FIXED: dict[int, Callable[[int], Any]] = {
    _INT: lambda raw: raw - _SIGN,
    _DATETIME: lambda raw: _EPOCH + timedelta(microseconds=raw - _SIGN),
    _INSTANT: lambda raw: _EPOCH_UTC + timedelta(microseconds=raw - _SIGN),
    _TIME: _decode_time,
    _FLOAT: _decode_float,
}


def _decode_text(data: bytes, at: int) -> tuple[Any, int]:
    end = data.index(_END, at + 1)
    while data[end + 1 : end + 2] == b"\xff":
        end = data.index(_END, end + 2)
    raw = data[at + 1 : end].replace(b"\x00\xff", b"\x00")
    return (raw.decode("utf-8", "surrogatepass") if data[at] == _STR else raw), end + 1


def _decode_tuple(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    elements = []
    while data[at] != _END:
        element, at = decode_key_at(data, at)
        elements.append(element)
    return tuple(elements), at + 1


def _decode_row(data: bytes, at: int) -> tuple[Row, int]:
    values, at = decode_key_at(data, at)
    fields, at = decode_key_at(data, at)
    row = Row(*values)
    if fields:
        row.set_field_names(fields)
    return row, at


def _decode_big_int(data: bytes, at: int) -> tuple[int, int]:
    negative = data[at] == _BIG_NEGATIVE
    flip = 255 if negative else 0
    header = bytes(byte ^ flip for byte in data[at + 1 : at + 5])
    end = at + 5 + _LENGTH.unpack(header)[0]
    magnitude = int.from_bytes(bytes(byte ^ flip for byte in data[at + 5 : end]), "big")
    return (-magnitude if negative else magnitude), end
