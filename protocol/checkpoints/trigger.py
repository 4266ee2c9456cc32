"""When the next checkpoint may be triggered.

Source: the rules of Flink's `CheckpointRequestDecider`: a fixed interval, a minimum pause measured
from the last completion, a bound on concurrent checkpoints, and a bounded queue of manual requests,
savepoints first, that skip interval and pause. Forced requests skip the bound too. Nothing is triggered
while more old checkpoints wait to be deleted than may be under way at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..elements import SnapshotKind
from .abort_reasons import AbortReason

if TYPE_CHECKING:
    from .checkpoint_events import CheckpointRequested

NEVER_MS = 1 << 62

MAX_WAITING_REQUESTS = 1_000
"""Manual requests that may wait at once; Flink's bound."""


@dataclass(frozen=True, slots=True)
class TriggerPolicy:
    """Settings of the trigger decision; all times in milliseconds.

    `interval_ms` of `None` leaves only manual requests.
    """

    interval_ms: int | None
    min_pause_ms: int = 0
    timeout_ms: int = 600_000
    max_concurrent: int = 1
    tolerable_failures: int = 0


@dataclass(slots=True)
class TriggerDecider:
    """Decides from facts alone; it never looks at a clock."""

    policy: TriggerPolicy
    is_running: bool = False
    next_periodic_ms: int = NEVER_MS
    last_completed_ms: int = -NEVER_MS
    cleaning_count: int = 0
    requests: deque[CheckpointRequested] = field(default_factory=deque)

    def start(self, now_ms: int, initial_delay_ms: int) -> None:
        """All tasks run: the first periodic checkpoint is due after `initial_delay_ms`."""
        interval = self.policy.interval_ms
        self.next_periodic_ms = NEVER_MS if interval is None else now_ms + initial_delay_ms
        self.is_running = True

    def stop(self) -> None:
        """Tasks stopped: nothing is triggered until the next `start`; requests wait for it."""
        self.next_periodic_ms = NEVER_MS
        self.is_running = False

    @property
    def is_full(self) -> bool:
        """Whether no more requests may wait."""
        return len(self.requests) >= MAX_WAITING_REQUESTS

    def request(self, request: CheckpointRequested) -> None:
        """Queue a manual request."""
        before = sum(_rank(each) <= _rank(request) for each in self.requests)
        self.requests.insert(before, request)

    def checkpoint_completed(self, now_ms: int) -> None:
        """A checkpoint completed; the minimum pause counts from here."""
        self.last_completed_ms = now_ms

    def counted(self, cleaning_count: int) -> bool:
        """So many checkpoints wait to be deleted now; whether that no longer holds back anything."""
        was_behind = self._is_cleaning_behind
        self.cleaning_count = cleaning_count
        return was_behind and not self._is_cleaning_behind

    def due_at_ms(self, pending_count: int) -> int:
        """Earliest time at which a checkpoint may be triggered, `NEVER_MS` while time alone cannot help."""
        if not self.is_running or self._is_cleaning_behind:
            return NEVER_MS
        if self._is_forced:
            return -NEVER_MS
        if pending_count >= self.policy.max_concurrent:
            return NEVER_MS
        if self.requests:
            return -NEVER_MS
        return max(self.next_periodic_ms, self.last_completed_ms + self.policy.min_pause_ms)

    def obstacle(self, now_ms: int, pending_count: int) -> AbortReason | None:
        """Why no checkpoint is triggered now, `None` if one is due: the pre-flight check."""
        if not self.is_running:
            return AbortReason.TASKS_NOT_RUNNING
        if self._is_cleaning_behind:
            return AbortReason.TOO_MANY_TO_DELETE
        if self._is_forced:
            return None
        if pending_count >= self.policy.max_concurrent:
            return AbortReason.TOO_MANY_CONCURRENT
        if self.requests:
            return None
        if self.next_periodic_ms > now_ms:
            is_off = self.next_periodic_ms == NEVER_MS
            return AbortReason.SCHEDULER_STOPPED if is_off else AbortReason.NOT_DUE
        if self.last_completed_ms + self.policy.min_pause_ms > now_ms:
            return AbortReason.MIN_PAUSE
        return None

    @property
    def _is_cleaning_behind(self) -> bool:
        return self.cleaning_count > self.policy.max_concurrent

    @property
    def _is_forced(self) -> bool:
        return bool(self.requests) and self.requests[0].is_forced

    def take(self, now_ms: int) -> CheckpointRequested | None:
        """Use up what is due: the first request, which is returned, or else the period."""
        if self.requests:
            return self.requests.popleft()
        if self.policy.interval_ms is not None:
            self.next_periodic_ms = now_ms + self.policy.interval_ms
        return None

    def take_all(self) -> list[CheckpointRequested]:
        """All requests that wait; none waits any more."""
        taken = list(self.requests)
        self.requests.clear()
        return taken


def _rank(request: CheckpointRequested) -> tuple[bool, bool]:
    """The lower goes first; what is equal keeps its order."""
    return request.kind is not SnapshotKind.SAVEPOINT, not request.is_forced
