"""From Python types and annotations to declared types."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ..errors import ConfigurationError
from ..time import Instant
from .class_types import ClassField, ClassKind, ClassTypeInfo, CustomTypeInfo, EnumTypeInfo, class_name_of
from .declared_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from .type_codecs import registered_codec

__all__ = ["dataclass_type", "pydantic_type", "type_of"]

_PLAIN: dict[object, TypeInformation] = {
    str: BasicTypeInfo(BasicType.STRING),
    int: BasicTypeInfo(BasicType.LONG),
    float: BasicTypeInfo(BasicType.DOUBLE),
    bool: BasicTypeInfo(BasicType.BOOLEAN),
    bytes: PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE)),
    Decimal: BasicTypeInfo(BasicType.BIG_DEC),
    date: DateTypeInfo(),
    time: TimeTypeInfo(),
    datetime: TimestampTypeInfo(),
    Instant: InstantTypeInfo(),
}
_UNKNOWN = PickledBytesTypeInfo()


def type_of(annotation: Any) -> TypeInformation:
    """The declared type of a Python type or annotation; see `Types.of`."""
    return _type_of(annotation, ())


def dataclass_type(python_class: type[Any]) -> ClassTypeInfo:
    """The type of a dataclass.

    Raises:
        ConfigurationError: the argument is no dataclass, or one of its annotations cannot be resolved.
    """
    if not (isinstance(python_class, type) and dataclasses.is_dataclass(python_class)):
        raise ConfigurationError(f"Types.DATACLASS needs a class made by @dataclass, got {python_class!r}")
    return _dataclass_type(python_class, ())


def pydantic_type(python_class: type[Any]) -> ClassTypeInfo:
    """The type of a pydantic model.

    Raises:
        ConfigurationError: the argument is no model of pydantic 2.
    """
    if not _is_pydantic(python_class):
        raise ConfigurationError(
            f"Types.PYDANTIC needs a class derived from pydantic.BaseModel (pydantic 2), got {python_class!r}"
        )
    return _pydantic_type(python_class, ())


def _type_of(annotation: Any, inside: tuple[type[Any], ...]) -> TypeInformation:
    """`inside` are the classes being resolved: a class that contains itself is pickled there."""
    if isinstance(annotation, TypeInformation):
        return annotation
    plain = _PLAIN.get(annotation) if annotation.__hash__ is not None else None
    if plain is not None:
        return plain
    if isinstance(annotation, typing.NewType):
        return _type_of(annotation.__supertype__, inside)
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _generic_type(origin, typing.get_args(annotation), inside)
    if isinstance(annotation, type) and annotation not in inside:
        return _class_type(annotation, inside)
    return _UNKNOWN


def _generic_type(origin: Any, args: tuple[Any, ...], inside: tuple[type[Any], ...]) -> TypeInformation:
    if origin is typing.Annotated:
        return _type_of(args[0], inside)
    if origin in (typing.Union, types.UnionType):
        present = [arg for arg in args if arg is not type(None)]
        return _type_of(present[0], inside) if len(present) == 1 else _UNKNOWN
    if origin is typing.Literal:
        kinds = {type(arg) for arg in args if arg is not None}
        return _type_of(kinds.pop(), inside) if len(kinds) == 1 else _UNKNOWN
    if origin is list:
        return ListTypeInfo(_type_of(args[0], inside))
    if origin is dict:
        return MapTypeInfo(_type_of(args[0], inside), _type_of(args[1], inside))
    if origin is tuple and Ellipsis not in args:
        return TupleTypeInfo([_type_of(arg, inside) for arg in args])
    return _UNKNOWN


def _class_type(python_class: type[Any], inside: tuple[type[Any], ...]) -> TypeInformation:
    codec = registered_codec(python_class)
    if codec is not None:
        return CustomTypeInfo(codec.name, codec)
    if dataclasses.is_dataclass(python_class):
        return _dataclass_type(python_class, inside)
    if _is_pydantic(python_class):
        return _pydantic_type(python_class, inside)
    # The members of a flag combine into values without a name.
    if issubclass(python_class, enum.Enum) and not issubclass(python_class, enum.Flag):
        return EnumTypeInfo(
            class_name_of(python_class), [member.name for member in python_class], python_class
        )
    return _UNKNOWN


def _dataclass_type(python_class: type[Any], inside: tuple[type[Any], ...]) -> ClassTypeInfo:
    try:
        # A class defined in a function cannot find itself by its name.
        local = {python_class.__name__: python_class}
        hints = typing.get_type_hints(python_class, localns=local, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigurationError(
            f"an annotation of the dataclass {class_name_of(python_class)} cannot be resolved: {error}; "
            f"import the name at module level, outside `if TYPE_CHECKING`"
        ) from error
    fields = []
    for field in dataclasses.fields(python_class):
        hint = hints[field.name]
        has_default = not (is_missing(field.default) and is_missing(field.default_factory))
        type_info = _type_of(hint, (*inside, python_class))
        fields.append(ClassField(field.name, type_info, has_default or _may_be_none(hint)))
    return ClassTypeInfo(ClassKind.DATACLASS, class_name_of(python_class), tuple(fields), python_class)


def is_missing(default: object) -> bool:
    """Whether this stands for no default of a dataclass's field.

    A class that travels by value, such as one of the main program, has a copy of `dataclasses.MISSING`, so
    the type tells, not the identity.
    """
    return isinstance(default, type(dataclasses.MISSING))


def _pydantic_type(python_class: type[Any], inside: tuple[type[Any], ...]) -> ClassTypeInfo:
    if not python_class.__pydantic_complete__:
        python_class.model_rebuild()
    fields = []
    for name, field in python_class.model_fields.items():
        type_info = _type_of(field.annotation, (*inside, python_class))
        is_optional = not field.is_required() or _may_be_none(field.annotation)
        fields.append(ClassField(name, type_info, is_optional))
    return ClassTypeInfo(ClassKind.PYDANTIC, class_name_of(python_class), tuple(fields), python_class)


def _is_pydantic(candidate: Any) -> bool:
    """Whether this is a model of pydantic 2, told without importing pydantic."""
    return (
        isinstance(candidate, type)
        and inspect.getattr_static(candidate, "__pydantic_complete__", None) is not None
        and hasattr(candidate, "model_fields")
        and any(base.__module__.partition(".")[0] == "pydantic" for base in candidate.__mro__)
        and not dataclasses.is_dataclass(candidate)
    )


def _may_be_none(annotation: Any) -> bool:
    if typing.get_origin(annotation) is typing.Annotated:
        return _may_be_none(typing.get_args(annotation)[0])
    return annotation is None or type(None) in typing.get_args(annotation)
