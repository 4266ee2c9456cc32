"""The newest manifest of a simulated job is missing when its coordinator starts again (ADR 059)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....common.job_status import JobStatus
from ....coordinator.checkpoints.coordinator_epochs import Epochs
from ....protocol.checkpoints.checkpoint_paths import manifest_path, stored_ids
from ....protocol.ids import CheckpointId, JobId

if TYPE_CHECKING:
    from ..simulated_shell import SimulatedShell


class LostManifests:
    """Loses manifests of announced checkpoints, and checks that no coordinator resumes without them.

    Args:
        shell: Runs the job.
    """

    def __init__(self, shell: SimulatedShell) -> None:
        self._shell = shell
        self.announced: set[tuple[JobId, CheckpointId]] = set()
        """Job and id of each checkpoint of which a task was notified: sinks may have committed its output."""

    def refuses_to_resume(self) -> bool:
        """Perhaps start a coordinator without the newest manifest, and restore that when it has refused.

        Returns:
            Whether the job still waits for a coordinator: false if this one died, and another one is to come.
        """
        scheduler, storage = self._shell.scheduler, self._shell.storage
        path = self._newest()
        if (
            not path
            or not scheduler.chance(self._shell.plan.faults.lost_manifest)
            or self._shell.stalls.is_used
        ):
            return True
        scheduler.note(f"{path} is lost")
        content = storage.lose(path)
        life = self._shell.new_life()
        life.start()
        storage.restore(path, content)
        if not life.is_alive:
            return False
        failure = life.coordinator.failure
        assert life.status is JobStatus.FAILED, f"the job resumes although {path} is missing"
        assert failure is not None
        assert path in failure.cause, f"{path} is missing, but the job fails because {failure.cause}"
        assert not life.processes, "tasks are deployed although the job cannot be resumed"
        scheduler.note(f"{path} is restored")
        life.is_alive = False
        return True

    def _newest(self) -> str:
        """The newest manifest of the current job, if it was announced and the job can still be resumed."""
        storage, job_id = self._shell.storage, self._shell.current.spec.job_id
        if any(path.startswith(f"ended/{job_id}") for path in storage.retrying.list_files("ended")):
            return ""
        epochs = Epochs(storage.retrying.sub(job_id), job_id)
        if epochs.restorers(epochs.newest):
            # The driver of the next job has fenced it: it fails because of that.
            return ""
        stored = stored_ids(storage.retrying.sub(job_id).list_files(""))
        if not stored or (job_id, stored[-1]) not in self.announced:
            return ""
        return f"{job_id}/{manifest_path(stored[-1])}"
