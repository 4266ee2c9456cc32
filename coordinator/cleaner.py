"""Deletes what the checkpoint store has classified, beside the coordinator's loop."""

from __future__ import annotations

from collections.abc import Callable

from ..common.errors import CheckpointStorageError
from .checkpoint_store import CheckpointStore


class CheckpointCleaner:
    """Runs one deletion at a time. What becomes garbage meanwhile stays classified in the store, so that
    a storage that deletes slowly costs a path per file and no queue of work.

    Args:
        run_in_background: Runs a callable at some time, off the coordinator's loop.
        warn: Takes what went wrong; it will be tried again.
    """

    def __init__(
        self,
        store: CheckpointStore,
        run_in_background: Callable[[Callable[[], None]], None],
        warn: Callable[[str], None],
    ) -> None:
        self._store = store
        self._run_in_background = run_in_background
        self._warn = warn
        self._is_deleting = False

    def collect(self) -> None:
        """Delete what is garbage now, unless a deletion is still under way."""
        if self._is_deleting:
            return
        garbage = self._store.take_garbage()
        if garbage is None:
            return

        def delete() -> None:
            try:
                self._store.delete(garbage)
            except CheckpointStorageError as error:
                self._warn(f"old checkpoints could not be removed: {error}")
            finally:
                self._is_deleting = False

        self._is_deleting = True
        self._run_in_background(delete)
