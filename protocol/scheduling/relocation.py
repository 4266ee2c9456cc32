"""When a coordinator leaves a node that is being drained: after a checkpoint, if there is time for one."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MoveStep(enum.Enum):
    """What the coordinator does about its node."""

    STAY = "nothing"
    TAKE_CHECKPOINT = "takes a checkpoint, so that little is processed again"
    LEAVE = "ends, to be started on another node"


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What the decision depends on.

    Attributes:
        must_move: Whether the coordinator's node is being drained, and another one can take it.
        is_steady: Whether the job runs, and is neither being rescaled nor stopped.
        newest: Id of the newest completed checkpoint, `None` without one.
    """

    must_move: bool
    is_steady: bool
    newest: int | None


class CoordinatorMove:
    """Of one coordinator.

    Args:
        timeout_ms: After this time it leaves without a new checkpoint. Nodes that are preempted are often
            gone after two minutes.
    """

    def __init__(self, timeout_ms: int = 30_000) -> None:
        self._timeout_ms = timeout_ms
        self._begun: tuple[int, int | None] | None = None
        self._is_asked = False

    @property
    def is_moving(self) -> bool:
        """Whether the coordinator is about to leave."""
        return self._begun is not None

    def decide(self, now_ms: int, facts: MoveFacts) -> MoveStep:
        """What to do now."""
        if not facts.must_move:
            self._begun, self._is_asked = None, False
            return MoveStep.STAY
        if self._begun is None:
            self._begun = now_ms, facts.newest
        begun_ms, newest = self._begun
        if now_ms - begun_ms >= self._timeout_ms or (facts.is_steady and facts.newest != newest):
            return MoveStep.LEAVE
        if facts.is_steady and not self._is_asked:
            self._is_asked = True
            return MoveStep.TAKE_CHECKPOINT
        return MoveStep.STAY
