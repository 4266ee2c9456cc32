"""Looks at the nodes of a Ray cluster from inside, for `tidegate doctor`."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..state.storage.checkpoint_storage import open_storage
from .ray_connection import connect

_TIMEOUT_S = 60
_ROUNDS = 3


@dataclass(frozen=True)
class NodeFacts:
    """What one node says of itself."""

    address: str
    clock_ahead_ms: float = 0.0
    """How far its clock is ahead of the one here; behind if negative."""
    uncertainty_ms: float = 0.0
    """Half of the quickest round trip: nobody can tell the difference of clocks better."""
    python: str = ""
    tidegate: str = ""
    finds_probe: bool = False
    """Whether it sees the file that was asked for."""
    problem: str = ""
    """Why it said nothing."""


def look_at_nodes(address: str | None, directory: str | None, probe: str) -> list[NodeFacts]:
    """Ask every living node of a cluster, all at the same time.

    Args:
        address: Of the cluster, as for `known_jobs`.
        directory: Address of a checkpoint directory, `None` to ask for none.
        probe: Path of a file in it.

    Raises:
        ClusterUnreachableError: There is no such cluster.
    """
    connect(address)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = [_Node(node, directory, probe) for node in nodes]
    return [node.facts() for node in asked]


class _Node:
    def __init__(self, node: dict[str, Any], directory: str | None, probe: str) -> None:
        self._address = str(node["NodeManagerAddress"])
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        self._ask = ray.remote(_tell).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
        self._arguments = (directory, probe)
        # Starts the worker, which takes longer than any skew that matters.
        self._first = self._ask.remote(*self._arguments)

    def facts(self) -> NodeFacts:
        try:
            ray.get(self._first, timeout=_TIMEOUT_S)
            rounds = [self._round() for _ in range(_ROUNDS)]
        except RayError as error:
            lines = str(error).strip().splitlines()
            return NodeFacts(self._address, problem=lines[-1] if lines else type(error).__name__)
        return min(rounds, key=lambda one: one.uncertainty_ms)

    def _round(self) -> NodeFacts:
        started_ns = time.time_ns()
        now_ns, python, tidegate, finds_probe = ray.get(
            self._ask.remote(*self._arguments), timeout=_TIMEOUT_S
        )
        half_ns = (time.time_ns() - started_ns) / 2
        ahead_ms = (now_ns - started_ns - half_ns) / 1e6
        return NodeFacts(self._address, ahead_ms, half_ns / 1e6, python, tidegate, finds_probe)


def _tell(directory: str | None, probe: str) -> tuple[int, str, str, bool]:
    folder = probe.partition("/")[0]
    finds = directory is not None and probe in open_storage(directory).list_files(folder)
    return time.time_ns(), platform.python_version(), version("tidegate"), finds
