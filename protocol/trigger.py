"""When the next checkpoint may be triggered.

Source: the rules of Flink's `CheckpointRequestDecider`: a fixed interval, a minimum pause measured
from the last completion, a bound on concurrent checkpoints, and manual requests that are queued and
skip the interval but not the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER_MS = 1 << 62


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
    next_periodic_ms: int = NEVER_MS
    last_ended_ms: int = -NEVER_MS
    manual_requests: int = 0

    def start(self, now_ms: int, initial_delay_ms: int) -> None:
        """All tasks run: the first periodic checkpoint is due after `initial_delay_ms`."""
        interval = self.policy.interval_ms
        self.next_periodic_ms = NEVER_MS if interval is None else now_ms + initial_delay_ms

    def stop(self) -> None:
        """Tasks stopped: nothing periodic until the next `start`."""
        self.next_periodic_ms = NEVER_MS

    def request(self) -> None:
        """Queue one manual request."""
        self.manual_requests += 1

    def checkpoint_ended(self, now_ms: int) -> None:
        """A checkpoint completed or was aborted; the minimum pause counts from here."""
        self.last_ended_ms = now_ms

    def due_at_ms(self, pending_count: int) -> int:
        """Earliest time at which a checkpoint may be triggered, `NEVER_MS` while the bound is reached."""
        if pending_count >= self.policy.max_concurrent:
            return NEVER_MS
        if self.manual_requests:
            return -NEVER_MS
        return max(self.next_periodic_ms, self.last_ended_ms + self.policy.min_pause_ms)

    def take(self, now_ms: int, pending_count: int) -> bool:
        """Whether to trigger now; if so, the request or the period is used up."""
        if self.due_at_ms(pending_count) > now_ms:
            return False
        if self.manual_requests:
            self.manual_requests -= 1
        elif self.policy.interval_ms is not None:
            self.next_periodic_ms = now_ms + self.policy.interval_ms
        return True
