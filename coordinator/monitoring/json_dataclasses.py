"""Dataclasses as plain data for JSON, and back by their types: no pickle, and no code of its own per class.

Back again, fields that are missing take their defaults and unknown ones are left out, so that documents of
other releases can be read.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any, digits: int | None = 3) -> Any:
    """A value as dictionaries, lists, texts and numbers; a mapping whose keys are no texts as pairs.

    Fields that have their defaults are left out.

    Args:
        value: What to convert.
        digits: How many digits after the point numbers keep, `None` for all.
    """
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (
            (field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value)
        )
        return {name: to_plain(one, digits) for name, one, default in fields if one != default}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_plain(one, digits) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_plain(one, digits) for key, one in value.items()}
        return [[to_plain(key, digits), to_plain(one, digits)] for key, one in value.items()]
    if isinstance(value, (list, tuple, deque, set, frozenset)):
        return [to_plain(one, digits) for one in value]
    if isinstance(value, float) and digits is not None:
        return round(value, digits)
    return value


def from_plain(kind: type[T], data: Any) -> T:
    """A value of a type from what `to_plain` made of it.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: The data are not of this type.
    """
    value: T = _read(kind, data)
    return value


def _read(kind: Any, data: Any) -> Any:
    if isinstance(kind, typing.NewType):
        return _read(kind.__supertype__, data)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(arguments, data)
    if origin is not None:
        return _read_container(origin, arguments, data)
    if kind is Any or kind is None:
        return data
    if issubclass(kind, enum.Enum):
        return kind[data]
    hints = _hints(kind)
    if hints is not None:
        return kind(**{name: _read(hint, data[name]) for name, hint in hints.items() if name in data})
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise TypeError(f"{data!r:.80} is not a {kind.__name__}")
    return data


def _read_union(kinds: Sequence[Any], data: Any) -> Any:
    if data is None:
        return None
    problem: Exception | None = None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read(kind, data)
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                problem = error
    raise TypeError(f"{data!r:.80} is none of {kinds}") from problem


def _read_container(origin: Any, arguments: Sequence[Any], data: Any) -> Any:
    if origin is Counter:
        arguments = (arguments[0], int)
    if issubclass(origin, Mapping):
        pairs = data.items() if isinstance(data, dict) else data
        read = {_read(arguments[0], key): _read(arguments[1], one) for key, one in pairs}
        return Counter(read) if origin is Counter else read
    if not isinstance(data, list):
        raise TypeError(f"{data!r:.80} is not a list")
    values = [_read(arguments[0], one) for one in data]
    # Made anew it would be as long as its longest: what is read is not added to.
    return origin(values) if origin in (tuple, deque, list, set, frozenset) else values


@lru_cache
def _hints(kind: Any) -> dict[str, Any] | None:
    """The types of the fields of a dataclass or a named tuple, `None` of any other class."""
    if hasattr(kind, "_fields"):
        return typing.get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        return None
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
