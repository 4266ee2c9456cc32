"""When a job follows the size of its cluster (Flink's reactive mode). Pure: time and sizes are arguments.

Source: Flink's adaptive scheduler in the state *executing*: growth waits for a cooldown and until the
cluster has kept its size for a while, so that nodes which come one by one cause one rescale; what goes is
followed at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...common.options.elasticity_options import SchedulerOptions as Options


@dataclass(frozen=True, slots=True)
class ReactiveSettings:
    """How quickly a job follows the size of its cluster.

    Attributes:
        cooldown_ms: Time after a rescale in which no growth of the cluster is followed.
        stabilization_ms: Time for which a larger cluster must have kept its size.
    """

    cooldown_ms: int = Options.COOLDOWN.default.to_millis()
    stabilization_ms: int = Options.STABILIZATION.default.to_millis()


class ReactivePolicy:
    """Decides for one job."""

    def __init__(self, settings: ReactiveSettings) -> None:
        self._settings = settings
        self._seen = 0
        self._seen_since_ms = 0

    def decide(self, now_ms: int, slots: int, parallelism: int, rescaled_ms: int | None) -> int | None:
        """The parallelism to change to, `None` to stay.

        Args:
            now_ms: Now.
            slots: How many slots of the job the cluster has room for.
            parallelism: How many it uses.
            rescaled_ms: When it was rescaled last, `None` for never.
        """
        if slots != self._seen:
            self._seen, self._seen_since_ms = slots, now_ms
        if slots < 1 or slots == parallelism:
            return None
        if slots < parallelism:
            return slots
        if rescaled_ms is not None and now_ms - rescaled_ms < self._settings.cooldown_ms:
            return None
        return slots if now_ms - self._seen_since_ms >= self._settings.stabilization_ms else None
