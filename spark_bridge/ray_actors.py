"""The actors by which Spark sessions hold names and resources in Ray.

A session of RayDP has two kinds, with names: the application master and the executors. The names are the same
in every session of a namespace. Where an executor of a lost session is left, the next session gets none and
waits for one in vain. The application master ends with the driver's Java, which owns it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import ray

from .settings import SparkSessionError

logger = logging.getLogger(__name__)

_APP_MASTER = "RAY_APP_MASTER"
_EXECUTOR = "raydp-executor-"
_POLL_S = 0.5
_WATCH_S = 2.0
_MISSES = 2
"""How often in a row the application master must be missing; Ray may be slow to answer."""


def left_behind(names: Sequence[str]) -> list[str]:
    """Which actors of a namespace belong to no session any more.

    Args:
        names: Of all actors of the namespace.
    """
    if _APP_MASTER in names:
        # Executors may belong to its session.
        return []
    return [name for name in names if _is_of_session(name)]


def _is_of_session(name: str) -> bool:
    return name == _APP_MASTER or name.startswith(_EXECUTOR)


def kill_left_behind() -> None:
    """Kill the actors that belong to no session, so that Ray can give their names and resources away."""
    for name in left_behind(ray.util.list_named_actors()):
        logger.info("Spark session: killing the actor %s, which an ended session left behind", name)
        try:
            ray.kill(ray.get_actor(name), no_restart=True)
        except (ValueError, ray.exceptions.RayError) as error:
            logger.debug("the actor %s has ended by itself: %s", name, error)


def await_no_session(deadline_s: float) -> None:
    """Wait until the namespace has no Spark session, and kill what lost ones have left.

    Args:
        deadline_s: When to give up, on the monotonic clock.

    Raises:
        SparkSessionError: There is one still. The message names its actors.
    """
    while True:
        kill_left_behind()
        names = [name for name in ray.util.list_named_actors() if _is_of_session(name)]
        if not names:
            return
        if time.monotonic() > deadline_s:
            raise SparkSessionError(
                f"another Spark session runs in this Ray namespace, and RayDP allows one in each. It has "
                f"the actors {', '.join(shown(names))}. Give each job with Spark stages a namespace of its "
                f"own, with ray.init(namespace=...), or wait for the other job"
            )
        threading.Event().wait(_POLL_S)


def missing_executor() -> str:
    """Why a session has no executor, as far as Ray knows."""
    executors = [name for name in ray.util.list_named_actors() if name.startswith(_EXECUTOR)]
    sessions = sorted(
        f"{entry['namespace']}/{entry['name']}"
        for entry in ray.util.list_named_actors(all_namespaces=True)
        if _is_of_session(entry["name"])
    )
    free = ray.available_resources()
    what = f"Ray has not started {', '.join(shown(executors))}" if executors else "RayDP has created none"
    return (
        f"{what}. In the cluster {free.get('memory', 0) / (1 << 20):,.0f} MiB of memory are not reserved; "
        f"Spark sessions hold what the actors {', '.join(sessions)} reserve"
    )


def shown(names: Sequence[str]) -> list[str]:
    """Actors with their state, process and node."""
    texts = dict(zip(names, names))
    for actor in ray._private.state.actors().values():
        name = actor["Name"]
        if name in texts and actor["State"] != "DEAD":
            node = actor["Address"]["IPAddress"]
            texts[name] = f"{name} ({actor['State']}, process {actor['Pid']} on {node})"
    return list(texts.values())


def watch_app_master(ended: threading.Event, lost: Callable[[str], None]) -> None:
    """Notice that the application master of a session ends. Spark itself would wait for executors for ever.

    Args:
        ended: Set when the session ends.
        lost: Called once, with the reason, from a thread of its own.
    """

    def watch() -> None:
        misses = 0
        while misses < _MISSES:
            if ended.wait(_WATCH_S):
                return
            try:
                misses = 0 if _APP_MASTER in ray.util.list_named_actors() else misses + 1
            except Exception:
                logger.debug("Ray does not answer", exc_info=True)
        lost(f"its application master in Ray ({_APP_MASTER}) has ended, and its executors with it")

    threading.Thread(target=watch, name="tidegate-spark-watch", daemon=True).start()


def node_address() -> str:
    """The address by which Ray knows this node."""
    address: str = ray.util.get_node_ip_address()
    return address
