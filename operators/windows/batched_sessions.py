"""The common case of sessions, a batch at a time: by event time, firing once at their end, no lateness.

The open sessions of a key are in memory, sorted; a record looks only at those it may touch. What a batch
adds to a session is folded at once. While a session grows, its timer stays where it is: one that fires too
early is registered again at the session's end. Timers and journal are brought up to date for a snapshot, so
a checkpoint is the same as that of `MergingWindowOperator`, and either operator restores it. The results
are the same too; those of different keys that end with the same watermark may come in another order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter, length_hint
from typing import Any

from ...common.errors import TidegateError
from ...common.typeinfo import TypeInformation
from ...protocol.elements import CheckpointBarrier
from ..keyed.keyed import Selector
from ..timers.timers import Timer
from .builtin_triggers import EventTimeTrigger
from .merging_operator import older_journal_type
from .operator import Windowing, WindowOperator
from .session_assigners import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from .window_contents import EvictingContents
from .window_journal import Entry, WindowJournal
from .windows import TimeWindow

Interval = tuple[int, int]


def is_common_session(windowing: Windowing) -> bool:
    """Whether `BatchedSessionOperator` can do it."""
    return (
        type(windowing.assigner) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows)
        and type(windowing.trigger) is EventTimeTrigger
        and windowing.allowed_lateness_ms == 0
        and not isinstance(windowing.contents, EvictingContents)
    )


class _Session:
    """An open session of a key.

    Attributes:
        state: The window in whose namespace its records are.
        timer: The window for whose end the timer is registered, the session's at that time; `None` if none is
            known, since the session was restored.
        stored: What the journal has of it; `None` for nothing yet.
        added: Records of the current batch; `None` for none.
    """

    __slots__ = ("added", "end", "key", "start", "state", "stored", "timer")

    def __init__(self, key: Any, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.state: Interval = (start, end)
        self.timer: Interval | None = None
        self.stored: Entry | None = None
        self.added: list[Any] | None = None


_start_of = attrgetter("start")


class BatchedSessionOperator(WindowOperator):
    """Sessions of the common case; see `is_common_session`."""

    merges = True

    def __init__(
        self, windowing: Windowing, key_selector: Selector, key_type: TypeInformation | None = None
    ) -> None:
        super().__init__(windowing, key_selector, key_type)
        assigner = windowing.assigner
        assert isinstance(assigner, (EventTimeSessionWindows, DynamicEventTimeSessionWindows))
        self._gaps_of = assigner.gaps_of

    def open(self) -> None:
        super().open()
        self._journal = WindowJournal(self.keyed, older_journal_type(self._windowing.assigner))
        # By key, in order; sessions of a key never touch each other.
        self._sessions: dict[Any, list[_Session]] = {}
        # Whose timer or journal entry may be out of date; nothing where no snapshots are taken.
        self._changed: set[_Session] = set()
        for key, entry in self._journal.take_restored():
            (start, end), state = entry
            session = _Session(key, start, end)
            session.state, session.stored = state, entry
            self._sessions.setdefault(key, []).append(session)
        for sessions in self._sessions.values():
            sessions.sort(key=_start_of)

    # ------------------------------------------------------------ records

    def _process(self, values: list[Any], keys: Sequence[Any], times: Sequence[int]) -> None:
        open_sessions, touched = self._sessions, list[_Session]()
        remaining = iter(values)
        try:
            for value, key, time, gap in zip(remaining, keys, times, self._gaps_of(values)):
                end = time + gap
                sessions = open_sessions.get(key)
                session = None
                if sessions is not None:
                    behind = len(sessions)
                    if sessions[-1].start > end:
                        behind = bisect_right(sessions, end, key=_start_of)
                    touches = behind and time <= sessions[behind - 1].end
                    # Usually no other one.
                    if touches and (behind == 1 or sessions[behind - 2].end < time):
                        session = sessions[behind - 1]
                if session is None:
                    session = self._session_of(key, time, end)
                    if session is None:
                        self._late(value, time)
                        continue
                if time < session.start:
                    session.start = time
                if end > session.end:
                    session.end = end
                if session.added is None:
                    session.added = [value]
                    touched.append(session)
                else:
                    session.added.append(value)
        except Exception as error:
            raise self._failed(error, values, times, len(values) - length_hint(remaining) - 1) from error
        self._fold(touched)

    def _failed(
        self, error: Exception, values: list[Any], times: Sequence[int | None], index: int
    ) -> TidegateError:
        value = values[index]
        return self._without_timestamp(value) if times[index] is None else self._adding_failed(error, value)

    def _session_of(self, key: Any, time: int, end: int) -> _Session | None:
        """The session that a record becomes part of: one that is open, several made one, or a new one.

        `None` for a record that is late.
        """
        sessions = self._sessions.get(key, [])
        behind = first = bisect_right(sessions, end, key=_start_of)
        while first > 0 and sessions[first - 1].end >= time:
            first -= 1
        if first < behind:
            if behind - first > 1:
                self._merge(sessions, first, behind)
            return sessions[first]
        if end - 1 <= self._timers.current_watermark():
            return None
        session = _Session(key, time, end)
        sessions.insert(first, session)
        self._sessions[key] = sessions
        return session

    def _merge(self, sessions: list[_Session], first: int, behind: int) -> None:
        """Make one of some sessions of a key: the first takes what the others have."""
        kept, others = sessions[first], sessions[first + 1 : behind]
        # In this order are the records in the state of one.
        self._fold([kept, *others])
        self.keyed.current_key = kept.key
        self._contents.merge(kept.state, [other.state for other in others])
        kept.end = others[-1].end
        del sessions[first + 1 : behind]
        for other in others:
            if other.timer is not None:
                self._timers.delete_event_time_timer(other.timer, other.timer[1] - 1)
            self._forget(other)

    def _fold(self, touched: list[_Session]) -> None:
        """Add to the contents of sessions what came for them."""
        # One that was merged meanwhile has nothing any more, or was touched twice.
        touched = [session for session in dict.fromkeys(touched) if session.added is not None]
        added: list[Any] = [session.added for session in touched]
        self._contents.add_groups([(session.key, session.state) for session in touched], added)
        for session in touched:
            session.added = None
            if session.timer is None:
                self._set_timer(session)
        if self._journal.is_kept:
            self._changed.update(touched)

    def _set_timer(self, session: _Session) -> None:
        self.keyed.current_key = session.key
        session.timer = (session.start, session.end)
        self._timers.register_event_time_timer(session.timer, session.end - 1)

    # ------------------------------------------------------------ timers

    def on_event_time(self, timer: Timer) -> None:
        found = self._find(timer)
        if found is None:
            # Its session became part of another one, or ended.
            return
        session = found
        last_ms = session.end - 1
        if timer.timestamp < last_ms:
            if session.timer is None or timer.timestamp != session.timer[1] - 1:
                return
            if last_ms > self._timers.current_watermark():
                self._set_timer(session)
                return
        try:
            # A later timer is from a checkpoint of windows that allowed lateness: they have fired.
            self._end(session, fires=timer.timestamp <= last_ms)
        except Exception as error:
            raise self._timer_failed(timer, error) from error

    def _find(self, timer: Timer) -> _Session | None:
        """The session that the window of a timer is part of."""
        sessions = self._sessions.get(timer.key)
        if sessions is None:
            return None
        start, end = timer.namespace
        position = bisect_right(sessions, start, key=_start_of) - 1
        if position < 0 or sessions[position].end < end:
            return None
        return sessions[position]

    def _end(self, session: _Session, fires: bool) -> None:
        keyed, window = self.keyed, TimeWindow(session.start, session.end)
        keyed.current_namespace = session.state
        elements = self._contents.elements(window) if fires else None
        if elements is not None:
            keyed.current_namespace = (session.start, session.end)
            self._fire(window, elements)
            keyed.current_namespace = session.state
        self._contents.clear()
        if self._window_call.needs_clear:
            keyed.current_namespace = (session.start, session.end)
            self._window_call.clear(window)
        sessions = self._sessions[session.key]
        sessions.remove(session)
        if not sessions:
            del self._sessions[session.key]
        self._forget(session)

    # ------------------------------------------------------------ snapshots

    def _forget(self, session: _Session) -> None:
        """Note that a session is gone."""
        self._changed.discard(session)
        if session.stored is not None:
            self._journal.discard(session.key, session.stored)

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        super().prepare_snapshot(barrier)
        for session in self._changed:
            window = (session.start, session.end)
            self.keyed.current_key = session.key
            if session.timer is not None and session.timer != window:
                self._timers.delete_event_time_timer(session.timer, session.timer[1] - 1)
                self._set_timer(session)
            entry = (window, session.state)
            if entry != session.stored:
                if session.stored is not None:
                    self._journal.discard(session.key, session.stored)
                self._journal.add(session.key, entry)
                session.stored = entry
        self._changed.clear()
        self.keyed.current_key = None
