"""How values of a declared type are laid out: the interface, and the forms of scalars.

Between a Python value and its stored forms stands its *plain* form, made of `int`, `float`, `bool`, `str`,
`bytes`, and of tuples, lists and dicts of these. Columns are built from plain values and give them back;
so do the bytes in LMDB. None is its own plain form everywhere.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.errors import CorruptCheckpointError, StateError
from ...common.time import Instant
from ...common.type_system.class_types import CustomTypeInfo, EnumTypeInfo, class_name_of
from ...common.type_system.plain_conversion import value_text
from ...common.type_system.type_structure import PYTHON_TYPES
from .encoded_values import PickledValue

_NONE = type(None)
_UNIX_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_NANOS = 1_000_000_000


def same(value: Any) -> Any:
    """The value itself: the conversion of types whose plain form is the value."""
    return value


class ValueLayout(ABC):
    """The layout of one declared type.

    A value that is not exact is *encoded*, by itself: `to_encoded` turns it into what `encode_value` takes,
    and `from_encoded` turns that back. Neither runs code of the value, and only `PickledLayout` unpickles.

    Attributes:
        arrow_type: of the column.
        immutable: whether values cannot change in place.
        plain: turns an exact value into its plain form; `same` where that is the value.
        back: turns a plain form into the value. Neither is ever given None.
    """

    arrow_type: pa.DataType
    immutable: bool = True
    plain: Callable[[Any], Any] = staticmethod(same)
    back: Callable[[Any], Any] = staticmethod(same)

    @abstractmethod
    def are_exact(self, values: Collection[Any]) -> bool:
        """Whether every value, None aside, comes back from its plain form exactly as it is."""

    @abstractmethod
    def refusal(self, value: Any) -> str | None:
        """Why a value that is not exact is of a wrong type; None when it only needs to be encoded."""

    @abstractmethod
    def to_encoded(self, value: Any) -> Any:
        """A value that is not refused, and not None, as `encode_value` takes it.

        Raises:
            StateError: it, or a part of it, has no encoding.
        """

    @abstractmethod
    def from_encoded(self, data: Any) -> Any:
        """The value of what `decode_value` gave, which is not None.

        Raises:
            CorruptCheckpointError: it is of another type.
        """

    @abstractmethod
    def column(self, plains: list[Any]) -> pa.Array:
        """A column of plain values.

        Raises:
            pa.ArrowException, OverflowError, UnicodeError: when it cannot hold one of them.
        """

    @abstractmethod
    def plains(self, column: pa.Array) -> list[Any]:
        """The plain values of a column."""


def checked(layout: ValueLayout, data: Any) -> Any:
    """What `decode_value` gave, if it is of the type of a form.

    Raises:
        CorruptCheckpointError: it is not.
    """
    reason = None if layout.are_exact([data]) else layout.refusal(data)
    if reason is not None:
        raise CorruptCheckpointError(
            f"a stored value contains {reason}, which does not fit its declared type; restore another "
            f"checkpoint or savepoint"
        )
    return data


def nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A conversion that leaves None as it is."""
    if convert is same:
        return same
    return lambda value: None if value is None else convert(value)


class ScalarLayout(ValueLayout):
    """A value with no parts.

    Args:
        exact: the one Python type of exact values.
        is_exact: a further condition on exact values.
        also: types that are not wrong, but encoded.
        stored_as: the integer type behind a date or time column.
    """

    def __init__(
        self,
        arrow_type: pa.DataType,
        exact: type,
        plain: Callable[[Any], Any] = same,
        back: Callable[[Any], Any] = same,
        is_exact: Callable[[Any], bool] | None = None,
        also: tuple[type, ...] = (),
        stored_as: pa.DataType | None = None,
    ) -> None:
        self.arrow_type = arrow_type
        self.plain = plain
        self.back = back
        self._types = {exact, _NONE}
        self._accepted = (exact, *also)
        self._is_exact = is_exact
        self._stored_as = stored_as

    def are_exact(self, values: Collection[Any]) -> bool:
        if not self._types.issuperset(map(type, values)):
            return False
        is_exact = self._is_exact
        return is_exact is None or all(value is None or is_exact(value) for value in values)

    def refusal(self, value: Any) -> str | None:
        # A bool is an int to Python, but nobody means one by it.
        is_wrong = not isinstance(value, self._accepted) or (
            isinstance(value, bool) and bool not in self._accepted
        )
        return value_text(value) if is_wrong else None

    def to_encoded(self, value: Any) -> Any:
        return value

    def from_encoded(self, data: Any) -> Any:
        return checked(self, data)

    def column(self, plains: list[Any]) -> pa.Array:
        return pa.array(plains, type=self.arrow_type)

    def plains(self, column: pa.Array) -> list[Any]:
        if self._stored_as is not None:
            column = column.cast(self._stored_as)
        plains: list[Any]
        if column.null_count:
            plains = column.to_pylist()
        elif pa.types.is_primitive(column.type):
            plains = column.to_numpy(zero_copy_only=False).tolist()
        elif pa.types.is_large_binary(column.type):
            plains = binary_values(column)
        else:
            plains = column.to_pylist()
        return plains


class PickledLayout(ScalarLayout):
    """Any object, pickled: a field of unknown type inside a value of a known one."""

    def __init__(self, dumps: Callable[[Any], bytes]) -> None:
        super().__init__(pa.large_binary(), object, dumps, pickle.loads)
        self.immutable = False

    def are_exact(self, values: Collection[Any]) -> bool:
        return True

    def refusal(self, value: Any) -> str | None:
        return None

    def to_encoded(self, value: Any) -> Any:
        return PickledValue(self.plain(value))

    def from_encoded(self, data: Any) -> Any:
        if type(data) is not PickledValue:
            raise CorruptCheckpointError(
                f"a stored value contains {data!r:.100} where a value without a declared type is pickled; "
                f"restore another checkpoint or savepoint"
            )
        return self.back(data.data)


class CustomLayout(ScalarLayout):
    """Values that a user's codec turns into bytes."""

    def __init__(self, type_info: CustomTypeInfo) -> None:
        codec = type_info.codec
        if codec is None:
            super().__init__(pa.large_binary(), bytes)
            return
        python_type = codec.python_type

        def encode(value: Any) -> bytes:
            try:
                data = codec.encode(value)
            except Exception as error:
                raise StateError(
                    f"the codec {codec.name!r} cannot encode {value_text(value)}: {error}"
                ) from error
            if type(data) is not bytes:
                raise StateError(f"the codec {codec.name!r} gave {type(data).__name__}, not bytes")
            return data

        super().__init__(pa.large_binary(), python_type or object, encode, codec.decode)
        self.immutable = codec.immutable
        self._any_type = python_type is None

    def are_exact(self, values: Collection[Any]) -> bool:
        return self._any_type or super().are_exact(values)

    def to_encoded(self, value: Any) -> Any:
        return self.plain(value)

    def from_encoded(self, data: Any) -> Any:
        return self.back(checked(BYTES_LAYOUT, data))

    _any_type = False


class _EnumLayout(ScalarLayout):
    def to_encoded(self, value: Any) -> Any:
        return self.plain(value)

    def from_encoded(self, data: Any) -> Any:
        return self.back(checked(SCALAR_LAYOUTS["STRING"], data))


def enum_layout(type_info: EnumTypeInfo) -> ScalarLayout:
    """Members by their names; the names themselves where the class is unknown."""
    python_class = type_info.python_class
    if python_class is None:
        return ScalarLayout(pa.large_string(), str)

    def back(name: str) -> Any:
        try:
            return python_class[name]
        except KeyError as error:
            raise StateError(
                f"{class_name_of(python_class)} has no member {name}, which is stored in state"
            ) from error

    return _EnumLayout(pa.large_string(), python_class, lambda member: member.name, back)


def _is_naive(value: Any) -> bool:
    return value.tzinfo is None and not value.fold


def _micros_of_time(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _scalar(text: str, arrow_type: pa.DataType, *conversion: Any, **rest: Any) -> ScalarLayout:
    """The layout of a type without parts, by the text of the type."""
    return ScalarLayout(arrow_type, PYTHON_TYPES[text], *conversion, **rest)


# Text is the one column that holds every integer and every decimal, with its exponent, exactly.
SCALAR_LAYOUTS = {
    "STRING": _scalar("STRING", pa.large_string()),
    "CHAR": _scalar("CHAR", pa.large_string()),
    "BYTE": _scalar("BYTE", pa.int8(), also=(np.integer,)),
    "SHORT": _scalar("SHORT", pa.int16(), also=(np.integer,)),
    "INT": _scalar("INT", pa.int32(), also=(np.integer,)),
    "LONG": _scalar("LONG", pa.int64(), also=(np.integer,)),
    "BIG_INT": _scalar(
        "BIG_INT",
        pa.large_string(),
        str,
        int,
        # Python refuses to write or read longer ones as text (4,300 digits).
        lambda value: value.bit_length() < 14_000,
        also=(np.integer,),
    ),
    "FLOAT": _scalar("FLOAT", pa.float64(), also=(int, np.floating, np.integer)),
    "DOUBLE": _scalar("DOUBLE", pa.float64(), also=(int, np.floating, np.integer)),
    "BIG_DEC": _scalar("BIG_DEC", pa.large_string(), str, Decimal, also=(int,)),
    "BOOLEAN": _scalar("BOOLEAN", pa.bool_(), also=(np.bool_,)),
    "INSTANT": _scalar(
        "INSTANT",
        pa.timestamp("ns", "UTC"),
        lambda value: value.seconds * _NANOS + value.nanos,
        lambda nanos: Instant(*divmod(nanos, _NANOS)),
        lambda value: type(value.seconds) is type(value.nanos) is int and 0 <= value.nanos < _NANOS,
        stored_as=pa.int64(),
    ),
    "SQL_DATE": _scalar(
        "SQL_DATE",
        pa.date32(),
        lambda value: value.toordinal() - _UNIX_EPOCH_DAY,
        lambda day: date.fromordinal(day + _UNIX_EPOCH_DAY),
        stored_as=pa.int32(),
    ),
    "SQL_TIME": _scalar(
        "SQL_TIME",
        pa.time64("us"),
        _micros_of_time,
        lambda micros: (_EPOCH + timedelta(microseconds=micros)).time(),
        _is_naive,
        stored_as=pa.int64(),
    ),
    "SQL_TIMESTAMP": _scalar(
        "SQL_TIMESTAMP",
        pa.timestamp("us"),
        lambda value: (value - _EPOCH) // _MICROSECOND,
        lambda micros: _EPOCH + timedelta(microseconds=micros),
        _is_naive,
        stored_as=pa.int64(),
    ),
    "SQL_TIMESTAMP_LTZ": _scalar(
        "SQL_TIMESTAMP_LTZ",
        pa.timestamp("us", "UTC"),
        lambda value: (value - _EPOCH_UTC) // _MICROSECOND,
        lambda micros: _EPOCH_UTC + timedelta(microseconds=micros),
        lambda value: value.utcoffset() is not None,
        stored_as=pa.int64(),
    ),
    "PRIMITIVE_ARRAY(BYTE)": _scalar("PRIMITIVE_ARRAY(BYTE)", pa.large_binary(), also=(bytearray,)),
}
BYTES_LAYOUT = SCALAR_LAYOUTS["PRIMITIVE_ARRAY(BYTE)"]
# What a list may be given as, though only a list comes back from a column.
LIST_LIKE = (list, tuple, array, np.ndarray)


def binary_values(column: pa.Array) -> list[bytes]:
    """The elements of a binary column without nulls, several times faster than `to_pylist`."""
    # A cast imports pyarrow.compute, which takes 0.05 s, also where there is nothing to cast.
    wide = column if column.type == pa.large_binary() else column.cast(pa.large_binary())
    if len(wide) == 0:
        return []
    _, offset_buffer, data = wide.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1]
    start, end = int(offsets[0]), int(offsets[-1])
    raw = data.slice(start, end - start).to_pybytes() if data is not None else b""
    bounds = (offsets - start).tolist()
    return [raw[low:high] for low, high in pairwise(bounds)]
