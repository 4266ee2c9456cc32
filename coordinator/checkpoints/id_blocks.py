"""Blocks of checkpoint ids in checkpoint storage, so that no id is given by two coordinators (ADR 009)."""

from __future__ import annotations

from ...protocol.checkpoints.checkpoint_paths import numbers, stored_ids
from ...protocol.checkpoints.control_file import encode_control_file
from ...protocol.ids import JobId
from ...state.storage.checkpoint_storage import CheckpointStorage
from .takeover_records import TakeoverRecords

ID_BLOCK = 256


class IdBlocks:
    """The ids that one coordinator of a job gives.

    Args:
        storage: The job's own directory.
        job_id: The job.
        takeovers: What its coordinators recorded.
    """

    def __init__(self, storage: CheckpointStorage, job_id: JobId, takeovers: TakeoverRecords) -> None:
        self._storage = storage
        self._job_id = job_id
        self._takeovers = takeovers
        self._first_id = 0
        self._reserved_until = 0
        self.above = 0
        """All ids are above this one."""

    def first_free(self, epoch: int) -> int:
        """An id above every one that any coordinator of this job may have given."""
        while not self._first_id:
            given = [*numbers(self._storage.list_files("ids")), *stored_ids(self._storage.list_files(""))]
            # In case files of `ids` were lost: each coordinator took at least one block.
            completed = [completion.checkpoint_id for completion in self._takeovers.completed()]
            blocks = [takeover.first_id - 1 + ID_BLOCK for takeover in self._takeovers.all()]
            reserved = max(self.above, *given, *blocks, *completed, 0)
            if self._reserve_block(reserved + ID_BLOCK, epoch):
                self._first_id = reserved + 1
        return self._first_id

    def reserve(self, checkpoint_id: int, epoch: int) -> bool:
        """Make durable that ids up to at least this one are used; false if another coordinator gives them."""
        while self._reserved_until < checkpoint_id:
            if not self._reserve_block(self._reserved_until + ID_BLOCK, epoch):
                return False
        return True

    def _reserve_block(self, until: int, epoch: int) -> bool:
        path = f"ids/{until}"
        owner = encode_control_file("ids", {"job_id": self._job_id, "number": until}, {"epoch": epoch})
        # An attempt whose answer was lost may have succeeded.
        if not self._storage.create_exclusive(path, owner) and self._storage.read(path) != owner:
            return False
        self._reserved_until = until
        return True
