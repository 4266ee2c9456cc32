"""When a source is asked again: whether a pause loses records, or only makes batches larger."""

from __future__ import annotations

from collections.abc import Callable

from ...operators.chain import OperatorChain
from ...operators.sources.sources import PolledOperator

PAUSE_NS = 2_000_000
"""The longest pause between two polls of a source that gives a few records each time."""
SHORTEST_PAUSE_NS = 500_000
MOST_PAUSE_MS = 100
"""The longest pause of a source that has been quiet for some time."""
_QUIET_SHARE = 16
"""A pause is at most this part of the time in which there was nothing: a late record is late by a share."""
PROBE_NS = 100_000_000
"""How often the other way is tried."""
# A rate is a mean over about the last four intervals.
_KEPT = 0.75
# A source that waits for nobody gives at most a third as much with pauses: see `_pauses_next`.
_SAME_RATE = 0.6


def pause_for(buffer_timeout_ms: int) -> int:
    """The pause between two polls of a source that gives a few records each time, in nanoseconds.

    Args:
        buffer_timeout_ms: How long records may wait for their batch. The pause is one of these waits, so it
            takes at most half of that time. Negative for no bound.
    """
    if buffer_timeout_ms < 0:
        return PAUSE_NS
    return max(SHORTEST_PAUSE_NS, min(buffer_timeout_ms * 500_000, PAUSE_NS))


class _Rate:
    """Records in a time, of which the latest count most."""

    def __init__(self) -> None:
        self.records = 0.0
        self.ns = 0.0

    def add(self, records: int, ns: int) -> None:
        self.records = self.records * _KEPT + records
        self.ns = self.ns * _KEPT + ns


class PollPacing:
    """Decides after each poll of a source when the next one is due.

    A source that gave less than it was asked for may have more, or may be waiting for the world. The second
    kind, asked again at once, gives a handful of records again and again, each handful costs what a batch
    costs, and a core is busy for records that come no sooner. So both ways are tried now and then, and there
    are pauses as long as as many records a second come with them as without.

    Args:
        pause_ns: How long such a pause is, in nanoseconds.
    """

    def __init__(self, pause_ns: int = PAUSE_NS) -> None:
        self._pause_ns = pause_ns
        self._due_ns = 0
        self._probe_ns = 0
        self._polled_ns: int | None = None
        self._quiet_since_ns: int | None = None
        self._is_pausing = False
        self._with_pauses = _Rate()
        self._without = _Rate()

    def due_in_ns(self, now_ns: int) -> int:
        """Nanoseconds until the source is to be asked; at most zero if it is now."""
        return self._due_ns - now_ns

    def quiet_pause_ns(self, now_ns: int, most_ns: int) -> int:
        """How long to wait for mail before a source that gave nothing is asked again.

        Args:
            now_ns: The time.
            most_ns: The longest pause, in nanoseconds.
        """
        if self._quiet_since_ns is None:
            return self._pause_ns
        share_ns = (now_ns - self._quiet_since_ns) // _QUIET_SHARE
        return max(self._pause_ns, min(share_ns, max(most_ns, PAUSE_NS)))

    def polled(self, records: int, most: int, from_ns: int, to_ns: int) -> bool:
        """Take a poll's outcome into account.

        Args:
            records: How many it gave.
            most: How many it was asked for.
            from_ns: When it was asked.
            to_ns: When the records had been worked off.

        Returns:
            Whether to ask again at once.
        """
        if records < most:
            self._count(records, from_ns)
        self._polled_ns = from_ns
        if records:
            self._quiet_since_ns = None
        elif self._quiet_since_ns is None:
            self._quiet_since_ns = from_ns
        pauses = 0 < records < most and self._pauses_next(from_ns, to_ns)
        self._due_ns = to_ns + self._pause_ns if pauses else to_ns
        self._is_pausing = pauses or records == 0
        return not self._is_pausing

    def _count(self, records: int, from_ns: int) -> None:
        """Note how many came since the last poll, unless something else held up the task in between."""
        if self._polled_ns is None:
            self._probe_ns = from_ns + PROBE_NS
            return
        passed_ns = from_ns - self._polled_ns
        if self._is_pausing and passed_ns <= 3 * PAUSE_NS:
            self._with_pauses.add(records, passed_ns)
        elif not self._is_pausing and passed_ns <= PAUSE_NS:
            self._without.add(records, passed_ns)

    def _pauses_next(self, from_ns: int, to_ns: int) -> bool:
        if to_ns - from_ns > self._pause_ns // 2:
            # A batch that is so much work needs not be larger. What is less makes the two rates of a source
            # that waits for nobody differ threefold.
            return False
        paused, without = self._with_pauses, self._without
        # Cross-multiplied: a simulated clock may stand still between two polls.
        is_same = paused.ns > 0 and paused.records * without.ns >= _SAME_RATE * without.records * paused.ns
        if to_ns < self._probe_ns:
            return is_same
        self._probe_ns = to_ns + PROBE_NS
        return not is_same


class SourcePolling:
    """Asks the source at the head of a chain for records, as often as is worth it.

    Args:
        source: The source.
        chain: The operators that it is the first of.
        batch_size: Records in a full batch.
        buffer_timeout_ms: How long records may wait for their batch; a quiet source is asked at least that
            often, negative for no such bound.
        now_ns: The clock of the task.
    """

    def __init__(
        self,
        source: PolledOperator,
        chain: OperatorChain,
        batch_size: int,
        buffer_timeout_ms: int,
        now_ns: Callable[[], int],
    ) -> None:
        self._source = source
        self._chain = chain
        self._batch_size = batch_size
        self._now_ns = now_ns
        bound_ms = MOST_PAUSE_MS if buffer_timeout_ms < 0 else min(buffer_timeout_ms, MOST_PAUSE_MS)
        self._most_ns = bound_ms * 1_000_000
        self._pacing = PollPacing(pause_for(buffer_timeout_ms))

    def wait_ns(self) -> int:
        """How long to wait for the source if there is no mail; what had nothing may be asked sooner."""
        now_ns = self._now_ns()
        due_in_ns = self._pacing.due_in_ns(now_ns)
        return due_in_ns if due_in_ns > 0 else self._pacing.quiet_pause_ns(now_ns, self._most_ns)

    def poll(self) -> bool:
        """Ask the source if it is time to; whether to go on at once. Raises `EndOfSource` at the end."""
        chain, from_ns = self._chain, self._now_ns()
        if self._pacing.due_in_ns(from_ns) > 0:
            return False
        read = chain.records_read
        self._source.poll(self._batch_size)
        return self._pacing.polled(chain.records_read - read, self._batch_size, from_ns, self._now_ns())
