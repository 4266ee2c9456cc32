"""Deletes what the checkpoint store has classified, beside the coordinator's loop."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...common.errors import CheckpointStorageError
from ..ports import CoordinatorPorts
from .checkpoint_store import CheckpointStore
from .deletion_delay import DeletionTimes, deletion_delay


class CheckpointCleaner:
    """Runs one deletion at a time. What becomes garbage meanwhile stays classified in the store, so that
    a storage that deletes slowly costs a path per file and no queue of work.

    Args:
        warn: Takes what went wrong; it will be tried again.
        cleaned: Called on the coordinator's loop when a deletion has ended, well or not, or was not needed.
    """

    def __init__(
        self,
        store: CheckpointStore,
        ports: CoordinatorPorts,
        warn: Callable[[str], None],
        cleaned: Callable[[], None],
    ) -> None:
        self._store = store
        self._ports = ports
        self._warn = warn
        self._cleaned = cleaned
        self._is_deleting = False
        self._deleting_count = 0
        self._times = DeletionTimes(0)

    @property
    def is_deleting(self) -> bool:
        """Whether a deletion is under way; `cleaned` will be called."""
        return self._is_deleting

    @property
    def waiting_count(self) -> int:
        """Checkpoints that are not needed any more and not deleted yet (Flink's `CheckpointsCleaner`).

        Those do not count whose deletion failed: they are tried again, and nobody has to wait for that.
        """
        return self._store.excess_count + self._deleting_count

    def warning(self, bound: int) -> str:
        """A warning that more than `bound` checkpoints wait, with the cause if a deletion is under way."""
        waiting = f"{self.waiting_count} old checkpoints wait to be deleted; no checkpoint is triggered while"
        waiting = f"{waiting} more than {bound} do"
        if not self._is_deleting:
            return waiting
        load_per_cpu = os.getloadavg()[0] / (os.cpu_count() or 1)
        return f"{waiting}. {deletion_delay(self._times, self._ports.now_ns(), load_per_cpu)}"

    def collect(self) -> None:
        """Delete what is garbage now, unless a deletion is still under way."""
        if self._is_deleting:
            return
        garbage = self._store.take_garbage()
        if garbage is None:
            # What was counted may be in use again. Later, since a decision may be under way now.
            self._ports.post(self._cleaned)
            return

        times = DeletionTimes(self._ports.now_ns())

        def delete() -> None:
            times.begun_ns = self._ports.now_ns()
            try:
                self._store.delete(garbage)
            except CheckpointStorageError as error:
                self._warn(f"old checkpoints could not be removed: {error}")
            finally:
                times.ended_ns = self._ports.now_ns()
                self._ports.post(self._deleted)

        self._is_deleting, self._deleting_count, self._times = True, garbage.checkpoint_count, times
        self._ports.run_in_background(delete)

    def _deleted(self) -> None:
        self._is_deleting, self._deleting_count = False, 0
        if self._store.excess_count:
            self.collect()
        self._cleaned()
