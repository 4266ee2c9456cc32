"""By how much the clocks of tasks are ahead of the coordinator's, as far as their messages prove it."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.ids import SubtaskId

RESOLUTION_MS = 1.0
"""Some beginnings are known in whole milliseconds only, and seem that much earlier."""


@dataclass(slots=True)
class _Bounds:
    least_ms: float
    most_ms: float


class ClockSkews:
    """One estimate per subtask, for one attempt.

    What a task does because of a message cannot have come before that message was sent, and what it tells of
    cannot have come after its telling arrived. Each such pair bounds the skew from both sides, as in Cristian
    (1989, "Probabilistic clock synchronization"); quick answers bound it closely, and all answers together
    better than one. Of the skews within the bounds the one next to 0 is taken: where nothing proves that two
    clocks disagree, they are left alone.
    """

    def __init__(self) -> None:
        self._bounds: dict[SubtaskId, _Bounds] = {}

    def observe(self, subtask: SubtaskId, least_ms: float, most_ms: float) -> float:
        """A message of a subtask proves that its clock is ahead by `least_ms` to `most_ms`.

        Args:
            least_ms: The end of what it tells of, by its clock, minus the arrival, by the coordinator's.
            most_ms: The beginning of what it tells of, by its clock, minus the time of the order, by the
                coordinator's.

        Returns:
            The estimate in milliseconds; positive where the task's clock is ahead.
        """
        most_ms += RESOLUTION_MS
        known = self._bounds.get(subtask)
        bounds = _Bounds(least_ms, most_ms)
        if known is not None:
            bounds = _Bounds(max(least_ms, known.least_ms), min(most_ms, known.most_ms))
        if bounds.least_ms > bounds.most_ms:
            # The clocks drift or one was set: what they were before says nothing any more.
            bounds = _Bounds(least_ms, most_ms)
        self._bounds[subtask] = bounds
        if bounds.least_ms > bounds.most_ms:
            return (bounds.least_ms + bounds.most_ms) / 2
        return min(max(0.0, bounds.least_ms), bounds.most_ms)

    def of(self, subtask: SubtaskId) -> float:
        """The newest estimate; 0 before the first."""
        known = self._bounds.get(subtask)
        return 0.0 if known is None else min(max(0.0, known.least_ms), known.most_ms)
