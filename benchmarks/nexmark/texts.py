"""Random text as Arrow columns, made without a loop over the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]

_POOL_BYTES = 1 << 16
_SPECIAL_SHARE = 13
_MIN_LENGTH = 3


class Texts:
    """Texts cut from pools of random letters.

    Args:
        rng: What decides about everything.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        letters = rng.integers(ord("a"), ord("z") + 1, _POOL_BYTES).astype(np.uint8)
        special = rng.integers(0, _SPECIAL_SHARE, _POOL_BYTES) == 0
        self._letters = letters
        self._pools = {mark: np.where(special, ord(mark), letters).astype(np.uint8) for mark in " _"}

    def words(self, count: int, limit: int, special: str = " ") -> pa.Array:
        """Texts of 3 to `limit` - 1 letters, one in 13 of them `special`, without spaces at the ends."""
        lengths = self._rng.integers(_MIN_LENGTH, limit, count)
        return pc.utf8_trim_whitespace(self._cut(self._pools[special], lengths))

    def extra(self, sizes: Int64s, average: int) -> pa.Array:
        """Letters that bring records of so many bytes to an average size.

        Args:
            sizes: Bytes of each record without them.
            average: Bytes that records should have; lengths vary by a fifth of what is missing.
        """
        missing = np.maximum(average - sizes, 0)
        spread = np.rint(missing * 0.2).astype(np.int64)
        lengths = missing - spread + self._rng.integers(0, np.maximum(2 * spread, 1))
        return self._cut(self._letters, lengths)

    def _cut(self, pool: npt.NDArray[np.uint8], lengths: Int64s) -> pa.Array:
        starts = self._rng.integers(0, len(pool) - lengths)
        ends = np.cumsum(lengths)
        offsets = np.concatenate(([0], ends)).astype(np.int32)
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(ends[-1] if len(ends) else 0)
        data = pa.py_buffer(pool[places].tobytes())
        return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets.tobytes()), data)


def bytes_of(*columns: Any) -> Int64s:
    """The bytes that the texts of each row have together."""
    lengths = [pc.binary_length(column).to_numpy(zero_copy_only=False) for column in columns]
    return np.sum(lengths, axis=0).astype(np.int64)
