"""How many records of an epoch each subtask of a stage may have, so that the epoch does not exceed its bound.

Every subtask begins with an equal part of the bound. If one of them gets most of the records, its share is
full while the others are nearly empty, and epochs are as small as one part. So after an epoch that ended too
early the limits follow its records. What one subtask gives up is free for others when it has reported that
its next share has the lower limit. By then the leader has sent the end of the epoch before. So no epoch
exceeds the bound.

Source of the idea: credit-based flow control, which bounds several senders together.
"""

from __future__ import annotations

from collections.abc import Sequence

_FULL = 0.7
"""An epoch with this part of the bound did not end too early."""

_SPARE = 4
"""Each subtask keeps an equal part divided by this number, in case its input grows."""


def first_limit(subtasks: int, max_records: int) -> int:
    """How many records a subtask's share has at most before it gets a limit."""
    return -(-max_records // subtasks)


class ShareLimits:
    """The limits of all subtasks.

    Args:
        subtasks: How many there are.
        max_records: The bound of an epoch.
    """

    def __init__(self, subtasks: int, max_records: int) -> None:
        self._max_records = max_records
        first = first_limit(subtasks, max_records)
        self._used = [first] * subtasks
        self._sent = [first] * subtasks
        self._wanted = [first] * subtasks

    def share_ended(self, subtask: int, next_limit: int) -> None:
        """A subtask reports the limit of its next share."""
        self._used[subtask] = next_limit

    def epoch_ended(self, records: Sequence[int]) -> dict[int, int]:
        """All subtasks have ended an epoch with these records; the limits to send, by subtask."""
        total = sum(records)
        was_full = any(count >= limit for count, limit in zip(records, self._used, strict=True))
        if was_full and total < _FULL * self._max_records:
            spare = max(1, self._max_records // (len(records) * _SPARE))
            rest = max(0, self._max_records - spare * len(records))
            self._wanted = [spare + rest * count // total for count in records]
        changed: dict[int, int] = {}
        # Each of them has taken the limit that it was sent last, so that a report leaves no doubt.
        for index in [each for each, used in enumerate(self._used) if used == self._sent[each]]:
            limit = min(self._wanted[index], self._used[index] + self._free())
            if limit != self._sent[index]:
                self._sent[index] = changed[index] = limit
        return changed

    def _free(self) -> int:
        return max(0, self._max_records - sum(map(max, self._used, self._sent)))
