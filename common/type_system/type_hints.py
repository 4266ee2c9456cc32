"""What the annotations of a user function say about its results."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ..errors import ConfigurationError
from ..typeinfo import PickledBytesTypeInfo, TypeInformation
from .type_inference import type_of

__all__ = ["element_type_of", "result_type_of"]

# Where the type of one result stands in the annotation of a function that returns or yields many.
_MANY = (
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
    collections.abc.Generator,
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Sequence,
    list,
)


def result_type_of(function: Callable[..., Any]) -> TypeInformation | None:
    """The type that a function says it returns.

    Args:
        function: a function, a bound method, a class, or an object that can be called.

    Returns:
        The type, or None where there is no annotation, or one that says nothing (`Any`, `object`, a name that
        cannot be resolved).
    """
    return _known(_returned(function))


def element_type_of(function: Callable[..., Any]) -> TypeInformation | None:
    """The type of each result of a function that says it returns or yields many (`Iterable[T]`).

    Args:
        function: as in `result_type_of`; it may also be a coroutine function.
    """
    annotation = _without_none(_returned(function))
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _MANY and args:
        return _known(args[0])
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _known(args[0])
    return None


def _returned(function: Callable[..., Any]) -> Any:
    """The annotation of the result; `Any` where there is none."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return function
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError, SyntaxError):
        # A name that exists for type checkers only, or a built-in function.
        return Any


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        present = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return present[0] if len(present) == 1 else Any
    return annotation


def _known(annotation: Any) -> TypeInformation | None:
    if annotation is Any or isinstance(annotation, typing.TypeVar) or annotation in (None, type(None)):
        return None
    try:
        found = type_of(annotation)
    except ConfigurationError:
        return None
    return None if isinstance(found, PickledBytesTypeInfo) else found
