"""Bugs of changes of mode while a job runs, and of local copies."""

from __future__ import annotations

from typing import Any

from tidegate.coordinator.checkpoints import checkpoint_driver
from tidegate.coordinator.checkpoints.checkpoint_driver import CheckpointDriver
from tidegate.state.storage.local_snapshots import LocalSnapshots

from .base import Mutant


def _switch_at_once(original: Any) -> Any:
    def trigger(self: CheckpointDriver, command: Any) -> None:
        self._mode = self._wanted_mode
        original(self, command)

    return trigger


def _switch_forgotten(original: Any) -> Any:
    return lambda storage, job_id: None


def _unchecked(original: Any) -> Any:
    def open_copy(self: LocalSnapshots, handle: Any) -> Any:
        try:
            return open(self._path(handle.sha256), "rb")
        except OSError:
            return None

    return open_copy


MUTANTS = {
    "switch-under-way": Mutant(
        "the mode changes while another checkpoint is under way",
        CheckpointDriver,
        "_trigger",
        _switch_at_once,
    ),
    "switch-forgotten": Mutant(
        "a new coordinator does not know that the mode was changed",
        checkpoint_driver,
        "stored_mode",
        _switch_forgotten,
    ),
    "copy-unchecked": Mutant(
        "local copies are read without a look at their checksum", LocalSnapshots, "open", _unchecked
    ),
}
