"""The driver of a simulated job that starts from the latest checkpoint of one that may still run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptCheckpointError
from ...coordinator.restore import latest_checkpoint
from ...coordinator.spec import JobSpec
from .plan import MILLISECOND
from .simulated_storage import ROOT

if TYPE_CHECKING:
    from .simulated_shell import SimulatedShell

_STEP_NS = 15 * MILLISECOND
"""A driver takes at most this long between two steps; Ray's takes seconds, in which a job does as much."""
_MOST_TRIES = 50


class SimulatedDriver:
    """Starts the next job from the latest checkpoint of the current one, which may go on running meanwhile.

    A driver that fails is started again, with another job id.

    Args:
        shell: Runs the jobs.
        directory: Where the latest checkpoint is looked for, below the root of storage.
        claims: Whether the next job owns what it is started from.
        may_be_new: Whether it starts from nothing if there is no checkpoint yet.
    """

    def __init__(self, shell: SimulatedShell, directory: str, claims: bool, may_be_new: bool) -> None:
        self._shell = shell
        prefix = latest_checkpoint.IF_ANY if may_be_new else latest_checkpoint.PREFIX
        self._path = f"{prefix}{ROOT}/{directory}".rstrip("/")
        self._claims = claims
        self._tries = 0
        self.looked_at: str | None = None
        """The latest checkpoint before the fence, if there was one."""
        self.is_over = False

    def begin(self) -> None:
        """Start the driver, or start it again."""
        self._tries += 1
        self._then(self._look)

    def _then(self, step: Callable[[], None]) -> None:
        self._shell.scheduler.soon(_STEP_NS, step)

    def _look(self) -> None:
        try:
            self.looked_at = latest_checkpoint.latest_now(self._path)
        except CheckpointStorageError as error:
            self._failed(error)
            return
        self._then(self._fence)

    def _fence(self) -> None:
        spec = self._shell.next_spec(self._path, self._claims)
        try:
            secured = self.secure(spec)
        except CheckpointStorageError as error:
            self._failed(error)
            return
        path = secured.settings.restore_path
        if path is not None:
            self._shell.storage.watcher.is_restored(path.removeprefix(f"{ROOT}/"), spec.job_id)
        self._then(lambda: self._start(secured))

    def secure(self, spec: JobSpec) -> JobSpec:
        """End the job that still runs, and find its latest checkpoint."""
        return latest_checkpoint.secure_restored(spec)

    def _start(self, spec: JobSpec) -> None:
        self.is_over = True
        self._shell.start_while_running(spec)

    def _failed(self, error: CheckpointStorageError) -> None:
        self._shell.scheduler.note(f"the driver fails: {error}")
        is_missing = isinstance(error, CheckpointNotFoundError)
        current = self._shell.current
        if isinstance(error, CorruptCheckpointError):
            # Only the current job may end, and remove its checkpoints, while the driver looks for them.
            assert f"job {current.spec.job_id} " in str(error), f"the driver finds damage: {error}"
        has_removed = f"job {current.spec.job_id} " in str(error) and "removed its own" in str(error)
        if current.end is not None and (is_missing or has_removed):
            # It has finished, and left nothing to start from.
            self.is_over = True
            return
        if not is_missing and "none was started from a checkpoint" in str(error):
            # One of the jobs was started from a savepoint, so its history is another one.
            self._path = f"{latest_checkpoint.PREFIX}{ROOT}/{self._shell.current.spec.job_id}"
        assert self._tries < _MOST_TRIES or is_missing, f"the driver fails again and again: {error}"
        self.begin()
