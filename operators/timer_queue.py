"""The timers of one operator in one time domain: in the order of their times, and as state of their keys."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from operator import index
from typing import Any, Final

from ..common.errors import StateError
from ..protocol.elements import MAX_WATERMARK_MS
from ..protocol.watermarks import MIN_WATERMARK_MS
from ..state.backend import KeyedStateBackend

_LOWEST = MIN_WATERMARK_MS
_STALE_AT_LEAST = 1_024
_SORTED_SHARE = 16


class _Owners(dict[Any, None]):
    """Who has a timer at one time, where there are several."""


_NOBODY: Final = object()


class TimerQueue:
    """Who has a timer when. The owner of a timer is its key, or the pair of its key and namespace.

    All timers are in memory, sorted by a heap of their times; the state is there for snapshots. Timers of one
    time fire in the order in which they were registered.

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
        for key, entry in self._table.take_restored():
            if namespaced:
                self._put(entry[0], (key, entry[1]))
            else:
                self._put(entry, key)

    @property
    def first_ms(self) -> int | None:
        """The earliest time of a timer, `None` if there is none."""
        times, by_time = self._times, self._by_time
        while times and times[0] not in by_time:
            heapq.heappop(times)
        return times[0] if times else None

    def add(self, namespace: Any, timestamp_ms: int) -> None:
        """Have a timer of the current key."""
        key = self._keyed.current_key
        if key is None or type(timestamp_ms) is not int or not _LOWEST <= timestamp_ms <= MAX_WATERMARK_MS:
            timestamp_ms = self._checked(key, timestamp_ms)
        if self._namespaced:
            if self._put(timestamp_ms, (key, namespace)):
                self._table.add(key, (timestamp_ms, namespace))
        elif self._put(timestamp_ms, key):
            self._table.add(key, timestamp_ms)

    def remove(self, namespace: Any, timestamp_ms: int) -> None:
        """Forget a timer of the current key, if there is one."""
        key = self._keyed.current_key
        if key is None or type(timestamp_ms) is not int:
            timestamp_ms = self._checked(key, timestamp_ms)
        self.take(timestamp_ms, (key, namespace) if self._namespaced else key)

    def take(self, timestamp_ms: int, owner: Any) -> bool:
        """Forget a timer; whether there was one."""
        found = self._by_time.get(timestamp_ms, _NOBODY)
        if type(found) is _Owners and owner in found:
            del found[owner]
            if not found:
                del self._by_time[timestamp_ms]
        elif found == owner:
            del self._by_time[timestamp_ms]
        else:
            return False
        self._discard(timestamp_ms, owner)
        return True

    def _discard(self, timestamp_ms: int, owner: Any) -> None:
        if self._namespaced:
            self._table.discard(owner[0], (timestamp_ms, owner[1]))
        else:
            self._table.discard(owner, timestamp_ms)

    def fire(self, until_ms: int, fire_one: Callable[[int, Any], None], at_most: int | None = None) -> None:
        """Fire the timers up to a time, in order, also those that are registered meanwhile.

        Args:
            fire_one: Called with the time and the owner of each timer, which is gone by then.
            at_most: Stop after so many times, if given.
        """
        times, by_time, discard = self._times, self._by_time, self._discard
        pending = self._taken(until_ms, at_most)
        while pending or (at_most is None and times and times[0] <= until_ms):
            # What was registered meanwhile is in the heap, and may come before what is pending.
            is_pending = pending and not (times and times[0] < pending[-1])
            timestamp_ms = pending.pop() if is_pending else heapq.heappop(times)
            owners = by_time.get(timestamp_ms, _NOBODY)
            if type(owners) is _Owners:
                self._fire_owners(timestamp_ms, owners, fire_one)
                if timestamp_ms in by_time:
                    heapq.heappush(times, timestamp_ms)
            elif owners is not _NOBODY:
                del by_time[timestamp_ms]
                discard(timestamp_ms, owners)
                fire_one(timestamp_ms, owners)

    def _fire_owners(self, timestamp_ms: int, owners: _Owners, fire_one: Callable[[int, Any], None]) -> None:
        """Fire the timers of one time, until one registers an earlier one."""
        times = self._times
        for owner in list(owners):
            if self.take(timestamp_ms, owner):
                fire_one(timestamp_ms, owner)
            if times and times[0] < timestamp_ms:
                return

    def _taken(self, until_ms: int, at_most: int | None) -> list[int]:
        """Times up to a time, the last first, which the heap does not have any more."""
        times = self._times
        found: list[int] = []
        count = len(times) // _SORTED_SHARE + _STALE_AT_LEAST if at_most is None else at_most
        while times and times[0] <= until_ms and len(found) < count:
            found.append(heapq.heappop(times))
        if at_most is None and times and times[0] <= until_ms:
            # So many are due that one sort is cheaper than taking each from the heap.
            found += sorted(time for time in times if time <= until_ms)
            times[:] = [time for time in times if time > until_ms]
            heapq.heapify(times)
        found.reverse()
        return found

    def _put(self, timestamp_ms: int, owner: Any) -> bool:
        """Whether it is new."""
        by_time = self._by_time
        found = by_time.get(timestamp_ms, _NOBODY)
        if found is _NOBODY:
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
