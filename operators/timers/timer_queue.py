"""The timers of one operator in one time domain: in the order of their times, and as state of their keys."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import index, length_hint
from typing import Any

import numpy as np

from ...common.errors import StateError
from ...protocol.elements import MAX_WATERMARK_MS
from ...protocol.watermarks import MIN_WATERMARK_MS
from ...state.backend import KeyedStateBackend
from .timer_run import NOBODY, Nobody, TimerRun

Due = Iterator[tuple[Any, int]]
"""Timers that are due, in order: their owners and times."""

_LOWEST = MIN_WATERMARK_MS
_BEFORE_ALL = _LOWEST - 1
_STALE_AT_LEAST = 1_024
_SORTED_SHARE = 32
_LARGEST_BATCH = 4_096


class _Owners(dict[Any, None]):
    """Who has a timer at one time, where there are several."""


class TimerQueue:
    """Who has a timer when. The owner of a timer is its key, or the pair of its key and namespace.

    All timers are in memory: those to come in a dict by time, with a heap of the times; those that are due
    in sorted runs, of which one ends before the next begins. The state is there for snapshots. Timers of one
    time fire in the order in which they were registered.

    They are taken in batches, so that what has to be done for each is little. While the timers of a batch
    fire, one may be registered that comes before some of them, or one of them may be deleted: then the batch
    ends early, and the next ones are smaller.

    Args:
        name: Of the state.
        where: Operator and subtask, for errors.
        namespaced: Whether timers have namespaces.
    """

    def __init__(self, name: str, where: str, keyed: KeyedStateBackend, namespaced: bool) -> None:
        self._keyed = keyed
        self._namespaced = namespaced
        self._table = keyed.get_timers(name)
        self._where = f"{where}: timer in {name.rpartition('_')[2]} time"
        # A heap of every time that has timers, and perhaps of some whose timers were deleted.
        self._times: list[int] = []
        self._by_time: dict[int, Any] = {}
        # The earliest is the last; nothing in them is after `_sorted_until_ms`.
        self._runs: list[TimerRun] = []
        self._sorted_until_ms = _BEFORE_ALL
        # The batch that fires now is from the last run; its last time, if it has not ended.
        self._batch: list[tuple[Any, int]] = []
        self._positions: Sequence[int] = ()
        self._firing: Due = iter(())
        self._last_ms = _BEFORE_ALL
        self._batch_size = _LARGEST_BATCH
        self.count = 0
        """How many timers are registered; those of a batch count until it has fired."""
        for key, entry in self._table.take_restored():
            if namespaced:
                self._put(entry[0], (key, entry[1]))
            else:
                self._put(entry, key)
            self.count += 1

    @property
    def first_ms(self) -> int | None:
        """The earliest time of a timer, `None` if there is none."""
        times, by_time, runs = self._times, self._by_time, self._runs
        while times and times[0] not in by_time:
            heapq.heappop(times)
        while runs and runs[-1].first_ms is None:
            runs.pop()
        if not runs:
            self._sorted_until_ms = _BEFORE_ALL
            return times[0] if times else None
        first_ms = runs[-1].first_ms
        return min(times[0], first_ms) if times and first_ms is not None else first_ms

    def add(self, namespace: Any, timestamp_ms: int) -> None:
        """Have a timer of the current key."""
        key = self._keyed.current_key
        if key is None or type(timestamp_ms) is not int or not _LOWEST <= timestamp_ms <= MAX_WATERMARK_MS:
            timestamp_ms = self._checked(key, timestamp_ms)
        owner = (key, namespace) if self._namespaced else key
        if timestamp_ms <= self._sorted_until_ms:
            if self._find(owner, timestamp_ms) is not None:
                return
            if timestamp_ms < self._last_ms:
                self._end_batch()
        if self._put(timestamp_ms, owner):
            self.count += 1
            self._table.add(key, (timestamp_ms, namespace) if self._namespaced else timestamp_ms)

    def add_all(self, keys: Sequence[Any], namespace: Any, timestamp_ms: int) -> None:
        """Have timers of some different keys, in order, all at one time; the current key is lost."""
        # Two of them make it a time that several share, if it is not one yet.
        for self._keyed.current_key in keys[:2]:
            self.add(namespace, timestamp_ms)
        keys = keys[2:]
        found = self._by_time.get(timestamp_ms, NOBODY)
        if not self._namespaced or type(found) is not _Owners or timestamp_ms <= self._sorted_until_ms:
            for self._keyed.current_key in keys:
                self.add(namespace, timestamp_ms)
            return
        new = [owner for owner in zip(keys, repeat(namespace)) if owner not in found]
        found.update(zip(new, repeat(None)))
        self.count += len(new)
        entry = (timestamp_ms, namespace)
        for key, _ in new:
            self._table.add(key, entry)

    def remove(self, namespace: Any, timestamp_ms: int) -> None:
        """Forget a timer of the current key, if there is one."""
        key = self._keyed.current_key
        if key is None or type(timestamp_ms) is not int:
            timestamp_ms = self._checked(key, timestamp_ms)
        owner = (key, namespace) if self._namespaced else key
        if self._forget(owner, timestamp_ms):
            self.count -= 1
            self._table.discard(key, (timestamp_ms, namespace) if self._namespaced else timestamp_ms)

    def _forget(self, owner: Any, timestamp_ms: int) -> bool:
        """Whether there was such a timer."""
        found = self._by_time.get(timestamp_ms, NOBODY)
        if type(found) is _Owners and owner in found:
            del found[owner]
            if not found:
                del self._by_time[timestamp_ms]
            return True
        if found is not NOBODY and found == owner:
            del self._by_time[timestamp_ms]
            return True
        sorted_one = self._find(owner, timestamp_ms) if timestamp_ms <= self._sorted_until_ms else None
        if sorted_one is None:
            return False
        run, position = sorted_one
        if run is self._runs[-1] and self._last_ms > _BEFORE_ALL and position <= self._positions[-1]:
            self._end_batch()
        run.remove(position)
        return True

    def _find(self, owner: Any, timestamp_ms: int) -> tuple[TimerRun, int] | None:
        """The run and the position of a timer that is due, and has yet to fire."""
        for run in self._runs:
            position = run.find(owner, timestamp_ms)
            if position is not None and position >= self._next_position(run):
                return run, position
        return None

    def _next_position(self, run: TimerRun) -> int:
        if run is not self._runs[-1] or self._last_ms == _BEFORE_ALL:
            return run.at
        fired = len(self._batch) - length_hint(self._firing)
        return self._positions[fired] if fired < len(self._batch) else self._positions[-1] + 1

    # ------------------------------------------------------------ firing

    def take(self, until_ms: int, at_most: int) -> Due | None:
        """Take timers up to a time, the earliest first; `None` if there are none.

        They are gone, and fire as the iterator gives them. It may end before all that were taken have fired,
        with the rest put back. To be followed by `fired`.
        """
        first_ms = self.first_ms
        if first_ms is None or first_ms > until_ms:
            return None
        if not self._runs or self._runs[-1].times[self._runs[-1].at] > first_ms:
            self._sort_until(until_ms)
        run = self._runs[-1]
        if self._times:
            # Timers of the same time are in order: what is in a run was registered before.
            until_ms = min(until_ms, self._times[0])
        positions = run.next_positions(until_ms, min(at_most, self._batch_size))
        start, end = positions[0], positions[-1] + 1
        batch = list(zip(run.owners[start:end], run.times[start:end]))
        if len(batch) > len(positions):
            batch = [batch[position - start] for position in positions]
        self._batch, self._positions, self._last_ms = batch, positions, batch[-1][1]
        self._table.discard_many(self._stored(batch))
        if not self._namespaced:
            self._keyed.prefetch([owner for owner, _ in batch])
        self._firing = iter(batch)
        return self._firing

    def fired(self) -> int:
        """What was taken has fired, or was put back; how many timers fired."""
        count = len(self._batch)
        self.count -= count
        if self._last_ms > _BEFORE_ALL:
            self._runs[-1].at = self._positions[-1] + 1
            self._batch_size = min(_LARGEST_BATCH, self._batch_size * 2)
        self._batch, self._positions, self._last_ms = [], (), _BEFORE_ALL
        return count

    def _end_batch(self) -> None:
        """Put back what has not fired: something comes before it, or is not to fire."""
        batch = self._batch
        fired = len(batch) - length_hint(self._firing)
        for key, entry in self._stored(batch[fired:]):
            self._table.add(key, entry)
        self._runs[-1].at = self._next_position(self._runs[-1])
        # The iterator ends here.
        del batch[fired:]
        self._last_ms = _BEFORE_ALL
        self._batch_size = max(1, self._batch_size // 2)

    def _stored(self, timers: list[tuple[Any, int]]) -> list[tuple[Any, Any]]:
        """Timers as they are in the table."""
        if not self._namespaced:
            return timers
        return [(key, (timestamp_ms, namespace)) for (key, namespace), timestamp_ms in timers]

    def _sort_until(self, until_ms: int) -> None:
        """Move the timers up to a time into a run, as far as they come before those in runs."""
        times, by_time, runs = self._times, self._by_time, self._runs
        if runs:
            until_ms = min(until_ms, runs[-1].times[runs[-1].at] - 1)
        found: list[int] = []
        most = len(times) // _SORTED_SHARE + _STALE_AT_LEAST
        while times and times[0] <= until_ms and len(found) < most:
            found.append(heapq.heappop(times))
        if times and times[0] <= until_ms:
            # So many are due that one sort is cheaper than taking each from the heap.
            run = self._partition(until_ms)
        else:
            run = _run(list(map(by_time.pop, found, repeat(NOBODY))), found)
        self._sorted_until_ms = max(self._sorted_until_ms, run.times[-1])
        runs.append(run)

    def _partition(self, until_ms: int) -> TimerRun:
        """Take the timers up to a time out of dict and heap."""
        times = np.fromiter(self._by_time, np.int64, len(self._by_time))
        owners = np.fromiter(self._by_time.values(), np.object_, len(self._by_time))
        is_due = times <= until_ms
        due_times = times[is_due]
        order = np.argsort(due_times)
        run = _run(owners[is_due][order].tolist(), due_times[order].tolist())
        self._times = times[~is_due].tolist()
        self._by_time = dict(zip(self._times, owners[~is_due].tolist()))
        heapq.heapify(self._times)
        return run

    def _put(self, timestamp_ms: int, owner: Any) -> bool:
        """Whether it is new."""
        by_time = self._by_time
        found = by_time.get(timestamp_ms, NOBODY)
        if found is NOBODY:
            by_time[timestamp_ms] = owner
            if len(self._times) > _STALE_AT_LEAST + 2 * len(by_time):
                self._times[:] = by_time
                heapq.heapify(self._times)
            else:
                heapq.heappush(self._times, timestamp_ms)
            return True
        if type(found) is _Owners:
            if owner in found:
                return False
            found[owner] = None
            return True
        if found == owner:
            return False
        by_time[timestamp_ms] = _Owners({found: None, owner: None})
        return True

    def _checked(self, key: Any, timestamp_ms: Any) -> int:
        where = self._where
        if key is None:
            raise StateError(
                f"{where}: used while no key is set; register and delete timers only while a record or "
                f"a timer is processed"
            )
        try:
            checked = index(timestamp_ms)
        except TypeError:
            checked = None
        if checked is None or not _LOWEST <= checked <= MAX_WATERMARK_MS:
            raise StateError(
                f"{where}: {timestamp_ms!r:.100} is no time; give milliseconds as an int of 64 bits"
            )
        return checked


def _run(owners: list[Any], times: list[int]) -> TimerRun:
    """A run of what was at some times: one owner, several, or none any more."""
    kinds = set(map(type, owners))
    if _Owners not in kinds and Nobody not in kinds:
        return TimerRun(owners, times)
    each_owner: list[Any] = []
    each_time: list[int] = []
    for found, timestamp_ms in zip(owners, times):
        if type(found) is _Owners:
            each_owner += found
            each_time += repeat(timestamp_ms, len(found))
        elif found is not NOBODY:
            each_owner.append(found)
            each_time.append(timestamp_ms)
    return TimerRun(each_owner, each_time)
