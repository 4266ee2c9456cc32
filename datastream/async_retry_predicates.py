"""Ready-made predicates of retry strategies, by PyFlink's import path."""

from __future__ import annotations

from ..operators.async_io.async_function import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
