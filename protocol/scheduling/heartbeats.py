"""Decides which processes, and which of their nodes, are silent.

Processes on one node are judged together: a machine that is cut off, or hangs, takes all of them along, and
that is one failure. A process that alone does not answer has a problem of its own, and its node is fine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Silent:
    """What has not been heard of for too long.

    Attributes:
        processes: By name.
        nodes: Those of which no process answers.
    """

    processes: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()


class Heartbeats:
    """Accounts for how long each process has been silent.

    Only time that was observed counts, at most two intervals between two looks: an observer that was
    suspended finds old times, while the answers wait for it.

    Args:
        timeout_ms: Silence after which a process counts as lost, in milliseconds.
        interval_ms: How often `look` is called.
    """

    def __init__(self, timeout_ms: int, interval_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._most_ms = 2 * interval_ms
        self._silent_ms: dict[str, int] = {}
        self._looked_ms = 0

    def heard(self, process: str) -> None:
        """A process answered, or a new one has this name."""
        self._silent_ms.pop(process, None)

    def look(self, nodes: Mapping[str, str], now_ms: int) -> Silent:
        """Find what is silent.

        A silent node is noticed with the first of its processes, if the others have not answered for half of
        the timeout.

        Args:
            nodes: The processes that should answer, each with its node.
            now_ms: The time in milliseconds.
        """
        passed_ms = min(max(0, now_ms - self._looked_ms), self._most_ms)
        self._looked_ms = now_ms
        known = self._silent_ms
        self._silent_ms = {each: known[each] + passed_ms if each in known else 0 for each in nodes}
        lost = {each for each, silent_ms in self._silent_ms.items() if silent_ms >= self._timeout_ms}
        answering = {
            nodes[each] for each, silent_ms in self._silent_ms.items() if 2 * silent_ms < self._timeout_ms
        }
        silent_nodes = {nodes[each] for each in lost} - answering
        on_them = {each for each, node in nodes.items() if node in silent_nodes}
        return Silent(frozenset(lost | on_them), frozenset(silent_nodes))
