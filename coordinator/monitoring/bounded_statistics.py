"""Copies of a job's statistics to hand out, without secrets.

Their size does not grow with subtasks times checkpoints.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace

from ...common.secrets import masked_text
from ...protocol.checkpoints.checkpoint_events import SubtaskMetrics
from ...protocol.ids import SubtaskId
from .statistics import HISTORY_LENGTH, CheckpointStatistics, JobStatistics

MAX_SUBTASKS = 5_000
"""The newest checkpoints tell of all their subtasks, as long as there are not more of them than this."""


class BoundedStatistics:
    """Makes the copies, and remembers what it has cut down."""

    def __init__(self) -> None:
        self._cut: OrderedDict[int, CheckpointStatistics] = OrderedDict()

    def copy(self, statistics: JobStatistics) -> JobStatistics:
        """A copy that another thread may read while the original goes on.

        Of older checkpoints only the subtasks stay that took longest, and those on the critical path, so that
        both are right.
        """
        kept: deque[CheckpointStatistics] = deque(maxlen=statistics.checkpoints.maxlen)
        subtasks = 0
        for checkpoint in reversed(statistics.checkpoints):
            subtasks += len(checkpoint.subtasks)
            is_whole = not kept or subtasks <= MAX_SUBTASKS
            kept.appendleft(_masked(checkpoint if is_whole else self._cut_down(checkpoint)))
        latest = statistics.latest_aborted
        return replace(
            statistics,
            warnings=deque(map(masked_text, statistics.warnings), statistics.warnings.maxlen),
            checkpoints=kept,
            counts=statistics.counts.copy(),
            latest_aborted=None if latest is None else _masked(latest),
            rescales=statistics.rescales.copy(),
            recoveries=deque(
                (replace(one, cause=masked_text(one.cause)) for one in statistics.recoveries),
                statistics.recoveries.maxlen,
            ),
        )

    def _cut_down(self, checkpoint: CheckpointStatistics) -> CheckpointStatistics:
        known = self._cut.get(checkpoint.checkpoint_id)
        if known is None:
            known = replace(checkpoint, subtasks=_telling(checkpoint.subtasks))
            self._cut[checkpoint.checkpoint_id] = known
            while len(self._cut) > HISTORY_LENGTH:
                self._cut.popitem(last=False)
        return known


def _masked(checkpoint: CheckpointStatistics) -> CheckpointStatistics:
    reason = masked_text(checkpoint.reason) if checkpoint.reason else ""
    return checkpoint if reason == checkpoint.reason else replace(checkpoint, reason=reason)


def _telling(subtasks: dict[SubtaskId, SubtaskMetrics]) -> dict[SubtaskId, SubtaskMetrics]:
    if not subtasks:
        return {}
    found = {
        max(subtasks, key=lambda one: subtasks[one].start_delay_ms),
        max(subtasks, key=lambda one: subtasks[one].alignment_ms),
        max(subtasks, key=lambda one: subtasks[one].sync_ms),
        max(subtasks, key=lambda one: subtasks[one].async_ms),
        *_way_to_the_last(subtasks),
    }
    return {one: metrics for one, metrics in subtasks.items() if one in found}


def _way_to_the_last(subtasks: dict[SubtaskId, SubtaskMetrics]) -> set[SubtaskId]:
    """The subtask that acknowledged last, and those that its barrier came through."""
    way: set[SubtaskId] = set()
    on: SubtaskId | None = max(subtasks, key=lambda one: (subtasks[one].acknowledged_ms or 0.0, one))
    while on is not None and on in subtasks and on not in way:
        way.add(on)
        on = subtasks[on].upstream
    return way
