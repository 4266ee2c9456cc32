"""Bugs of a job that starts from a checkpoint of one that still runs (ADR 063)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.common.errors import CorruptCheckpointError
from tidegate.coordinator.checkpoints import checkpoint_store, job_storage
from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore, FencedError
from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.restore import latest_checkpoint
from tidegate.coordinator.restore.restore_fence import fence_checkpoint, restoring_job
from tidegate.testing.simulation.simulated_driver import SimulatedDriver

from .base import Mutant


def _no_fence(original: Any) -> Any:
    def claim(self: CheckpointStore, restoring: Any = None, ignores_damage: bool = False) -> int:
        if restoring is None:
            return original(self, restoring, ignores_damage)  # type: ignore[no-any-return]
        # As if the claim had gone to a place where no coordinator looks.
        self.epoch = original(self, restoring, ignores_damage)
        self.storage.delete([f"epochs/{self.epoch}"])
        return self.epoch

    return claim


def _commits_after_the_fence(original: Any) -> Any:
    def check_fence(self: CheckpointStore, retries: bool = True) -> None:
        try:
            original(self, retries)
        except FencedError as error:
            if "was started to continue this job" not in str(error):
                raise

    return check_fence


def _latest_before_the_fence(original: Any) -> Any:
    def secure(self: SimulatedDriver, spec: Any) -> Any:
        if self.looked_at is None:
            return original(self, spec)
        fence_checkpoint(self.looked_at, restoring_job(spec))
        return replace(spec, settings=replace(spec.settings, restore_path=self.looked_at))

    return secure


def _cleans_up_although_fenced(original: Any) -> Any:
    def clean_up(self: JobCoordinator, keep_checkpoints: bool) -> None:
        is_fenced = self.ownership.is_fenced
        original(self, keep_checkpoints)
        if is_fenced and self.store is not None:
            self.store.storage.delete(
                [path for path in self.store.storage.list_files("") if path.endswith("MANIFEST")]
            )

    return clean_up


def _runs_again(original: Any) -> Any:
    return lambda restorers: None


def _claim_stays_with_the_fenced_job(original: Any) -> Any:
    return lambda path, restoring, owner: False


def _removed_counts_as_lost(original: Any) -> Any:
    def fence_job(directory: str, restoring: Any, job_id: str = "") -> Any:
        job = original(directory, restoring, job_id)
        if job.damage:
            raise CorruptCheckpointError(job.damage)
        return job

    return fence_job


def _new_without_a_fence(original: Any) -> Any:
    def secure(self: SimulatedDriver, spec: Any) -> Any:
        if self.looked_at is not None:
            return original(self, spec)
        return replace(spec, settings=replace(spec.settings, restore_path=None))

    return secure


def _only_the_first_job_counts(original: Any) -> Any:
    def latest(directory: str, look: Any, seen: set[str]) -> Any:
        job = look(directory)
        return f"{directory}/chk-{max(job.checkpoints)}" if job.checkpoints else None

    return latest


MUTANTS = {
    "restored-unfenced": Mutant(
        "a job starts from a checkpoint, and the job that wrote it is not fenced",
        CheckpointStore,
        "claim",
        _no_fence,
    ),
    "restored-goes-on": Mutant(
        "a job from whose checkpoint another one was started commits what it completes after that",
        CheckpointStore,
        "check_fence",
        _commits_after_the_fence,
    ),
    "latest-before-fence": Mutant(
        "the latest checkpoint is looked up before the job that wrote it is fenced",
        SimulatedDriver,
        "secure",
        _latest_before_the_fence,
    ),
    "fenced-cleans-up": Mutant(
        "a job that was fenced by a restore removes its checkpoints when it ends",
        JobCoordinator,
        "_clean_up",
        _cleans_up_although_fenced,
    ),
    "restored-runs-again": Mutant(
        "a coordinator that Ray starts again runs a job from whose checkpoint another one was started",
        checkpoint_store,
        "check_not_restored",
        _runs_again,
    ),
    "new-unfenced": Mutant(
        "a job starts from nothing because there is no checkpoint yet, and no job before it is fenced",
        SimulatedDriver,
        "secure",
        _new_without_a_fence,
    ),
    "latest-of-first": Mutant(
        "the latest checkpoint is that of the first job of a history, not of the last",
        latest_checkpoint,
        "_latest",
        _only_the_first_job_counts,
    ),
    "claim-of-fenced": Mutant(
        "a checkpoint that a fenced job had claimed cannot be claimed by the job that fenced it",
        job_storage,
        "has_fenced",
        _claim_stays_with_the_fenced_job,
    ),
    "removed-is-lost": Mutant(
        "a checkpoint that a job of the history claimed and removed counts as lost",
        latest_checkpoint,
        "fence_job",
        _removed_counts_as_lost,
    ),
}
