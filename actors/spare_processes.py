"""Task processes that are started, but run no task yet: each replaces one that dies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from ..coordinator.deployment.slots import ProcessResources
from .record_routes import Answered
from .task_processes import TaskProcess


class SpareProcesses:
    """The spare processes of one job.

    Args:
        wanted: How many processes to keep.
        create: Starts a process.
        warm_up: Lets a process import what tasks need, and passes its process id and node on.
    """

    def __init__(
        self,
        wanted: int,
        create: Callable[[], TaskProcess],
        warm_up: Callable[[TaskProcess, Answered], None],
    ) -> None:
        self._wanted = wanted
        self._create = create
        self._warm_up = warm_up
        self._processes: list[TaskProcess] = []

    def __iter__(self) -> Iterator[TaskProcess]:
        return iter(self._processes)

    def __contains__(self, process: object) -> bool:
        return process in self._processes

    def fill(self) -> None:
        """Start the processes that are missing."""
        while len(self._processes) < self._wanted:
            spare = self._create()
            self._processes.append(spare)
            self._warm_up(spare, _warmed_up(spare))

    def take(self, wanted: ProcessResources, avoided: Collection[str]) -> TaskProcess | None:
        """Remove and return a started process with these resources, if there is one.

        Args:
            wanted: What it must have.
            avoided: Ids of nodes on which it must not run.
        """
        for spare in self._processes:
            if spare.pid and spare.node_id not in avoided and wanted.fits_in(spare.resources):
                self._processes.remove(spare)
                return spare
        return None

    def take_from(self, node_ids: Collection[str]) -> list[TaskProcess]:
        """Remove and return the processes on these nodes."""
        taken = [each for each in self._processes if each.node_id in node_ids]
        self._processes = [each for each in self._processes if each not in taken]
        return taken

    def remove(self, process: TaskProcess) -> None:
        """A process has died."""
        self._processes.remove(process)

    def take_all(self) -> list[TaskProcess]:
        """Remove and return all processes."""
        taken, self._processes = self._processes, []
        return taken


def _warmed_up(spare: TaskProcess) -> Answered:
    def answered(place: Any, error: BaseException | None) -> None:
        # One that died has a broken watch.
        spare.pid, spare.node_id = place or (0, "")

    return answered
