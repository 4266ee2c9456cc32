"""What goes from checkpoint storage once a job has ended."""

from __future__ import annotations

from collections.abc import Callable

from ...common.errors import TidegateError
from ..spec import JobSpec
from .checkpoint_store import CheckpointStore
from .job_storage import claimed_checkpoint


class JobCleanup:
    """Removes the checkpoints of a job that has ended, or what those that stay do not need.

    Storage that refuses is a warning: the job itself ended as it did.

    Args:
        warn: Takes why something could not be removed.
        before: Called with whether checkpoints stay, before any goes and when the newest is known.
    """

    def __init__(self, warn: Callable[[str], None], before: Callable[[bool], None]) -> None:
        self._warn = warn
        self._before = before
        self._keeps: bool | None = None

    def end(self, store: CheckpointStore, keep: bool) -> None:
        """The job has ended here."""
        self._keeps = keep

        def remove() -> None:
            store.check_fence()
            store.resolve_uncertain()
            self._before(keep)
            store.remove_orphans() if keep else store.remove_all()

        self._warned(remove)

    def finish(self, spec: JobSpec, store: CheckpointStore, keep: bool) -> None:
        """The job had ended, but a predecessor may have died before it removed what is to go.

        Args:
            store: Claimed already.
        """

        def remove() -> None:
            store.owns(claimed_checkpoint(spec))
            if keep:
                store.load()
                store.remove_orphans()
            else:
                store.remove_all()

        self._warned(remove)

    def sweep(self, store: CheckpointStore) -> None:
        """None of its processes runs any more: remove what a task stored when the job had ended."""
        keep = self._keeps
        if keep is not None:
            self._warned(lambda: store.sweep(keep))

    def _warned(self, remove: Callable[[], None]) -> None:
        try:
            remove()
        except TidegateError as error:
            self._warn(f"checkpoints could not be removed: {error}")
