"""What a coordinator holds of its job in checkpoint storage: its checkpoints, while it owns the job."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.checkpoints.manifest import CheckpointManifest
from ..protocol.checkpoints.trigger import NEVER_MS
from ..state.storage.checkpoint_storage import CheckpointStorage
from .checkpoints.checkpoint_store import CheckpointStore
from .checkpoints.job_cleanup import JobCleanup
from .checkpoints.job_storage import claim_epoch, new_store
from .checkpoints.ownership import RETRY_MS, Ownership
from .spec import JobSpec


class JobOwnership:
    """Whether one coordinator still owns its job, and the checkpoints that it owns with it.

    Args:
        spec: The job.
        root: Root of all checkpoints instead of the one in the settings.
        now_ms: The clock.
        superseded: Called with the cause when another coordinator owns the job.
        is_current: Whether the shell counts this process as the job's coordinator, `None` if not known.
        warn: Takes why something could not be removed.
        before_clean_up: Called when the job has ended, with whether its checkpoints stay, before they go.
    """

    def __init__(
        self,
        spec: JobSpec,
        root: CheckpointStorage | None,
        now_ms: Callable[[], int],
        superseded: Callable[[str], None],
        is_current: Callable[[], bool | None],
        warn: Callable[[str], None],
        before_clean_up: Callable[[bool], None],
    ) -> None:
        self._spec = spec
        self._root = root
        self._now_ms = now_ms
        self._superseded = superseded
        self._is_current = is_current
        self._before_clean_up = before_clean_up
        self._cleaning = JobCleanup(warn, self._before_removal)
        self._claim: Ownership | None = None
        self._stopped_with = ""
        self._end_at_ms = NEVER_MS
        self.store: CheckpointStore | None = None
        """The job's completed checkpoints once they are claimed, `None` without checkpointing."""
        self.is_fenced = False
        """Whether the job ends here because another coordinator runs it."""

    def claim(self) -> int:
        """Become the owner of the job: coordinators before this one are superseded.

        Returns:
            The number of coordinators that owned the job before.

        Raises:
            CheckpointStorageError: Storage refuses.
        """
        store = new_store(self._spec, self._root)
        if store is None:
            return 0
        predecessors = claim_epoch(self._spec, store) - 1
        self._claim = Ownership(
            # Without retries: it is asked again anyway, and waiting would look like a silence.
            lambda: store.check_fence(retries=False),
            self._spec.settings.lease_ms,
            self._now_ms,
            self._superseded,
            self._is_current,
        )
        self.store = store
        return predecessors

    def may_act(self, is_final: bool = False) -> bool:
        """Whether this coordinator still owns the job; as `JobCoordinator.may_act`."""
        if self._claim is None or self.store is None:
            return True
        if self.store.fenced:
            self._claim.lose(self.store.fenced)
        return self._claim.confirm(is_final)

    def may_end(self) -> bool:
        """Whether the job may end now; if it is not known who owns the job, this is tried again later."""
        may_end = self.is_fenced or self.may_act(is_final=True)
        self._end_at_ms = NEVER_MS if may_end else self._now_ms() + RETRY_MS
        return may_end

    def next_due_ms(self) -> int:
        """When `may_end` should be asked again."""
        return self._end_at_ms

    @property
    def is_superseded(self) -> bool:
        """Whether another coordinator owns the job: this one changes nothing that they share."""
        return self.is_fenced or (self.store is not None and bool(self.store.fenced))

    @property
    def newest(self) -> CheckpointManifest | None:
        """The newest completed checkpoint, if any."""
        return None if self.store is None else self.store.newest

    @property
    def stopped_with(self) -> str:
        """The savepoint that the job was stopped with, if any; also when its checkpoints are gone."""
        return self._stopped_with if self.newest is None else self.newest.savepoint_path

    # ------------------------------------------------------------ the end of the job

    def clean_up(self, keep_checkpoints: bool) -> None:
        """The job has ended: remove its checkpoints, or those that are no longer needed."""
        if self.store is not None:
            self._cleaning.end(self.store, keep_checkpoints and self._spec.settings.takes_checkpoints)

    def finish_clean_up(self, keep_checkpoints: bool) -> None:
        """The job was claimed, but it has ended: remove what a predecessor that died was to remove."""
        if self.store is not None:
            self._cleaning.finish(self._spec, self.store, keep_checkpoints)

    def sweep(self) -> None:
        """No process of the ended job runs any more: remove what a task stored when the job had ended."""
        if self.store is not None and not self.is_superseded:
            self._cleaning.sweep(self.store)

    def _before_removal(self, keep_checkpoints: bool) -> None:
        self._stopped_with = self.stopped_with
        self._before_clean_up(keep_checkpoints)
