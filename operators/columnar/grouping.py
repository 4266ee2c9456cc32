"""The records of a batch grouped by key, and running folds over each group: NumPy, no loop over records.

Every fold takes the records of a key in their order, one after the other, so floating-point results are
those of a loop in Python, to the bit. Where addition is exact (integers) one running sum over the whole
batch serves all groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..running_folds import INT64_MAX, INT64_MIN, SUM, RunningFold

Array = npt.NDArray[Any]

MAX_ROWS = 1 << 16
"""Records of a grouping: their codes fit into 16 bits, which are sorted by radix, ten times faster."""
_ROUNDS = 64


class Grouping:
    """Groups of the records of one batch. "Sorted" means by group, and within one in the batch's order.

    Args:
        codes: the group of each record, from 0 to `MAX_ROWS` exclusive; at least one record.
        rows: the place in the batch of what each code is for; None: of each record, in the batch's order.

    Attributes:
        codes: the code of each group that has a record, in order; "per group" is in this order.
        order: the place in `codes`, as given, of what is at each sorted place.
        rows: the place in the batch of what is at each sorted place.
    """

    def __init__(self, codes: Array, rows: Array | None = None) -> None:
        self.size = len(codes)
        codes = codes.astype(np.uint16, copy=False)
        self.order: Array = np.argsort(codes, kind="stable")
        self.rows: Array = self.order if rows is None else rows[self.order]
        ordered = codes[self.order]
        self.starts: Array = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
        self.codes: Array = ordered[self.starts]
        self.counts: Array = np.diff(self.starts, append=self.size)
        self.ends: Array = self.starts + self.counts - 1

    def repeated(self, per_group: Array) -> Array:
        """Sorted: what each record's group has."""
        return np.repeat(per_group, self.counts)

    def in_order(self, by_group: Array) -> Array:
        """Something sorted, in the order of the batch."""
        result = np.empty_like(by_group)
        result[self.order] = by_group
        return result

    def running_count(self, before: Array, counted: Array | None) -> Array:
        """Sorted: how many records were counted up to each one.

        Args:
            before: per group, the count so far.
            counted: sorted, whether a record counts; None: each does.
        """
        if counted is None:
            return np.arange(1, self.size + 1) + self.repeated(before - self.starts)
        total = np.cumsum(counted)
        return total + self.repeated(before - (total[self.starts] - counted[self.starts]))

    def running(self, fold: RunningFold, before: Array, values: Array) -> Array:
        """Sorted: the sum, minimum or maximum up to each record.

        Args:
            before: per group, the fold so far; `fold.neutral()` where there is none.
            values: sorted; `int64` or `float64`.

        Raises:
            OverflowError: An integer sum does not fit into 64 bits.
        """
        is_integer = values.dtype == np.int64
        if fold is SUM and is_integer:
            return self._running_integer_sum(before, values)
        return self._running_fold(fold.of_integers if is_integer else fold.of_floats, before, values)

    def _running_integer_sum(self, before: Array, values: Array) -> Array:
        self._check_bound(before, values)
        # Sums over several groups may wrap around; their differences do not.
        with np.errstate(over="ignore"):
            total = np.cumsum(values)
            total += self.repeated(before - (total[self.starts] - values[self.starts]))
        return total

    def totals(self, before: Array, values: Array) -> Array:
        """Per group: the sum after its last record.

        Args:
            before: per group, the sum so far.
            values: sorted, `int64`.

        Raises:
            OverflowError: A sum up to one of the records does not fit into 64 bits.
        """
        self._check_bound(before, values)
        # Integers of a group add up to the same in any order.
        with np.errstate(over="ignore"):
            found: Array = np.add.reduceat(values, self.starts) + before
        return found

    def _running_fold(self, fold: np.ufunc, before: Array, values: Array) -> Array:
        """Sorted: the fold up to each record, taken strictly one record after the other.

        The first records of all groups are folded in one step, then the second ones, and so on; the rest
        of the few groups with many records is accumulated group by group.

        Args:
            before: per group, the fold so far.
            values: sorted, of the same type.
        """
        result = np.empty_like(values)
        largest_first = np.argsort(-self.counts, kind="stable")
        starts, counts = self.starts[largest_first], self.counts[largest_first]
        so_far = before[largest_first]
        rounds = min(_ROUNDS, int(counts[0]))
        # How many groups have more than so many records.
        active = len(counts) - np.searchsorted(counts[::-1], np.arange(rounds + 1), side="right")
        with np.errstate(all="ignore"):
            for number, groups in enumerate(active[:rounds].tolist()):
                rows = starts[:groups] + number
                so_far = fold(so_far[:groups], values[rows])
                result[rows] = so_far
            for group in range(int(active[rounds])):
                row, end = int(starts[group]) + rounds, int(starts[group] + counts[group])
                # The record before is folded already: the rest goes on from it.
                rest = np.concatenate([so_far[group : group + 1], values[row:end]])
                result[row - 1 : end] = fold.accumulate(rest)
        return result

    def _check_bound(self, before: Array, values: Array) -> None:
        if _largest(before) + _largest(values) * self.size > INT64_MAX:
            self._check_sums(before, values)

    def _check_sums(self, before: Array, values: Array) -> None:
        exact = np.cumsum(values.astype(object))
        exact += self.repeated(before.astype(object) - (exact[self.starts] - values[self.starts]))
        if int(np.max(exact)) > INT64_MAX or int(np.min(exact)) < INT64_MIN:
            raise OverflowError("the sum does not fit into a 64-bit integer")


def _largest(values: Array) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))
