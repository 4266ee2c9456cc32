"""Checks of what users pass in, made where they wrote the call and not in a task."""

from __future__ import annotations

from typing import Any

from ..common.errors import ConfigurationError
from ..operators.functions import as_callable


def checked(function: Any, method: str) -> Any:
    """`function`, if it is callable or has the method.

    Raises:
        ConfigurationError: It is neither.
    """
    try:
        as_callable(function, method)
    except TypeError as error:
        raise ConfigurationError(str(error)) from error
    return function
