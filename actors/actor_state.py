"""What Ray's head knows of an actor."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import ray
from ray.exceptions import RayError


class ActorCondition(enum.Enum):
    """Whether an actor answers, now or later."""

    ALIVE = "alive"
    RETURNS = "is being started or restarted"
    DEAD = "is not restarted"


@dataclass(frozen=True)
class ActorState:
    """An actor at one moment.

    Attributes:
        condition: Whether it answers.
        restarts: How often Ray has restarted it. It changes as soon as Ray decides to.
        pid: Of its process, 0 where there is none yet.
    """

    condition: ActorCondition
    restarts: int = 0
    pid: int = 0


def actor_state(actor_id: str) -> ActorState | None:
    """The state of an actor, `None` if Ray's head does not answer.

    Args:
        actor_id: In hexadecimal digits.
    """
    try:
        known = ray._private.state.actors(actor_id)
    except (RayError, OSError, RuntimeError):
        return None
    if not known or known["State"] == "DEAD":
        return ActorState(ActorCondition.DEAD)
    condition = ActorCondition.ALIVE if known["State"] == "ALIVE" else ActorCondition.RETURNS
    return ActorState(condition, int(known["NumRestarts"]), int(known["Pid"]))
