"""Performs the steps of a takeover in checkpoint storage; `protocol/job_takeover.py` decides their order."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.checkpoints.checkpoint_paths import manifest_path
from ..protocol.ids import CheckpointId
from ..protocol.job_takeover import JobTakeover, TakeoverStep
from ..state.storage.checkpoint_storage import CheckpointStorage
from .checkpoints.takeover_records import TakeoverRecords


class TakeoverExecution:
    """One takeover of a job.

    Args:
        storage: The job's directory.
        records: What the coordinators of the job recorded.
        epoch: The number of this coordinator, which it has claimed.
        find_first_id: Finds an id above all that were given.
        read: Called for each checkpoint that counts, before they are recorded.
        check_fence: Raises `FencedError` if a newer coordinator claimed the job.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        records: TakeoverRecords,
        epoch: int,
        find_first_id: Callable[[], int],
        read: Callable[[CheckpointId], None],
        check_fence: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._takeover = JobTakeover(epoch)
        self._steps: dict[TakeoverStep, Callable[[], None]] = {
            TakeoverStep.FIND_FIRST_ID: lambda: self._takeover.found_first_id(find_first_id()),
            TakeoverStep.READ_COMPLETIONS: lambda: self._takeover.read_completions(records.completed()),
            TakeoverStep.READ_TAKEOVERS: lambda: self._takeover.read_takeovers(records.all()),
            TakeoverStep.LIST_FILES: lambda: self._takeover.listed(storage.list_files("")),
            TakeoverStep.READ_TAKEOVERS_AGAIN: lambda: self._takeover.read_takeovers(records.all()),
            TakeoverStep.READ_MANIFESTS: lambda: self._read_manifests(read),
            TakeoverStep.RECORD: lambda: self._takeover.recorded(records.record(self._takeover.record)),
            TakeoverStep.CHECK_FENCE: lambda: self._checked(check_fence),
            TakeoverStep.DELETE_LATE: self._delete_late,
            TakeoverStep.VERIFY_LOSS: lambda: self._checked(check_fence),
        }

    def perform(self) -> JobTakeover:
        """Take the job over.

        Returns:
            The takeover in its last step.

        Raises:
            CheckpointStorageError: Storage refuses, a record is damaged, or a newer coordinator took over.
        """
        while self._takeover.state in self._steps:
            self._steps[self._takeover.state]()
        return self._takeover

    def _read_manifests(self, read: Callable[[CheckpointId], None]) -> None:
        for checkpoint_id in self._takeover.accepted:
            read(checkpoint_id)
        self._takeover.done()

    def _checked(self, check_fence: Callable[[], None]) -> None:
        check_fence()
        self._takeover.done()

    def _delete_late(self) -> None:
        self._storage.delete([manifest_path(late) for late in self._takeover.late])
        self._takeover.done()
