"""Converters of single values: numbers, texts, dates, and values of one Python type."""

from __future__ import annotations

import logging
import struct
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from operator import eq
from typing import Any

from ..bulk_comparison import all_equal
from .declared_types import TypeInformation, type_text

__all__ = [
    "Converter",
    "PlainConverter",
    "WrongValueError",
    "plain_converter",
    "shortened",
    "unconverted",
    "value_text",
]

logger = logging.getLogger("tidegate")

_NONE = type(None)


class WrongValueError(Exception):
    """A value does not have the declared type, and cannot be converted to it.

    Attributes:
        reason: what is wrong, with the value, the declared type and the place in the record.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Converter(ABC):
    """Converts values to one type.

    Args:
        declared: the type, as errors show it.
        is_nullable: whether None may stand for a value; it may inside rows, lists and maps.
        python_type: the Python type of values that need no conversion.
    """

    def __init__(self, declared: TypeInformation, is_nullable: bool, python_type: type) -> None:
        self._declared = declared
        self._is_nullable = is_nullable
        self._python_type = python_type
        self._kinds = {python_type}

    def __call__(self, values: Sequence[Any]) -> Sequence[Any]:
        """Convert values.

        Args:
            values: any number of them.

        Returns:
            `values` itself if every one has the declared type, else a new list.

        Raises:
            WrongValueError: one of them cannot be converted to the declared type.
        """
        if not values:
            return values
        if all_equal(map(type, values), self._python_type, len(values)):
            return self.convert(values, self._kinds)
        kinds = set(map(type, values))
        if _NONE not in kinds:
            return self.convert(values, kinds)
        if not self._is_nullable:
            raise self.wrong(None)
        kinds.discard(_NONE)
        if not kinds:
            return values
        present = [value for value in values if value is not None]
        converted = self.convert(present, kinds)
        if converted is present:
            return values
        following = iter(converted)
        return [None if value is None else next(following) for value in values]

    @abstractmethod
    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        """As a call, for values none of which is None, and whose Python types are `kinds`."""

    def wrong(self, value: object) -> WrongValueError:
        """The error for a value of another type."""
        return WrongValueError(f"{value_text(value)} where {type_text(self._declared)} is declared")


def plain_converter(
    type_info: TypeInformation, python_type: type, is_nullable: bool, wraps_integers: bool
) -> PlainConverter:
    """The converter to a type whose values have no parts with declared types."""
    text = type_text(type_info)
    if text in _BITS:
        return _Integers(type_info, is_nullable, _BITS[text], wraps_integers)
    if text == "FLOAT":
        return _Singles(type_info, is_nullable)
    if text == "CHAR":
        return _Characters(type_info, is_nullable)
    return PlainConverter(type_info, is_nullable, python_type, _CONVERSIONS.get(text, unconverted))


class PlainConverter(Converter):
    """Values of one Python type.

    Args:
        python_type: what values should be; instances of subclasses will do.
        convert_one: gives the value for an object of another type, or None if there is none.
    """

    def __init__(
        self,
        declared: TypeInformation,
        is_nullable: bool,
        python_type: type,
        convert_one: Callable[[Any], Any],
    ) -> None:
        super().__init__(declared, is_nullable, python_type)
        self._convert_one = convert_one

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        if kinds <= self._kinds:
            return values
        return [self.one(value) for value in values]

    def one(self, value: Any) -> Any:
        value = _without_numpy(value)
        converted = self._convert_one(value)
        if converted is not None:
            return converted
        if isinstance(value, self._python_type):
            return value
        raise self.wrong(value)


_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}
"""What `struct` calls integers of so many bits."""


class _Integers(PlainConverter):
    """Integers of so many bits."""

    def __init__(self, declared: TypeInformation, is_nullable: bool, bits: int, wraps: bool) -> None:
        super().__init__(declared, is_nullable, int, _as_integer)
        self._bits = bits
        self._highest = (1 << (bits - 1)) - 1
        self._lowest = -self._highest - 1
        self._wraps = wraps

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        converted = super().convert(values, kinds)
        try:
            # A fifth of what `min` and `max` take.
            struct.pack(f"{len(converted)}{_CODES[self._bits]}", *converted)
        except struct.error:
            return [self._fitting(value) for value in converted]
        return converted

    def _fitting(self, value: int) -> int:
        if self._lowest <= value <= self._highest:
            return value
        problem = (
            f"{value} does not fit {type_text(self._declared)}, which holds {self._lowest} to {self._highest}"
        )
        if not self._wraps:
            raise WrongValueError(problem)
        kept = (value - self._lowest) % (1 << self._bits) + self._lowest
        logger.warning("%s; its low %d bits are kept, as in PyFlink: %d", problem, self._bits, kept)
        return kept


class _Singles(PlainConverter):
    """Numbers rounded to 32 bits."""

    def __init__(self, declared: TypeInformation, is_nullable: bool) -> None:
        super().__init__(declared, is_nullable, float, _as_float)

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        converted = super().convert(values, kinds)
        rounded = array("f", converted).tolist()
        return converted if all(map(eq, rounded, converted)) else rounded


class _Characters(PlainConverter):
    """Texts of one character."""

    def __init__(self, declared: TypeInformation, is_nullable: bool) -> None:
        super().__init__(declared, is_nullable, str, unconverted)

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        converted = super().convert(values, kinds)
        for value in converted:
            if len(value) != 1:
                raise self.wrong(value)
        return converted


def unconverted(value: Any) -> None:
    """No object of another type will do."""


def _as_integer(value: Any) -> int | None:
    return int(value) if isinstance(value, Integral) else None


def _as_float(value: Any) -> float | None:
    return float(value) if isinstance(value, Real) else None


def _as_decimal(value: Any) -> Decimal | None:
    return Decimal(int(value)) if isinstance(value, Integral) else None


def _as_date(value: Any) -> date | None:
    return value.date() if isinstance(value, datetime) else None


def _as_bytes(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else None


def _without_numpy(value: Any) -> Any:
    """The Python value of a NumPy scalar; told by its module, so that NumPy need not be imported."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else value


_BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "DOUBLE": _as_float,
    "BIG_INT": _as_integer,
    "BIG_DEC": _as_decimal,
    "SQL_DATE": _as_date,
    "PRIMITIVE_ARRAY(BYTE)": _as_bytes,
}
"""What else may be given for a value of a type, by the text of the type."""


def value_text(value: object) -> str:
    """A value of a wrong type, as errors show it."""
    return "None" if value is None else f"{shortened(value)} of type {type(value).__name__}"


def shortened(value: object, limit: int = 200) -> str:
    """How a value prints, cut where that gets long."""
    try:
        text = repr(value)
    except Exception as error:
        # A value that is nested too deeply, or a class of the user's.
        text = f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"
    return text if len(text) <= limit else text[:limit] + "…"
