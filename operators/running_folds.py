"""What the running sum, minimum and maximum are: of Python values, and of columns of 64-bit numbers.

`sum`, `min` and `max` of a keyed stream and the aggregates `Sum`, `Min` and `Max` use these definitions:

* Values are folded one after the other, in the order of the records. Of equal values the first one remains.
* None is left out, and by minimum and maximum NaN too. Their fold is NaN, or else None, only of nothing else.
* Integer sums are exact. A column cannot contain one that does not fit into 64 bits: `OverflowError`.
* A float sum is NaN as soon as one value is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

INT64_MIN, INT64_MAX = -1 << 63, (1 << 63) - 1


@dataclass(frozen=True)
class RunningFold:
    """A fold of values, two at a time.

    Attributes:
        kind: its name; state names contain it.
        combine: the fold of two Python values, the earlier one first. Raises `TypeError` for values that have
            no sum or order.
        of_integers: the fold of two `int64` columns; a sum may wrap around.
        of_floats: the fold of two `float64` columns.
        no_integer: what changes no integer that it is folded with: the fold of no integers.
        no_float: what changes no float, to the bit (`-0.0 + x` is always `x`, but `0.0 + -0.0` is `0.0`).
    """

    kind: str
    combine: Callable[[Any, Any], Any]
    of_integers: np.ufunc
    of_floats: np.ufunc
    no_integer: int
    no_float: float

    def neutral(self, is_integer: bool) -> int | float:
        """What changes no value of a column of integers, or of floats."""
        return self.no_integer if is_integer else self.no_float


def _sum(so_far: Any, value: Any) -> Any:
    try:
        return so_far + value
    except TypeError:
        if value is None:
            return so_far
        if so_far is None:
            return value
        raise


def _least(so_far: Any, value: Any) -> Any:
    try:
        return value if value < so_far or so_far != so_far else so_far
    except (TypeError, ArithmeticError) as error:
        return _not_missing(so_far, value, error)


def _greatest(so_far: Any, value: Any) -> Any:
    try:
        return value if value > so_far or so_far != so_far else so_far
    except (TypeError, ArithmeticError) as error:
        return _not_missing(so_far, value, error)


def _not_missing(so_far: Any, value: Any, error: Exception) -> Any:
    """Of two values without an order the one that is not None or NaN; `Decimal("NaN") < 1` raises."""
    if value is None or (value != value and so_far is not None):
        return so_far
    if so_far is None or so_far != so_far:
        return value
    raise error


SUM = RunningFold("sum", _sum, np.add, np.add, 0, -0.0)
MIN = RunningFold("min", _least, np.minimum, np.fmin, INT64_MAX, math.nan)
MAX = RunningFold("max", _greatest, np.maximum, np.fmax, INT64_MIN, math.nan)
FOLDS = {fold.kind: fold for fold in (SUM, MIN, MAX)}
