"""Bugs in the coordinator: when a checkpoint is complete, who hears of it, and which ids it gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore
from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.operator_coordinators import OperatorCoordinators
from tidegate.protocol import job_takeover
from tidegate.protocol.checkpoints import checkpoint_table
from tidegate.protocol.checkpoints.checkpoint import CheckpointCoordinator, NotifyComplete
from tidegate.protocol.checkpoints.checkpoint_table import Action
from tidegate.protocol.checkpoints.pending_checkpoint import CheckpointState, CheckpointStep
from tidegate.protocol.checkpoints.registry import SharedStateRegistry
from tidegate.protocol.job_tasks import TasksPhase

from .base import Mutant


def _enumerators_asked_late(original: Any) -> Any:
    def state_of(self: OperatorCoordinators, checkpoint_id: Any, uid: str) -> Any:
        return self._hosts[uid].snapshot(checkpoint_id) if uid in self._hosts else None

    return state_of


def _one_acknowledgement_missing(original: Any) -> Any:
    def acknowledged(self: CheckpointCoordinator, event: Any, now_ms: int) -> Any:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None and len(pending.missing) == 2 and event.subtask in pending.missing:
            other = next(s for s in sorted(pending.missing) if s != event.subtask)
            pending.missing.discard(other)
            pending.acknowledgements[other] = event.acknowledgement
        return original(self, event, now_ms)

    return acknowledged


def _early_notification(original: Any) -> Any:
    def acknowledged(self: CheckpointCoordinator, event: Any, now_ms: int) -> Any:
        commands = original(self, event, now_ms)
        if len(commands) > 1:
            return commands
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or event.subtask not in pending.acknowledgements:
            return commands
        return [*commands, NotifyComplete(event.checkpoint_id, (event.subtask,))]

    return acknowledged


def _notification_before_manifest(original: Any) -> Any:
    last = (CheckpointStep.ALL_ACKNOWLEDGED, None)
    return {**original, last: (Action.REGISTER, Action.NOTIFY_COMPLETE, Action.WRITE)}


def _aborted_ones_complete(original: Any) -> Any:
    def declined(self: CheckpointCoordinator, event: Any, now_ms: int) -> Any:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or len(pending.acknowledgements) < 2:
            return original(self, event, now_ms)
        any_other = next(iter(pending.acknowledgements.values()))
        accepted = replace(any_other, snapshots={})
        state = pending.life.handle(pending.acknowledge(event.subtask, accepted))
        return [pending.write_manifest()] if state is CheckpointState.WRITING else []

    return declined


def _ids_of_stored_ones(original: Any) -> Any:
    def first_free_id(self: CheckpointStore) -> int:
        original(self)
        return max(self.stored_ids(), default=0) + 1

    return first_free_id


def _no_fence(original: Any) -> Any:
    return lambda self, **options: None


def _counts_one_less(original: Any) -> Any:
    def remove(self: SharedStateRegistry, paths: set[str]) -> None:
        shared = {path for path in paths if self._counts[path] == 2}
        original(self, paths)
        self._unreferenced |= shared

    return remove


def _files_go_with_their_checkpoint(original: Any) -> Any:
    def release(self: SharedStateRegistry, checkpoint_id: Any) -> None:
        files = set(self._files.get(checkpoint_id, ()))
        original(self, checkpoint_id)
        self._unreferenced |= files

    return release


def _oldest_is_restored(original: Any) -> Any:
    return property(lambda self: self._retained[min(self._retained)] if self._retained else None)


def _resume_from_what_is_left(original: Any) -> Any:
    return lambda stored, recorded, takeovers: None


def _record_first(original: Any) -> Any:
    def complete(self: CheckpointStore, manifest: Any) -> None:
        self._record_completed(manifest.checkpoint_id)
        original(self, manifest)

    return complete


def _never_recorded(original: Any) -> Any:
    return lambda self, checkpoint_id: None


def _counts_each_failure(original: Any) -> Any:
    def on_failed(self: JobCoordinator, event: Any) -> None:
        _stopping_is_deploying(self)
        original(self, event)

    return on_failed


def _takes_late_starts(original: Any) -> Any:
    def on_initialized(self: JobCoordinator, subtask: Any) -> None:
        _stopping_is_deploying(self)
        original(self, subtask)

    return on_initialized


def _stopping_is_deploying(job: JobCoordinator) -> None:
    """As if the job were only restarting, without a difference between its phases."""
    if job._tasks.state is TasksPhase.STOPPING:
        job._tasks.state = TasksPhase.DEPLOYING


MUTANTS = {
    "late-start": Mutant(
        "the start of a task counts although its attempt is being stopped",
        JobCoordinator,
        "_on_initialized",
        _takes_late_starts,
    ),
    "failure-counted-twice": Mutant(
        "each subtask of a process that died uses up a restart",
        JobCoordinator,
        "_on_failed",
        _counts_each_failure,
    ),
    "record-unread": Mutant(
        "a coordinator does not compare the manifests with the record of the newest completed checkpoint",
        job_takeover,
        "missing_newest",
        _resume_from_what_is_left,
    ),
    "record-before-manifest": Mutant(
        "a checkpoint is recorded as completed before its manifest is written",
        CheckpointStore,
        "complete",
        _record_first,
    ),
    "completion-unrecorded": Mutant(
        "a completed checkpoint is recorded nowhere but in its manifest",
        CheckpointStore,
        "_record_completed",
        _never_recorded,
    ),
    "manifest-before-acks": Mutant(
        "a checkpoint completes one acknowledgement early",
        CheckpointCoordinator,
        "_on_acknowledged",
        _one_acknowledgement_missing,
    ),
    "early-notification": Mutant(
        "a subtask is told of completion as soon as it has acknowledged",
        CheckpointCoordinator,
        "_on_acknowledged",
        _early_notification,
    ),
    "notify-before-manifest": Mutant(
        "all subtasks are told of completion before the manifest is written",
        checkpoint_table,
        "CHECKPOINT_ACTIONS",
        _notification_before_manifest,
    ),
    "decline-ignored": Mutant(
        "a subtask that declines counts as one without state",
        CheckpointCoordinator,
        "_on_declined",
        _aborted_ones_complete,
    ),
    "id-reused": Mutant(
        "a new coordinator gives ids after the newest stored checkpoint, not after the newest given id",
        CheckpointStore,
        "first_free_id",
        _ids_of_stored_ones,
    ),
    "late-enumerator": Mutant(
        "an enumerator is snapshotted when the manifest is written, not when the barriers are sent",
        OperatorCoordinators,
        "state_of",
        _enumerators_asked_late,
    ),
    "no-fence": Mutant(
        "a coordinator that was replaced goes on completing checkpoints",
        CheckpointStore,
        "check_fence",
        _no_fence,
    ),
    "doubt-forgotten": Mutant(
        "a restart does not ask whether a failed checkpoint exists after all",
        CheckpointStore,
        "resolve_uncertain",
        _no_fence,
    ),
    "older-restored": Mutant(
        "the oldest retained checkpoint is restored, not the newest",
        CheckpointStore,
        "newest",
        _oldest_is_restored,
    ),
    "registry-off-by-one": Mutant(
        "a file is deleted when one reference to it is left",
        SharedStateRegistry,
        "_remove",
        _counts_one_less,
    ),
    "shared-files-deleted": Mutant(
        "with a checkpoint all of its files go, shared or not",
        SharedStateRegistry,
        "release_checkpoint",
        _files_go_with_their_checkpoint,
    ),
}
