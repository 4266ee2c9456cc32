"""When a task process is pinged: less often while it has nothing to report."""

from __future__ import annotations

from dataclasses import replace

from ..protocol.task_metrics import Heartbeat
from .task_processes import TaskProcess

MOST_QUIET_MS = 3_000
"""The longest time between two pings of a process that is idle. A ping costs 2 to 3 ms of CPU time."""


class PingPacing:
    """Decides at each tick which processes are pinged, and whether they are asked for metrics.

    A process whose metrics change is pinged at each tick. One whose metrics stay the same, apart from the
    time that passes, is pinged as often as its heartbeat requires, and after mail that may be lost.

    Args:
        heartbeat_timeout_ms: Silence after which a process counts as lost.
        metrics_interval_ms: How often metrics are asked for; 0 for never.
    """

    def __init__(self, heartbeat_timeout_ms: int, metrics_interval_ms: int) -> None:
        self._quiet_ms = min(heartbeat_timeout_ms // 5, MOST_QUIET_MS)
        self._metrics_interval_ms = metrics_interval_ms

    def is_due(self, process: TaskProcess, now_ms: int) -> bool:
        """Whether to ping a process now."""
        if process.is_pinged:
            return False
        is_quiet = process.is_quiet and process.numbered == process.numbered_at_ping
        return not is_quiet or now_ms - process.pinged_ms >= self._quiet_ms

    def pinged(self, process: TaskProcess, now_ms: int) -> bool:
        """A process is pinged; returns whether to ask it for metrics."""
        process.is_pinged, process.pinged_ms = True, now_ms
        process.numbered_at_ping = dict(process.numbered)
        interval_ms = self._metrics_interval_ms
        is_due = interval_ms > 0 and now_ms - process.metrics_asked_ms >= interval_ms
        if is_due:
            process.metrics_asked_ms = now_ms
        return is_due

    def answered(self, process: TaskProcess, heartbeat: Heartbeat | None) -> None:
        """A process answered, or the ping failed."""
        process.is_pinged = False
        if heartbeat is None or heartbeat.metrics is None:
            return
        measured = {
            subtask: replace(metrics, busy_ms=0.0, backpressured_ms=0.0, idle_ms=0.0)
            for subtask, metrics in heartbeat.metrics.subtasks.items()
        }
        process.is_quiet = measured == process.measured
        process.measured = measured
