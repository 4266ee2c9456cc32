"""Task processes of the Ray shell, and how those of another graph are started beside the ones that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..coordinator.deployment.slots import RAY_NAMES, ProcessResources, total
from ..protocol.ids import SubtaskId
from ..protocol.task_metrics import TaskMetrics

SHORTAGE_MS = 5_000
"""Ray's books lag behind: what seems to be taken may have been given back."""


@dataclass(slots=True, eq=False)
class TaskProcess:
    """One task actor and what runs in it."""

    key: str
    actor: Any
    resources: ProcessResources
    subtasks: list[SubtaskId]
    created_ms: int
    """When it was asked for, or took over these subtasks."""
    pid: int = 0
    """0 until it has answered for the first time: Ray may still look for a place for it."""
    node_id: str = ""
    """Of Ray's, an empty text until then."""
    is_pinged: bool = False
    numbered: dict[SubtaskId, int] = field(default_factory=dict)
    """How many `Numbered` each of its subtasks was sent in this attempt."""
    numbered_at_ping: dict[SubtaskId, int] = field(default_factory=dict)
    """What `numbered` was when it was pinged last."""
    pinged_ms: int = 0
    metrics_asked_ms: int = 0
    measured: Mapping[SubtaskId, TaskMetrics] = field(default_factory=dict)
    """Its last metrics, without times."""
    is_quiet: bool = False
    """Whether these were the same as those before."""
    stopping: dict[SubtaskId, None] = field(default_factory=dict)
    stop_deadline_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """The nodes of a cluster at one moment.

    Attributes:
        free: What nodes that stay have left, by Ray's names.
        staying: Their ids.
        draining: Ids of those that are about to go.
        labels: Labels of both by id.
    """

    free: Mapping[str, float]
    staying: frozenset[str]
    draining: frozenset[str]
    free_by_node: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What each of the nodes that stay has left."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def must_leave(self, node_id: str, placement: str) -> bool:
        """Whether a coordinator has to leave a node, and there is another one that can take it.

        Args:
            node_id: Where it runs.
            placement: `tidegate.coordinator.placement`. There is no other head.
        """
        if placement == "head" or node_id not in self.draining:
            return False
        name, _, value = placement.partition("=")
        return any(
            placement == "any" or self.labels.get(each, {}).get(name) == value for each in self.staying
        )


class PendingProcesses:
    """The processes that a graph needs and that are not there yet.

    Those for which there is no room beside the old ones are started when the old ones have ended.

    Args:
        missing: What each of them asks for, by key.
        released: By Ray's names, what the processes give back that the graph does not need any more.
        create: Starts one.
        ready: Hears how it ended.
        started_ms: Now.
        place_timeout_ms: How long Ray may look for places.
    """

    def __init__(
        self,
        missing: Mapping[str, ProcessResources],
        released: Mapping[str, float],
        create: Callable[[str, ProcessResources], TaskProcess],
        ready: Callable[[str], None],
        started_ms: int,
        place_timeout_ms: int,
    ) -> None:
        self.processes: dict[str, TaskProcess] = {}
        self._waiting = dict(missing)
        self._released = released
        self._create = create
        self._ready: Callable[[str], None] | None = ready
        self._started_ms = started_ms
        self._place_timeout_ms = place_timeout_ms

    def advance(self, free: Mapping[str, float], now_ms: int) -> None:
        """Start what fits, and say so when all that fits is there.

        Args:
            free: What the cluster has left, by Ray's names.
        """
        if self._ready is None:
            return
        self._create_what_fits(free)
        waited_ms = now_ms - self._started_ms
        starting = [process for process in self.processes.values() if not process.pid]
        short = self._shortage(free)
        if short and waited_ms >= SHORTAGE_MS:
            self._end(short)
        elif starting and waited_ms >= self._place_timeout_ms:
            self._end(
                f"{len(starting)} of its task processes found no place within {self._place_timeout_ms} ms "
                f"(slot.request.timeout), though the cluster has enough in all: no node has enough left for "
                f"one of them"
            )
        elif not starting and not short:
            self._end("")

    def lost(self, process: TaskProcess, cause: str) -> None:
        """One of the processes died."""
        if self.processes.get(process.key) is process:
            self._end(f"a process for its subtasks ended: {cause}")

    def _end(self, problem: str) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            ready(problem)

    def _create_what_fits(self, free: Mapping[str, float]) -> None:
        left = dict(free)
        for process in self.processes.values():
            if not process.pid:
                _take(left, process.resources)
        for key, wanted in list(self._waiting.items()):
            if all(amount <= left.get(name, 0.0) + 1e-6 for name, amount in wanted.by_ray_name().items()):
                _take(left, wanted)
                self.processes[key] = self._create(key, wanted)
                del self._waiting[key]

    def _shortage(self, free: Mapping[str, float]) -> str:
        """What the cluster lacks even when the old processes have ended."""
        for name, wanted in total(self._waiting).items():
            there = free.get(name, 0.0) + self._released.get(name, 0.0)
            if wanted > there + 1e-6:
                what = RAY_NAMES.get(name, name)
                return (
                    f"{len(self._waiting)} more task processes ask for {wanted:g} {what}, but the cluster "
                    f"has only {there:g} left. End what holds the others, ask for less, or add nodes"
                )
        return ""


def _take(left: dict[str, float], resources: ProcessResources) -> None:
    for name, amount in resources.by_ray_name().items():
        left[name] = left.get(name, 0.0) - amount
