"""How far the sources of a group may go, given how far each has come.

Source: Flink's FLIP-182 and FLIP-217. There a source may run until the first announcement comes; here it
waits with its first watermark, so that no source is ever more than one batch beyond its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .checkpoints.trigger import NEVER_MS
from .elements import MAX_WATERMARK_MS
from .source_events import WatermarkReported

Member = tuple[str, int]
"""The uid of a source, and the index of the subtask."""


@dataclass(slots=True)
class _Group:
    max_drift_ms: int
    update_interval_ms: int
    due_ms: int
    watermarks: dict[Member, int] = field(default_factory=dict)
    announced_ms: int | None = None

    @property
    def limit_ms(self) -> int:
        lowest_ms = min(self.watermarks.values())
        return MAX_WATERMARK_MS if lowest_ms == MAX_WATERMARK_MS else lowest_ms + self.max_drift_ms


class WatermarkAligner:
    """The groups of one job in one attempt. A subtask of a source joins by its first report."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def report(self, member: Member, event: WatermarkReported, now_ms: int) -> None:
        """A member tells how far it has come; `MAX_WATERMARK_MS` when nobody has to wait for it."""
        group = self._groups.get(event.group)
        if group is None:
            group = _Group(event.max_drift_ms, event.update_interval_ms, now_ms)
            self._groups[event.group] = group
        # Sources of one group may disagree: the strictest counts.
        group.max_drift_ms = min(group.max_drift_ms, event.max_drift_ms)
        group.update_interval_ms = min(group.update_interval_ms, event.update_interval_ms)
        group.watermarks[member] = event.watermark_ms

    def next_due_ms(self) -> int:
        """When `limits` should be asked next."""
        return min((group.due_ms for group in self._groups.values()), default=NEVER_MS)

    def limits(self, now_ms: int) -> list[tuple[Member, int]]:
        """The limits that have changed since they were announced, for every member."""
        changed: list[tuple[Member, int]] = []
        for group in self._groups.values():
            if group.due_ms > now_ms:
                continue
            group.due_ms = now_ms + group.update_interval_ms
            if group.limit_ms != group.announced_ms:
                group.announced_ms = group.limit_ms
                changed += [(member, group.limit_ms) for member in group.watermarks]
        return changed
