"""Bugs of savepoints, of stops, and of starting from either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore, Garbage
from tidegate.operators.chain import OperatorChain
from tidegate.protocol.checkpoints import checkpoint_table
from tidegate.protocol.checkpoints.checkpoint_table import Action
from tidegate.protocol.checkpoints.pending_checkpoint import CheckpointStep
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.task_life import TaskLife, TaskPhase
from tidegate.state.snapshots.savepoint_writer import SavepointWriter

from .base import Mutant


def _savepoint_commits(original: Any) -> Any:
    written = (CheckpointStep.WRITTEN, SnapshotKind.SAVEPOINT)
    return {**original, written: (Action.NOTIFY_COMPLETE, *original[written])}


def _checkpoint_goes_with_savepoint(original: Any) -> Any:
    def release(self: CheckpointStore, checkpoint_id: Any) -> None:
        original(self, checkpoint_id)
        newest = self.newest
        if newest is not None:
            del self._retained[newest.checkpoint_id]
            self._storage.delete([f"chk-{newest.checkpoint_id}/MANIFEST"])
            self._registry.release_checkpoint(newest.checkpoint_id)

    return release


def _savepoint_refers_to_checkpoint(original: Any) -> Any:
    return lambda self, snapshot, *where: snapshot


def _stop_goes_on(original: Any) -> Any:
    def taken(self: TaskLife, kind: SnapshotKind, checkpoint_id: Any) -> None:
        original(self, kind, checkpoint_id)
        if self.state is TaskPhase.STOPPING:
            self.state = TaskPhase.RUNNING

    return taken


def _stop_hears_of_next_checkpoint_too_late(original: Any) -> Any:
    return lambda self, checkpoint_id: False


def _restored_files_are_its_own(original: Any) -> Any:
    return lambda self, restored, is_owned: original(self, restored, True)


def _claimed_goes_at_once(original: Any) -> Any:
    def take(self: CheckpointStore) -> Any:
        garbage = original(self) or Garbage((), ())
        return replace(garbage, claimed=self._claimed)

    return take


MUTANTS = {
    "savepoint-commits": Mutant(
        "sinks commit what a savepoint holds",
        checkpoint_table,
        "CHECKPOINT_ACTIONS",
        _savepoint_commits,
    ),
    "savepoint-subsumes": Mutant(
        "a savepoint takes the place of the newest checkpoint",
        CheckpointStore,
        "release",
        _checkpoint_goes_with_savepoint,
    ),
    "savepoint-refers": Mutant(
        "a savepoint refers to files of a checkpoint",
        SavepointWriter,
        "write",
        _savepoint_refers_to_checkpoint,
    ),
    "stop-goes-on": Mutant(
        "tasks go on behind the barrier of a stop", TaskLife, "snapshot_taken", _stop_goes_on
    ),
    "stop-forever": Mutant(
        "a task stays stopped when the stop is given up",
        TaskLife,
        "job_continues",
        _stop_hears_of_next_checkpoint_too_late,
    ),
    "foreign-files": Mutant(
        "checkpoints refer to the files of the one that the job was started from",
        OperatorChain,
        "restore",
        _restored_files_are_its_own,
    ),
    "claimed-too-early": Mutant(
        "what a job has claimed goes before it has a checkpoint of its own",
        CheckpointStore,
        "take_garbage",
        _claimed_goes_at_once,
    ),
}
