"""The fail points that one job armed: where their marks lie, and what became of them."""

from __future__ import annotations

import os

from ..common import failpoints
from ..common.errors import CheckpointStorageError
from ..common.failpoints import MARKS, Arming, FailPointReport
from ..runtime.local_dirs import remove_if_empty
from ..state.storage.checkpoint_storage import CheckpointStorage, open_storage
from .spec import JobSpec


class JobFailPoints:
    """Arms the points of a job in the coordinator's process; tasks get them with their deployment.

    Args:
        storage: The job's directory in checkpoint storage. Without one, marks lie in the local directory,
            where only processes of the same node see them.
    """

    def __init__(self, spec: JobSpec, storage: CheckpointStorage | None) -> None:
        self.arming: Arming | None = None
        """What the tasks are to arm, `None` if nothing."""
        self._ended: tuple[FailPointReport, ...] | None = None
        self._local = os.path.join(spec.settings.local_dir, spec.job_id) if storage is None else None
        if spec.settings.fail_points:
            self._storage = storage or open_storage(self._local or "")
            self.arming = Arming(spec.job_id, spec.settings.fail_points, self._storage)
        failpoints.arm(self.arming)

    def reports(self) -> tuple[FailPointReport, ...]:
        """What became of each point until now."""
        if self.arming is None:
            return ()
        if self._ended is None:
            try:
                return failpoints.reports(self.arming)
            except CheckpointStorageError:
                # In the local shell another thread asks, and the job may end between list and read.
                if self._ended is None:
                    raise
        return self._ended

    def settle(self) -> None:
        """The job has ended: remember what became of the points, the marks are about to go."""
        self._ended = self.reports()

    def remove_marks(self) -> None:
        """Leave nothing behind, also not in the process of the local shell."""
        failpoints.arm(None)
        if self.arming is None:
            return
        self._storage.delete(self._storage.list_files(MARKS))
        if self._local is not None:
            remove_if_empty(os.path.join(self._local, MARKS))
