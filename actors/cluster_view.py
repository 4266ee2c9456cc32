"""What nodes a Ray cluster has, and where new processes of a job may be placed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import ray
from ray.exceptions import RayError

from ..common.errors import first_line
from ..coordinator.deployment.avoided_nodes import AvoidedNodes
from ..coordinator.deployment.slots import ProcessResources
from .task_processes import NodeView

logger = logging.getLogger(__name__)

_LOOK_MS = 2_000
_NODE_ID_LABEL = "ray.io/node-id"


class ClusterView:
    """The nodes as they were seen last; used on the coordinator's thread.

    Args:
        post: Runs a callable on the coordinator's thread.
    """

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self.nodes: NodeView | None = None
        """`None` before the first look."""
        self._post = post
        self._avoided = AvoidedNodes()
        self._is_looking = False
        self._look_at_ms = 0
        # In a thread of its own: without Ray's head the question is not answered for a while.
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="tidegate-nodes")

    @property
    def draining(self) -> frozenset[str]:
        """Ids of the nodes that are about to go."""
        return frozenset() if self.nodes is None else self.nodes.draining

    def look(self, now_ms: int) -> None:
        """Find out in the background what nodes there are, if it is time to."""
        if self._is_looking or now_ms < self._look_at_ms:
            return
        self._is_looking, self._look_at_ms = True, now_ms + _LOOK_MS
        future = self._looks.submit(look_at_nodes)
        future.add_done_callback(lambda done: self._post(lambda: self._looked(done)))

    def _looked(self, seen: Future[NodeView]) -> None:
        self._is_looking = False
        if seen.cancelled():
            return
        try:
            self.nodes = seen.result()
        except RayError as error:
            # Its head is away. What was seen last will do until it is back.
            logger.warning(
                "Ray does not say what nodes there are: %s: %s", type(error).__name__, first_line(error)
            )
        else:
            self._avoided.looked(self.nodes.free_by_node)

    def silent(self, nodes: Iterable[str], now_ms: int) -> None:
        """No process on these nodes answers: others are preferred from now on."""
        self._avoided.silent(nodes, now_ms)

    def released(self, node: str, resources: ProcessResources) -> None:
        """A process on a node was killed: what it used is free for the next one."""
        self._avoided.released(node, resources)

    def avoided(self, now_ms: int) -> frozenset[str]:
        """Ids of the nodes that were silent."""
        return self._avoided.now(now_ms)

    def options(self, resources: ProcessResources, now_ms: int) -> dict[str, Any]:
        """What to ask of Ray for a process: resources, and no node that was silent if another has room."""
        options = resources.actor_options()
        avoided = self._avoided.place(resources, now_ms)
        if avoided:
            options["label_selector"] = {_NODE_ID_LABEL: f"!in({','.join(sorted(avoided))})"}
        return options

    def close(self) -> None:
        """Stop looking."""
        self._looks.shutdown(wait=False, cancel_futures=True)


def look_at_nodes() -> NodeView:
    """What Ray knows of its nodes now."""
    state = ray._private.state.state
    draining = frozenset(state.get_draining_nodes())
    alive = {each["NodeID"]: each["Labels"] for each in ray.nodes() if each["Alive"]}
    staying = frozenset(alive) - draining
    free: dict[str, float] = {}
    free_by_node: dict[str, dict[str, float]] = {}
    left = ray._private.state.available_resources_per_node()
    for node_id, resources in left.items():
        if node_id in staying:
            free_by_node[node_id] = resources
            for name, amount in resources.items():
                free[name] = free.get(name, 0.0) + amount
    return NodeView(free, staying, draining, free_by_node, alive)
