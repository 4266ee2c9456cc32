"""Decides which processes end after the network failed for one of them."""

from __future__ import annotations

from collections.abc import Mapping


def without_connections(reporter: str, nodes: Mapping[str, str]) -> list[str]:
    """What has to end after the network failed for one process, so that connections between nodes are new.

    Ray keeps its connection between two processes. After an outage TCP waits as long again before it sends
    anything on it, and the messages of every attempt that runs in these processes wait too.

    Args:
        reporter: The key of the process that reported the failure.
        nodes: The node of each process of the job, by key.

    Returns:
        The keys of those on its node; only its own if no process is on another node.
    """
    here = [key for key, node in nodes.items() if node == nodes[reporter]]
    return here if len(here) < len(nodes) else [reporter]
