"""Reads the texts that `type_text` writes: a snapshot tells its types without the program.

Grammar, blanks aside (a name is an identifier with dots, or a JSON string):

    type   = NAME | NAME "(" … ")"
    ROW    ( name ":" type , … )          TUPLE ( type , … )       MAP ( type , type )
    LIST, PRIMITIVE_ARRAY, BASIC_ARRAY, OBJECT_ARRAY ( type )      CUSTOM ( name )
    DATACLASS, PYDANTIC ( name ; name ["?"] ":" type , … )         ENUM ( name ; name , … )
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from ..errors import ConfigurationError
from ..typeinfo import RowTypeInfo, TypeInformation, Types
from .class_types import ClassField, ClassKind, ClassTypeInfo, CustomTypeInfo, EnumTypeInfo

__all__ = ["type_from_text"]

T = TypeVar("T")
_PUNCTUATION = frozenset("(),:;?\"' \t\n")


def type_from_text(text: str) -> TypeInformation:
    """The type whose `type_text` is `text`.

    Classes and codecs are named by the text and never imported: `ClassTypeInfo.python_class`,
    `EnumTypeInfo.python_class` and `CustomTypeInfo.codec` are None.

    Args:
        text: for example `ROW(tail: STRING, delays: LIST(DOUBLE))`.

    Returns:
        A type information with `type_text(result) == text`.

    Raises:
        ConfigurationError: the text is not one that `type_text` writes.
    """
    parser = _Parser(text)
    result = parser.type_info()
    parser.end()
    return result


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type_info(self) -> TypeInformation:
        start = self._at
        name = self._name()
        scalar = _SCALARS.get(name)
        if scalar is not None:
            return scalar()
        build = _COMPOSITES.get(name)
        if build is None:
            self._at = start
            raise self._error(f"unknown type {name!r}")
        self._expect("(")
        result = build(self)
        self._expect(")")
        return result

    def end(self) -> None:
        if self._next():
            raise self._error("nothing more was expected")

    def types(self) -> list[TypeInformation]:
        return self._list(self.type_info)

    def row(self) -> RowTypeInfo:
        fields = self._list(self._field)
        names = [field.name for field in fields]
        is_unnamed = names == [f"f{index}" for index in range(len(names))]
        return RowTypeInfo([field.type_info for field in fields], None if is_unnamed else names)

    def map_type(self) -> TypeInformation:
        key = self.type_info()
        self._expect(",")
        return Types.MAP(key, self.type_info())

    def class_type(self, kind: ClassKind) -> ClassTypeInfo:
        name = self._name()
        self._expect(";")
        return ClassTypeInfo(kind, name, tuple(self._list(self._field)))

    def enum_type(self) -> EnumTypeInfo:
        name = self._name()
        self._expect(";")
        return EnumTypeInfo(name, self._list(self._name))

    def custom_type(self) -> CustomTypeInfo:
        return CustomTypeInfo(self._name())

    def _field(self) -> ClassField:
        name = self._name()
        is_optional = self._next() == "?"
        if is_optional:
            self._expect("?")
        self._expect(":")
        return ClassField(name, self.type_info(), is_optional)

    def _list(self, item: Callable[[], T]) -> list[T]:
        if self._next() == ")":
            return []
        items = [item()]
        while self._next() == ",":
            self._expect(",")
            items.append(item())
        return items

    def _name(self) -> str:
        if self._next() == '"':
            try:
                name, length = json.JSONDecoder().raw_decode(self._text[self._at :])
            except ValueError as error:
                raise self._error("the quoted name does not end") from error
            self._at += length
            return str(name)
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _PUNCTUATION:
            self._at += 1
        if start == self._at:
            raise self._error("a name was expected")
        return self._text[start : self._at]

    def _next(self) -> str:
        """The next character that is no blank; empty at the end."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise self._error(f"{character!r} was expected")
        self._at += 1

    def _error(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"the type text {self._text!r} cannot be read at position {self._at}: {what}; was it written by "
            f"a newer release?"
        )


_SCALARS: dict[str, Callable[[], TypeInformation]] = {
    name: getattr(Types, name)
    for name in (
        *("STRING", "BYTE", "BOOLEAN", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "BIG_INT"),
        *("BIG_DEC", "INSTANT", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "SQL_TIMESTAMP_LTZ"),
        "PICKLED_BYTE_ARRAY",
    )
}
_COMPOSITES: dict[str, Callable[[_Parser], TypeInformation]] = {
    "ROW": _Parser.row,
    "TUPLE": lambda parser: Types.TUPLE(parser.types()),
    "LIST": lambda parser: Types.LIST(parser.type_info()),
    "PRIMITIVE_ARRAY": lambda parser: Types.PRIMITIVE_ARRAY(parser.type_info()),
    "BASIC_ARRAY": lambda parser: Types.BASIC_ARRAY(parser.type_info()),
    "OBJECT_ARRAY": lambda parser: Types.OBJECT_ARRAY(parser.type_info()),
    "MAP": _Parser.map_type,
    "DATACLASS": lambda parser: parser.class_type(ClassKind.DATACLASS),
    "PYDANTIC": lambda parser: parser.class_type(ClassKind.PYDANTIC),
    "ENUM": _Parser.enum_type,
    "CUSTOM": _Parser.custom_type,
}
