"""Lets a job follow its cluster or its load, and leave nodes that are about to go: when to ask for a rescale.

The decisions are made by pure policies (`reactive` and `autoscaler` in `protocol.scheduling`); here they are
fed, and what they say is asked of the coordinator like any other rescale.
"""

from __future__ import annotations

from typing import Protocol

from ..common.job_status import JobStatus
from ..protocol.elements import MAX_WATERMARK_MS
from ..protocol.ids import SubtaskId
from ..protocol.scheduling.autoscaler import AutoscalerPolicy, AutoscalerSettings, GroupLoad, SubtaskLoad
from ..protocol.scheduling.plan import JobGraph, Task
from ..protocol.scheduling.reactive import ReactivePolicy, ReactiveSettings
from ..protocol.scheduling.rescaling import (
    ALL_OPERATORS,
    OperatorGroup,
    highest_parallelism,
    operator_groups,
    rescaled,
)
from .control.job_requests import JobRequests
from .job_coordinator import JobCoordinator

ASK_AGAIN_MS = 10_000
"""Pause after a rescale that was refused or failed."""

_EVALUATIONS_PER_WINDOW = 20
_REFIT_MS = 3_000
"""A job that waits for places in a cluster that has become too small does so for this long."""


class ClusterRoom(Protocol):
    """What a shell knows of the cluster."""

    def slots(self, graph: JobGraph) -> int | None:
        """For how many slots of a job there is room on nodes that stay, `None` where that is not known."""

    def leaving(self) -> list[str]:
        """Names of what runs on nodes that are about to go."""


class Elasticity:
    """Of one job. Its `tick` belongs to the coordinator's thread.

    Args:
        coordinator: The job.
        room: The cluster.
        reactive: How the job follows the cluster, `None` if it does not.
        autoscaler: What its autoscaler aims at, `None` for none.
        metrics_interval_ms: How often there are new metrics.
    """

    def __init__(
        self,
        coordinator: JobCoordinator,
        room: ClusterRoom,
        reactive: ReactiveSettings | None,
        autoscaler: AutoscalerSettings | None,
        metrics_interval_ms: int,
    ) -> None:
        self._coordinator = coordinator
        self._requests = JobRequests(coordinator)
        self._room = room
        self._reactive = None if reactive is None else ReactivePolicy(reactive)
        self._autoscaler = None if autoscaler is None else AutoscalerPolicy(autoscaler)
        window_ms = 0 if autoscaler is None else autoscaler.window_ms
        self._interval_ms = max(metrics_interval_ms, window_ms // _EVALUATIONS_PER_WINDOW)
        self._evaluate_at_ms = 0
        self._ask_at_ms = 0
        self._too_small_since_ms: int | None = None
        if reactive is not None:
            coordinator.rescaler.fit = self.fitted

    def fitted(self, graph: JobGraph) -> JobGraph:
        """The job as it fits into the cluster now: in reactive mode every attempt begins so."""
        slots = self._room.slots(graph)
        if slots is None:
            return graph
        return rescaled(graph, {ALL_OPERATORS: max(1, min(slots, highest_parallelism(graph)))})

    def tick(self) -> None:
        """Look at the cluster and at the load, and ask for what they call for."""
        now_ms = self._coordinator.now_ms
        if self._coordinator.status is not JobStatus.RUNNING:
            self._refit(now_ms)
            return
        self._too_small_since_ms = None
        if self._coordinator.rescaling is not None or now_ms < self._ask_at_ms:
            return
        if not self._follow_cluster(now_ms):
            self._leave_nodes(now_ms)
            self._follow_load(now_ms)

    # ------------------------------------------------------------ the cluster

    def _refit(self, now_ms: int) -> None:
        """An attempt waits for places that a smaller cluster does not have any more."""
        graph = self._coordinator.graph
        slots = None if self._reactive is None else self._room.slots(graph)
        if slots is None or not 0 < slots < _width(graph) or not self._coordinator.is_starting:
            self._too_small_since_ms = None
            return
        if self._too_small_since_ms is None:
            self._too_small_since_ms = now_ms
        elif now_ms - self._too_small_since_ms >= _REFIT_MS:
            self._too_small_since_ms = None
            self._coordinator.restart(f"the cluster has room for {slots} slots only")

    def _follow_cluster(self, now_ms: int) -> bool:
        graph = self._coordinator.graph
        slots = None if self._reactive is None else self._room.slots(graph)
        if self._reactive is None or slots is None:
            return False
        slots = min(slots, highest_parallelism(graph))
        number = self._reactive.decide(now_ms, slots, _width(graph), self._coordinator.rescaler.ended_ms)
        if number is None:
            return False
        self._ask(now_ms, {ALL_OPERATORS: number}, "reactive")
        return True

    def _leave_nodes(self, now_ms: int) -> None:
        leaving = self._room.leaving()
        if leaving:
            self._after(now_ms, self._requests.relocate("drained node"), f"{', '.join(leaving)} has to move")

    # ------------------------------------------------------------ the load

    def _follow_load(self, now_ms: int) -> None:
        since_ms = self._coordinator.running_since_ms
        if self._autoscaler is None or since_ms is None or now_ms < self._evaluate_at_ms:
            return
        self._evaluate_at_ms = now_ms + self._interval_ms
        groups = operator_groups(self._coordinator.graph)
        loads = [self._load(now_ms, group) for group in groups]
        changes = self._autoscaler.decide(now_ms, since_ms, loads)
        if changes:
            self._ask(now_ms, changes, "autoscaler")

    def _load(self, now_ms: int, group: OperatorGroup) -> GroupLoad:
        subtasks, watermarks = [], []
        for task in group.tasks:
            subtasks.append(tuple(self._subtask_loads(task)))
            watermarks += self._watermarks(task)
        return GroupLoad(
            key=group.uids[0],
            uids=group.uids,
            inputs=group.inputs,
            parallelism=group.tasks[0].parallelism,
            highest=group.highest_parallelism,
            is_fixed=group.stays_single,
            subtasks=tuple(subtasks),
            lag_ms=now_ms - min(watermarks) if watermarks else None,
        )

    def _subtask_loads(self, task: Task) -> list[SubtaskLoad]:
        samples = (self._coordinator.metrics.of(SubtaskId(task.task_id, i)) for i in range(task.parallelism))
        return [
            SubtaskLoad(rates.busy_ms / 1_000, rates.backpressured_ms / 1_000)
            for rates in (sample.rates for sample in samples if sample.taken_ms)
            if rates.busy_ms + rates.backpressured_ms + rates.idle_ms > 0
        ]

    def _watermarks(self, task: Task) -> list[int]:
        samples = (self._coordinator.metrics.of(SubtaskId(task.task_id, i)) for i in range(task.parallelism))
        found = (sample.metrics.watermark_ms for sample in samples)
        return [each for each in found if each is not None and 0 < each < MAX_WATERMARK_MS]

    # ------------------------------------------------------------ asking

    def _ask(self, now_ms: int, parallelism: dict[str, int], cause: str) -> None:
        wanted = ", ".join(f"{name}: {number}" for name, number in parallelism.items())
        self._after(now_ms, self._requests.rescale(parallelism, cause), f"{cause} to {wanted}")

    def _after(self, now_ms: int, problem: str, what: str) -> None:
        self._ask_at_ms = now_ms + ASK_AGAIN_MS
        if problem:
            self._coordinator.observer.warned(f"no rescale ({what}): {problem}")


def _width(graph: JobGraph) -> int:
    """How many slots the job has now, by what may change."""
    groups = [group for group in operator_groups(graph) if not group.stays_single]
    return max((group.tasks[0].parallelism for group in groups), default=1)
