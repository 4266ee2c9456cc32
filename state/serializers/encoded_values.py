"""The encoding of values of a declared type that their column cannot hold exactly. It runs no code.

A value is a tag and its content. Lengths and counts are unsigned, seven bits a byte, the lowest first;
integers are two's complement, little endian, behind their length. `docs/snapshot-format.md` has the table.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from ...common.errors import CorruptCheckpointError, StateError
from ...common.time import Instant
from ...common.type_system.plain_conversion import value_text
from ...common.types import Row, RowKind

VERSION = 1
"""The first byte of every encoded value. Neither a pickle nor a marshalled value starts with it."""

_DOUBLE = struct.Struct("<d")
_MICROSECOND = timedelta(microseconds=1)
# Text and objects have no fixed width, and objects no encoding at all.
_ARRAY_KINDS = "biufcmMSU"
_MOST_DEPTH = 200


@dataclass(frozen=True)
class PickledValue:
    """A value stored as a pickle, which was not unpickled: that could run any code.

    Attributes:
        data: the pickle, to be loaded only where the snapshot's origin is trusted (`trusted=True`).
    """

    data: bytes


def encode_value(value: Any) -> bytes:
    """Encode a value.

    Args:
        value: None, a bool, a number, text, bytes, a date, a time, an `Instant`, a NumPy or standard array; a
            list, a tuple, a dict or a `Row` of these; or a `PickledValue`. Of a scalar also an instance of a
            subclass, which comes back as the scalar that it equals.

    Raises:
        StateError: It is, or contains, something else.
    """
    out = bytearray((VERSION,))
    _write(value, out)
    return bytes(out)


def decode_value(data: bytes) -> Any:
    """Decode what `encode_value` wrote.

    Raises:
        CorruptCheckpointError: `data` is something else, such as a pickle.
    """
    if data[:1] != bytes((VERSION,)):
        what = "a pickle" if data[:1] == b"\x80" else "not encoded as this release encodes values"
        raise CorruptCheckpointError(
            f"a value of a declared type is {what}: {data[:20]!r}…; values of declared types are never "
            f"unpickled, so the file was damaged or made by something else than Tidegate: do not restore it"
        )
    try:
        reader = _Reader(data)
        value = reader.value(0)
    except (IndexError, ValueError, TypeError, OverflowError, ArithmeticError, struct.error) as error:
        raise CorruptCheckpointError(
            f"a value of a declared type is not encoded correctly ({error}): {data[:20]!r}…; restore another "
            f"checkpoint or savepoint"
        ) from error
    if reader.at != len(data):
        raise CorruptCheckpointError(
            f"an encoded value is followed by {len(data) - reader.at} bytes; restore another checkpoint or "
            f"savepoint"
        )
    return value


@contextmanager
def damage_named(where: str) -> Iterator[None]:
    """Add the operator and the state to errors about damage.

    Raises:
        CorruptCheckpointError: One was raised inside.
    """
    try:
        yield
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{where}: {error}") from error


# ------------------------------------------------------------ writing


def _count(number: int, out: bytearray) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _bytes(data: bytes, out: bytearray) -> None:
    _count(len(data), out)
    out += data


def _integer(number: int, out: bytearray) -> None:
    _bytes(number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True), out)


def _text(text: str, out: bytearray) -> None:
    _bytes(text.encode("utf-8", "surrogatepass"), out)


def _many(values: Iterable[Any], count: int, out: bytearray) -> None:
    _count(count, out)
    for value in values:
        _write(value, out)


def _zone(moment: Any, out: bytearray) -> None:
    """`fold`, and the offset from UTC in microseconds, or None without a zone."""
    offset = moment.utcoffset()
    if offset is None and moment.tzinfo is not None:
        raise StateError(
            f"the time {moment!r:.100} has a time zone without a fixed offset; store it without a zone"
        )
    out.append(moment.fold)
    _write(None if offset is None else offset // _MICROSECOND, out)


def _micros(clock: time | datetime) -> int:
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond


def _write_time(value: time, out: bytearray) -> None:
    _integer(_micros(value), out)
    _zone(value, out)


def _write_moment(value: datetime, out: bytearray) -> None:
    if getattr(value, "nanosecond", 0):
        raise StateError(f"{value!r:.100} has nanoseconds, which a timestamp cannot hold; declare INSTANT")
    _integer(value.toordinal(), out)
    _integer(_micros(value), out)
    _zone(value, out)


def _write_row(row: Row, out: bytearray) -> None:
    out.append(row._row_kind.value)
    _write(row._fields, out)
    _many(row._values, len(row._values), out)


def _write_array(value: Any, out: bytearray) -> None:
    kind = value.dtype
    if kind.kind not in ("O", *_ARRAY_KINDS):
        raise StateError(f"an array of {kind} has no encoding; store a list")
    _text("O" if kind.kind == "O" else kind.str, out)
    _write(tuple(map(int, value.shape)), out)
    if kind.kind == "O":
        _many(value.ravel().tolist(), value.size, out)
    else:
        _bytes(np.ascontiguousarray(value).tobytes(), out)


def _write_items(value: dict[Any, Any], out: bytearray) -> None:
    _many((part for item in value.items() for part in item), 2 * len(value), out)


def _write_standard_array(value: Any, out: bytearray) -> None:
    _text(value.typecode, out)
    _bytes(value.tobytes(), out)


_Writer = Callable[[Any, bytearray], None]
# A bool is an int, and a datetime a date: the first that fits counts.
_WRITERS: list[tuple[type | tuple[type, ...], bytes, _Writer]] = [
    (type(None), b"N", lambda value, out: None),
    ((bool, np.bool_), b"?", lambda value, out: out.append(bool(value))),
    ((int, np.integer), b"i", lambda value, out: _integer(int(value), out)),
    ((float, np.floating), b"f", lambda value, out: out.extend(_DOUBLE.pack(value))),
    (str, b"s", lambda value, out: _text(str.__str__(value), out)),
    (bytes, b"b", _bytes),
    (bytearray, b"B", _bytes),
    (Decimal, b"d", lambda value, out: _text(Decimal.__str__(value), out)),
    (datetime, b"M", _write_moment),
    (date, b"D", lambda value, out: _integer(value.toordinal(), out)),
    (time, b"t", _write_time),
    (Instant, b"I", lambda value, out: _many((value.seconds, value.nanos), 2, out)),
    (tuple, b"(", lambda value, out: _many(value, len(value), out)),
    (list, b"[", lambda value, out: _many(value, len(value), out)),
    (dict, b"{", _write_items),
    (Row, b"R", _write_row),
    (array, b"a", _write_standard_array),
    (np.ndarray, b"n", _write_array),
    (PickledValue, b"P", lambda value, out: _bytes(value.data, out)),
]
_OF_TYPE = {kinds: (tag, write) for kinds, tag, write in _WRITERS if isinstance(kinds, type)}


def _write(value: Any, out: bytearray) -> None:
    found = _OF_TYPE.get(type(value))
    if found is None:
        found = next(((tag, write) for kinds, tag, write in _WRITERS if isinstance(value, kinds)), None)
        if found is None:
            raise StateError(
                f"{value_text(value)} has no encoding inside a value of a declared "
                f"type; declare another type in the state descriptor"
            )
    tag, write = found
    out += tag
    write(value, out)


# ------------------------------------------------------------ reading


class _Reader:
    """Reads one value; raises what Python raises for bytes that are no value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 1

    def value(self, depth: int) -> Any:
        """The value that starts here."""
        if depth > _MOST_DEPTH:
            raise ValueError(f"it is nested deeper than {_MOST_DEPTH} levels")
        tag = self._byte()
        read = _READERS.get(tag)
        if read is None:
            raise ValueError(f"unknown tag {tag} at byte {self.at - 1}")
        return read(self, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _count(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 63:
                raise ValueError("a length is too long")
        # Each element takes a byte at least, so a count that lies is found before anything is allocated.
        if number > len(self._data) - self.at:
            raise ValueError(f"the length {number} at byte {self.at} is more than there is")
        return number

    def raw(self) -> bytes:
        """Bytes behind their length."""
        length = self._count()
        self.at += length
        return self._data[self.at - length : self.at]

    def text(self) -> str:
        """Text behind its length in UTF-8."""
        return self.raw().decode("utf-8", "surrogatepass")

    def integer(self) -> int:
        """An integer of any size."""
        return int.from_bytes(self.raw(), "little", signed=True)

    def double(self) -> float:
        """A float of 64 bits."""
        (number,) = _DOUBLE.unpack_from(self._data, self.at)
        self.at += _DOUBLE.size
        return float(number)

    def flag(self) -> bool:
        """A bool."""
        return bool(self._byte())

    def many(self, depth: int) -> list[Any]:
        """Values behind their count."""
        return [self.value(depth) for _ in range(self._count())]

    def moment(self, depth: int) -> datetime:
        """A date and a time of day."""
        day = date.fromordinal(self.integer())
        return datetime.combine(day, self.clock(depth))

    def clock(self, depth: int) -> time:
        """A time of day, with its zone."""
        micros = self.integer()
        fold, offset = self._byte(), self.value(depth)
        zone = None if offset is None else timezone(timedelta(microseconds=offset))
        clock = (datetime.min + timedelta(microseconds=micros)).time()
        return clock.replace(tzinfo=zone, fold=fold)

    def instant(self, depth: int) -> Instant:
        """An instant, of its seconds and nanoseconds."""
        seconds, nanos = self.many(depth)
        return Instant(seconds, nanos)

    def items(self, depth: int) -> dict[Any, Any]:
        """A dict, of keys and values in turn."""
        parts = self.many(depth)
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def row(self, depth: int) -> Row:
        """A row, with its kind and its names."""
        kind, names = RowKind(self._byte()), self.value(depth)
        row = Row(*self.many(depth))
        row.set_row_kind(kind)
        if names is not None:
            row.set_field_names(list(names))
        return row

    def standard_array(self) -> Any:
        """An `array.array`."""
        found = array(self.text())
        found.frombytes(self.raw())
        return found

    def array(self, depth: int) -> Any:
        """A NumPy array."""
        text = self.text()
        shape = tuple(map(int, self.value(depth)))
        if text == "O":
            parts = self.many(depth)
            objects = np.empty(len(parts), object)
            for index, part in enumerate(parts):
                objects[index] = part
            return objects.reshape(shape)
        kind = np.dtype(text)
        if kind.kind not in _ARRAY_KINDS:
            raise ValueError(f"an array of {kind}")
        return np.frombuffer(self.raw(), kind).reshape(shape).copy()


_READERS: dict[int, Callable[[_Reader, int], Any]] = {
    ord("N"): lambda reader, _: None,
    ord("?"): lambda reader, _: reader.flag(),
    ord("i"): lambda reader, _: reader.integer(),
    ord("f"): lambda reader, _: reader.double(),
    ord("s"): lambda reader, _: reader.text(),
    ord("b"): lambda reader, _: reader.raw(),
    ord("B"): lambda reader, _: bytearray(reader.raw()),
    ord("d"): lambda reader, _: _decimal(reader.text()),
    ord("M"): _Reader.moment,
    ord("D"): lambda reader, _: date.fromordinal(reader.integer()),
    ord("t"): _Reader.clock,
    ord("I"): _Reader.instant,
    ord("("): lambda reader, depth: tuple(reader.many(depth)),
    ord("["): _Reader.many,
    ord("{"): _Reader.items,
    ord("R"): _Reader.row,
    ord("a"): lambda reader, _: reader.standard_array(),
    ord("n"): _Reader.array,
    ord("P"): lambda reader, _: PickledValue(reader.raw()),
}


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r:.50} is not a decimal") from error
