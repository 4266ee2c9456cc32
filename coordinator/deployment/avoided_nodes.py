"""Decides which nodes a new process must not be placed on.

Ray takes up to a minute to count a silent node as dead, and places processes there until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .slots import ProcessResources

AVOIDED_MS = 600_000
"""How long a node is avoided after it was silent: by then Ray has given it up, or it works again."""

_TOLERANCE = 1e-6


class AvoidedNodes:
    """Nodes that were silent, and the room on the others."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}
        self._room: dict[str, dict[str, float]] = {}

    def silent(self, nodes: Iterable[str], now_ms: int) -> None:
        """These nodes do not answer."""
        for node in nodes:
            self._until_ms[node] = now_ms + AVOIDED_MS

    def looked(self, free: Mapping[str, Mapping[str, float]]) -> None:
        """The nodes that can be used, with what each has left, by Ray's names."""
        self._room = {node: dict(resources) for node, resources in free.items()}

    def released(self, node: str, resources: ProcessResources) -> None:
        """A process on a node was killed: Ray shows its resources as free only some time later."""
        room = self._room.get(node)
        if room is not None:
            for name, amount in resources.by_ray_name().items():
                room[name] = room.get(name, 0.0) + amount

    def now(self, now_ms: int) -> frozenset[str]:
        """All nodes to avoid at this time, in milliseconds."""
        return frozenset(node for node, until_ms in self._until_ms.items() if now_ms < until_ms)

    def place(self, wanted: ProcessResources, now_ms: int) -> frozenset[str]:
        """The nodes that a new process must not be placed on; none if no other node has room for it.

        Args:
            wanted: What the process asks for. It is taken off the room until the next look at the nodes.
            now_ms: The time in milliseconds.
        """
        avoided = self.now(now_ms)
        if not avoided:
            return avoided
        needs = wanted.by_ray_name()
        for node, room in self._room.items():
            if node in avoided:
                continue
            if all(amount <= room.get(name, 0.0) + _TOLERANCE for name, amount in needs.items()):
                for name, amount in needs.items():
                    room[name] -= amount
                return avoided
        return frozenset()
