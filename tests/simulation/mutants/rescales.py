"""Bugs in rescales of a running job."""

from __future__ import annotations

from typing import Any

from tidegate.coordinator import job_coordinator
from tidegate.coordinator.rescaler import Rescaler

from .base import Mutant


def _not_redistributed(original: Any) -> Any:
    """The state is shared out as the first attempt of the coordinator would have it."""
    first: dict[str, Any] = {}

    def task_deployments(job_id: Any, job: Any, graph: Any, start: Any, settings: Any) -> Any:
        if start.number == 0:
            first[job_id] = job
        return original(job_id, first[job_id], graph, start, settings)

    return task_deployments


def _forgotten(original: Any) -> Any:
    def write_down(self: Rescaler, current: Any) -> None:
        self._current = None
        self._record(current.record)

    return write_down


def _not_taken_back(original: Any) -> Any:
    def failed(self: Rescaler, cause: str) -> bool:
        graph = self.graph
        is_to_blame: bool = original(self, cause)
        self.graph = graph
        return is_to_blame

    return failed


MUTANTS = {
    "rescale-undistributed": Mutant(
        "after a rescale state is shared out among the subtasks there were before",
        job_coordinator,
        "task_deployments",
        _not_redistributed,
    ),
    "rescale-forgotten": Mutant(
        "a rescale counts as done, but the next coordinator does not know of it",
        Rescaler,
        "_write_down",
        _forgotten,
    ),
    "rescale-not-taken-back": Mutant(
        "a rescale whose tasks did not start has failed, but the job keeps it",
        Rescaler,
        "failed",
        _not_taken_back,
    ),
}
