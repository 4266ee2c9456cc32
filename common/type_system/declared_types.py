"""The classes of declared types, which `Types` makes.

A type information is an immutable value: it can be compared, hashed, pickled and written into a
snapshot (`type_text`). It describes values and never converts them; codecs and Arrow columns are
chosen from it elsewhere.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ..errors import ConfigurationError

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalZonedTimestampTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "name_text",
    "type_text",
]


class TypeInformation(ABC):
    """The declared type of a value. Obtain one from `Types`."""

    @abstractmethod
    def _text(self) -> str:
        """The stable form that `type_text` returns."""


def type_text(type_info: TypeInformation) -> str:
    """Write a type in the stable form that snapshots store and restores compare.

    Unlike `str(type_info)`, which follows PyFlink, the form names every field of a row (an unnamed
    row has the fields `f0`, `f1`, …), so two types share a text exactly when their values have the
    same columns.

    Args:
        type_info: the type to write.

    Returns:
        The factory's name in `Types` with its arguments, for example
        `ROW(tail: STRING, delays: LIST(DOUBLE))`.

    Raises:
        ConfigurationError: the argument is not a type information.
    """
    return _checked(type_info, "type_text")._text()


def _checked(candidate: object, where: str) -> TypeInformation:
    """Refuse what is not a type, above all a factory that was named but not called."""
    if isinstance(candidate, TypeInformation):
        return candidate
    name = str(getattr(candidate, "__qualname__", ""))
    hint = f"; write {name}()" if name.startswith("Types.") else ""
    raise ConfigurationError(
        f"{where} needs type informations such as Types.STRING(), got {candidate!r}{hint}"
    )


def _checked_all(candidates: Sequence[object], where: str) -> tuple[TypeInformation, ...]:
    if isinstance(candidates, TypeInformation) or not isinstance(candidates, Sequence):
        raise ConfigurationError(
            f"{where} needs a list of types, for example [Types.STRING(), Types.INT()], got {candidates!r}"
        )
    return tuple(_checked(candidate, where) for candidate in candidates)


class BasicType(Enum):
    """The scalar types; the value is the name that PyFlink prints."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


@dataclass(frozen=True, repr=False)
class BasicTypeInfo(TypeInformation):
    """A scalar: text, a truth value or a number."""

    basic_type: BasicType

    def __repr__(self) -> str:
        return self.basic_type.value

    def _text(self) -> str:
        return self.basic_type.name


@dataclass(frozen=True, repr=False)
class InstantTypeInfo(BasicTypeInfo):
    """A point on the time line (`tidegate.common.Instant`)."""

    basic_type: BasicType = BasicType.INSTANT


class SqlTimeTypeInfo(TypeInformation):
    """Common parent of date, time of day and timestamp."""


@dataclass(frozen=True, repr=False)
class DateTypeInfo(SqlTimeTypeInfo):
    """A calendar date (`datetime.date`)."""

    def __repr__(self) -> str:
        return "DateTypeInfo"

    def _text(self) -> str:
        return "SQL_DATE"


@dataclass(frozen=True, repr=False)
class TimeTypeInfo(SqlTimeTypeInfo):
    """A time of day (`datetime.time`)."""

    def __repr__(self) -> str:
        return "TimeTypeInfo"

    def _text(self) -> str:
        return "SQL_TIME"


@dataclass(frozen=True, repr=False)
class TimestampTypeInfo(SqlTimeTypeInfo):
    """A date with a time of day (`datetime.datetime`)."""

    def __repr__(self) -> str:
        return "TimestampTypeInfo"

    def _text(self) -> str:
        return "SQL_TIMESTAMP"


@dataclass(frozen=True, repr=False)
class LocalZonedTimestampTypeInfo(SqlTimeTypeInfo):
    """A point on the time line as a `datetime.datetime` with a time zone."""

    def __repr__(self) -> str:
        return "LocalZonedTimestampTypeInfo"

    def _text(self) -> str:
        return "SQL_TIMESTAMP_LTZ"


@dataclass(frozen=True, repr=False)
class PickledBytesTypeInfo(TypeInformation):
    """Any Python object, stored pickled; the type of a stream for which none was declared."""

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"

    def _text(self) -> str:
        return "PICKLED_BYTE_ARRAY"


_PRIMITIVES = frozenset(
    {
        BasicType.BOOLEAN,
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.FLOAT,
        BasicType.DOUBLE,
        BasicType.CHAR,
    }
)
_BOXED = _PRIMITIVES | {BasicType.STRING}


def _checked_element(candidate: object, allowed: frozenset[BasicType], where: str) -> None:
    element_type = _checked(candidate, where)
    if not isinstance(element_type, BasicTypeInfo) or element_type.basic_type not in allowed:
        names = ", ".join(basic.name for basic in BasicType if basic in allowed)
        raise ConfigurationError(
            f"{where} holds one of {names}, not {element_type!r}; use Types.OBJECT_ARRAY or Types.LIST"
        )


@dataclass(frozen=True, repr=False)
class PrimitiveArrayTypeInfo(TypeInformation):
    """An array of a primitive type whose elements are never None; of BYTE it is `bytes`."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        _checked_element(self.element_type, _PRIMITIVES, "Types.PRIMITIVE_ARRAY")

    def __repr__(self) -> str:
        return f"PrimitiveArrayTypeInfo<{self.element_type!r}>"

    def _text(self) -> str:
        return f"PRIMITIVE_ARRAY({self.element_type._text()})"


@dataclass(frozen=True, repr=False)
class BasicArrayTypeInfo(TypeInformation):
    """An array of a primitive type or of text, whose elements may be None."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        _checked_element(self.element_type, _BOXED, "Types.BASIC_ARRAY")

    def __repr__(self) -> str:
        return f"BasicArrayTypeInfo<{self.element_type!r}>"

    def _text(self) -> str:
        return f"BASIC_ARRAY({self.element_type._text()})"


@dataclass(frozen=True, repr=False)
class ObjectArrayTypeInfo(TypeInformation):
    """An array of any other type."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        _checked(self.element_type, "Types.OBJECT_ARRAY")

    def __repr__(self) -> str:
        return f"ObjectArrayTypeInfo<{self.element_type!r}>"

    def _text(self) -> str:
        return f"OBJECT_ARRAY({self.element_type._text()})"


@dataclass(frozen=True, repr=False)
class ListTypeInfo(TypeInformation):
    """A list whose elements share one type. The attribute is called `elem_type` in PyFlink too."""

    elem_type: TypeInformation

    def __post_init__(self) -> None:
        _checked(self.elem_type, "Types.LIST")

    def __repr__(self) -> str:
        return f"ListTypeInfo<{self.elem_type!r}>"

    def _text(self) -> str:
        return f"LIST({self.elem_type._text()})"


@dataclass(frozen=True, repr=False)
class MapTypeInfo(TypeInformation):
    """A dict whose keys share one type and whose values share another."""

    key_type: TypeInformation
    value_type: TypeInformation

    def __post_init__(self) -> None:
        _checked(self.key_type, "Types.MAP")
        _checked(self.value_type, "Types.MAP")

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key_type!r}, {self.value_type!r}>"

    def _text(self) -> str:
        return f"MAP({self.key_type._text()}, {self.value_type._text()})"


@dataclass(frozen=True, repr=False, init=False)
class TupleTypeInfo(TypeInformation):
    """A tuple of fixed length."""

    _field_types: tuple[TypeInformation, ...]

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        object.__setattr__(self, "_field_types", _checked_all(field_types, "Types.TUPLE"))

    def get_field_types(self) -> list[TypeInformation]:
        """Returns the types of the fields, in order."""
        return list(self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"

    def _text(self) -> str:
        return f"TUPLE({', '.join(field_type._text() for field_type in self._field_types)})"


@dataclass(frozen=True, repr=False, init=False)
class RowTypeInfo(TypeInformation):
    """A `Row`, with or without field names.

    As in Flink, two row types are equal when their field *types* are; compare `type_text` where
    names matter.
    """

    _field_types: tuple[TypeInformation, ...]
    _field_names: tuple[str, ...] | None = field(compare=False)

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        types = _checked_all(field_types, "Types.ROW")
        names = None if field_names is None else tuple(field_names)
        if names is not None and len(names) != len(types):
            raise ConfigurationError(
                f"a row type needs one name per field, got {len(types)} types and "
                f"{len(names)} names: {list(names)}"
            )
        if names is not None and len(set(names)) != len(names):
            raise ConfigurationError(f"the field names of a row type must differ: {list(names)}")
        object.__setattr__(self, "_field_types", types)
        object.__setattr__(self, "_field_names", names)

    def get_field_names(self) -> list[str]:
        """Returns the names of the fields, in order; `f0`, `f1`, … for a row without names."""
        if self._field_names is None:
            return [f"f{index}" for index in range(len(self._field_types))]
        return list(self._field_names)

    def get_field_index(self, field_name: str) -> int:
        """Returns the position of a field, or -1 where the row has no such field."""
        names = self.get_field_names()
        return names.index(field_name) if field_name in names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """Returns the types of the fields, in order."""
        return list(self._field_types)

    def __repr__(self) -> str:
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        named = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type!r}' for name, field_type in named)})"

    def _text(self) -> str:
        named = zip(self.get_field_names(), self._field_types, strict=True)
        return f"ROW({', '.join(f'{name_text(name)}: {typed._text()}' for name, typed in named)})"


def name_text(name: str) -> str:
    """Quote a name that could be taken for punctuation of the text form."""
    return name if name.isidentifier() else json.dumps(name)
