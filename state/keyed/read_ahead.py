"""Whether to read the state of a whole batch from LMDB before the batch is processed.

One call per batch costs half of one call per key, but it is wasted where the cache has most keys, or
where the function seldom looks at the state. So one batch of a round is processed without it, and what
had to be fetched key by key decides about the rest of the round.
"""

from __future__ import annotations

_ROUND = 32
# Reading ahead is worth it when it saves so many of the reads that it makes.
_SHARE = 8


class ReadAhead:
    """The decision for one table. Starts with a batch that is not read ahead.

    Attributes:
        single_reads: how many keys were fetched one by one since the last decision; counted by the table.
    """

    def __init__(self) -> None:
        self.single_reads = 0
        self._batch = 0
        self._key_count = 0
        self._is_on = False

    def is_due(self, key_count: int) -> bool:
        """Whether to read the next batch ahead; to be asked once for each.

        Args:
            key_count: records of the batch.
        """
        if self._batch % _ROUND == 1:
            self._is_on = self.single_reads * _SHARE > self._key_count
        is_trial = self._batch % _ROUND == 0
        self._batch += 1
        self._key_count = key_count
        self.single_reads = 0
        return self._is_on and not is_trial
