"""Quantile sketches: counts of values per bucket, whose bounds grow by a constant factor.

A bucket's number grows with its values, so buckets in order are values in order: 0 holds zero, the positive
values have positive numbers, the negative ones their mirror image.

Source: Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees", VLDB 2019.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Sketch = dict[int, int]
Array = npt.NDArray[Any]

# More than the logarithm of any double to the smallest base; infinity lies beyond.
_MIDDLE = 1 << 21
_INFINITE = 1 << 22
_CHUNK = 1_024


def buckets(values: Array, accuracy: float) -> Array:
    """The bucket of each value, none of which is NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.ceil(np.log(np.abs(values)) / math.log(_base(accuracy)))
    numbers = np.clip(logs, -_MIDDLE + 1, _MIDDLE - 1).astype(np.int64) + _MIDDLE
    numbers[np.isinf(values)] = _INFINITE
    numbers[values == 0] = 0
    return np.where(values < 0, -numbers, numbers)


def estimates(numbers: Array, accuracy: float) -> Array:
    """The value that stands for each bucket."""
    base = _base(accuracy)
    with np.errstate(over="ignore"):
        sizes = 2 * np.power(base, np.abs(numbers).astype(np.float64) - _MIDDLE) / (base + 1)
    sizes[numbers == 0] = 0.0
    sizes[np.abs(numbers) == _INFINITE] = np.inf
    return np.where(numbers < 0, -sizes, sizes)


def add(sketch: Sketch, numbers: Array) -> None:
    """Count some buckets in a sketch."""
    found, counts = np.unique(numbers, return_counts=True)
    for number, count in zip(found.tolist(), counts.tolist()):
        sketch[number] = sketch.get(number, 0) + count


def merge(into: Sketch, other: Sketch) -> None:
    """Add the counts of another sketch."""
    for number, count in other.items():
        into[number] = into.get(number, 0) + count


def quantile(sketch: Sketch, q: float, accuracy: float) -> float:
    """The value of rank `ceil(q * n)`; NaN of an empty sketch."""
    if not sketch:
        return math.nan
    numbers = np.array(sorted(sketch))
    totals = np.cumsum([sketch[number] for number in numbers.tolist()])
    at = np.searchsorted(totals, _rank(q, totals[-1:]))
    return float(estimates(numbers[at], accuracy)[0])


def running_quantile(sketch: Sketch, numbers: Array, q: float, accuracy: float) -> Array:
    """The quantile after each of some further buckets, which are not added; NaN as long as it is empty.

    Args:
        numbers: the bucket of each value; `MISSING` where there is none.
    """
    every = np.array(sorted({*sketch, *numbers[numbers != MISSING].tolist()}), dtype=np.int64)
    if not len(every):
        return np.full(len(numbers), math.nan)
    totals = np.cumsum([sketch.get(number, 0) for number in every.tolist()])
    values = estimates(every, accuracy)
    result = np.empty(len(numbers))
    for start in range(0, len(numbers), _CHUNK):
        part = numbers[start : start + _CHUNK]
        # Row by row, how many values lie in each bucket or below.
        below = np.cumsum((part[:, None] <= every) & (part[:, None] != MISSING), axis=0) + totals
        wanted = _rank(q, below[:, -1])
        at = np.minimum((below < wanted[:, None]).sum(axis=1), len(every) - 1)
        result[start : start + _CHUNK] = np.where(below[:, -1] > 0, values[at], math.nan)
        totals = below[-1]
    return result


MISSING = np.iinfo(np.int64).min
"""Stands for the bucket of no value."""


def _base(accuracy: float) -> float:
    return (1 + accuracy) / (1 - accuracy)


def _rank(q: float, count: Array) -> Array:
    ranks: Array = np.maximum(1, np.ceil(q * count)).astype(np.int64)
    return ranks
