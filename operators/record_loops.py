"""Calls of a user function, one for each record of a batch.

The interpreter calls one Python function from another without a C frame in between, so comprehensions are
quicker than `map` and `filter`, which also take a StopIteration of the user's for the end of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import getattr_static
from operator import length_hint
from types import FunctionType, MethodType
from typing import Any

_IN_PYTHON = (FunctionType, MethodType)


def mapped(call: Callable[[Any], Any], records: Iterable[Any]) -> list[Any]:
    """What a function gives for each record.

    Args:
        call: The function, or an object with a `__call__`.
        records: A list, or an iterator of one: when the function raises, it stands behind the record.
    """
    if not isinstance(call, _IN_PYTHON):
        call = _direct(call)
    if isinstance(call, _IN_PYTHON):
        return [call(record) for record in records]
    count = length_hint(records)
    results = list(map(call, records))
    if len(results) < count:
        raise RuntimeError("the function raised StopIteration")
    return results


def filtered(call: Callable[[Any], Any], records: Iterable[Any]) -> list[Any]:
    """The records for which a function is true."""
    return [record for record in records if call(record)]


def flattened(call: Callable[[Any], Iterable[Any] | None], records: Iterable[Any]) -> list[Any]:
    """All that a function gives for each record; `None` stands for nothing."""
    results: list[Any] = []
    for record in records:
        given = call(record)
        if given is not None:
            results.extend(given)
    return results


def flattened_with_times(
    call: Callable[[Any], Iterable[Any] | None], records: Iterable[Any], times: Sequence[int]
) -> tuple[list[Any], Sequence[int]]:
    """As `flattened`, and for each result the event time of its record."""
    results: list[Any] = []
    ends: list[int] = []
    for record in records:
        given = call(record)
        if given is not None:
            results.extend(given)
        ends.append(len(results))
    return results, times_of_results(times, ends)


def times_of_results(times: Sequence[int], ends: Sequence[int]) -> Sequence[int]:
    """The event time of each result.

    Args:
        times: Those of the records.
        ends: How many results there were behind each of the records.
    """
    # From 1 or more to the number of records, and never the same twice: one result of each record.
    if ends and ends[0] and len(ends) == ends[-1] == len(set(ends)):
        return times
    repeated: list[int] = []
    for time, end in zip(times, ends):
        repeated += [time] * (end - len(repeated))
    return repeated


def _direct(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What an object with a `__call__` in Python does, as a method: Python looks that up at each call."""
    method = getattr_static(type(call), "__call__", None)
    return MethodType(method, call) if isinstance(method, FunctionType) else call
