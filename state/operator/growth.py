"""When operator state moves to local disk: an estimate of its size from a few elements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..keyed.memory_budget import object_bytes

_SAMPLE = 4
_DEPTH = 4
# Changes from one look at the size to the next.
LOOK_EVERY = 64


@dataclass(frozen=True)
class MemoryLimit:
    """How much of one operator state may be plain objects in memory.

    Encoding that much takes about a millisecond, which is the most that a barrier waits for it.

    Attributes:
        entries: Items of a list, or entries of a map.
        size_bytes: Their size, by estimate.
    """

    entries: int = 1_024
    size_bytes: int = 1 << 20

    def is_exceeded(self, count: int, newest: Iterable[Any]) -> bool:
        """Whether a collection is larger than this.

        Args:
            count: Its size.
            newest: Elements of it, the last ones first; some are looked at.
        """
        if count > self.entries:
            return True
        # Sources and sinks replace a few elements at every barrier, so a look at those must cost little.
        depth = _DEPTH if count >= LOOK_EVERY else 1
        sizes = [object_bytes(each, depth) for each in islice(newest, _SAMPLE)]
        return bool(sizes) and count * sum(sizes) // len(sizes) > self.size_bytes
