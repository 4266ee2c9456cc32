"""What the coordinators of a job recorded about its checkpoints, in the job's directory.

    accepted/<n>    the first id of the n-th coordinator, and which earlier checkpoints count (ADR 009)
    completed/<n>   the newest checkpoint that the n-th coordinator completed, replaced each time (ADR 059)

Both are the second place that says which checkpoint must be there: without them, a job whose newest manifest
is lost would silently resume from the one before.
"""

from __future__ import annotations

from ...common.errors import CorruptCheckpointError
from ...protocol.checkpoints.checkpoint_paths import numbers
from ...protocol.checkpoints.control_file import decode_control_file, encode_control_file, old_json
from ...protocol.checkpoints.json_fields import Fields
from ...protocol.checkpoints.takeover import Completion, Takeover
from ...protocol.ids import CheckpointId, JobId
from ...state.storage.checkpoint_storage import CheckpointStorage

_OLD_TAKEOVER = old_json("first_id", "checkpoints")
_REMEDY_ACCEPTED = (
    "Restore the file from a copy. Without one, start a new job from the newest checkpoint in this directory "
    "with execution.state-recovery.path"
)
_REMEDY_COMPLETED = (
    "It records the newest completed checkpoint. If you are certain that this is the newest directory "
    "chk-<id> here, delete the file"
)


def decode_takeover(data: bytes, path: str, job_id: JobId, epoch: int) -> Takeover:
    """The takeover in the content of `accepted/<epoch>`, which was read from `path`.

    Raises:
        CorruptCheckpointError: It is damaged.
    """
    file = decode_control_file(
        data, path, "accepted", _identity(job_id, epoch), _REMEDY_ACCEPTED, _OLD_TAKEOVER
    )
    fields = Fields(file.document, path, "")
    return Takeover(epoch, fields.integer("first_id"), frozenset(fields.integers("checkpoints")))


class TakeoverRecords:
    """The records of all coordinators of one job.

    Args:
        storage: The job's own directory.
        job_id: The job.
    """

    def __init__(self, storage: CheckpointStorage, job_id: JobId) -> None:
        self._storage = storage
        self._job_id = job_id
        self._read: dict[int, Takeover] = {}

    def epochs(self) -> list[int]:
        """The coordinators that left a record, of which the directory `epochs` may be damaged."""
        return numbers([*self._storage.list_files("accepted"), *self._storage.list_files("completed")])

    def all(self) -> list[Takeover]:
        """Every takeover so far.

        Raises:
            CorruptCheckpointError: One is damaged.
        """
        for epoch in numbers(self._storage.list_files("accepted")):
            if epoch not in self._read:
                self._read[epoch] = self._takeover(epoch)
        return list(self._read.values())

    def find(self, epoch: int) -> Takeover | None:
        """The takeover of one coordinator, if it is recorded.

        Raises:
            CorruptCheckpointError: It is damaged.
        """
        return self._takeover(epoch) if epoch in numbers(self._storage.list_files("accepted")) else None

    def record(self, takeover: Takeover) -> bool:
        """Record a takeover; false if its coordinator has recorded one already."""
        document = {"first_id": takeover.first_id, "checkpoints": sorted(takeover.checkpoints)}
        data = encode_control_file("accepted", _identity(self._job_id, takeover.epoch), document)
        return self._storage.create_exclusive(f"accepted/{takeover.epoch}", data)

    def _takeover(self, epoch: int) -> Takeover:
        path, data = self._data("accepted", epoch)
        return decode_takeover(data, path, self._job_id, epoch)

    def completed(self) -> list[Completion]:
        """The newest checkpoint that each coordinator completed.

        Raises:
            CorruptCheckpointError: A record is damaged.
        """
        return [self._completed(epoch) for epoch in numbers(self._storage.list_files("completed"))]

    def record_completed(self, completion: Completion) -> None:
        """Record the newest checkpoint that a coordinator completed, in place of the one before."""
        document = {"checkpoint_id": completion.checkpoint_id, "needs": sorted(completion.needs)}
        data = encode_control_file("completed", _identity(self._job_id, completion.epoch), document)
        self._storage.write_file(f"completed/{completion.epoch}", data)

    def forget_completed(self, epoch: int) -> None:
        """Remove the record of a coordinator that wrote it when the job had ended."""
        self._storage.delete([f"completed/{epoch}"])

    def _completed(self, epoch: int) -> Completion:
        path, data = self._data("completed", epoch)
        identity = _identity(self._job_id, epoch)
        file = decode_control_file(data, path, "completed", identity, _REMEDY_COMPLETED)
        fields = Fields(file.document, path, "")
        return Completion(
            epoch, CheckpointId(fields.integer("checkpoint_id")), frozenset(fields.texts("needs"))
        )

    def _data(self, directory: str, epoch: int) -> tuple[str, bytes]:
        path = f"{directory}/{epoch}"
        return f"{self._storage.uri.rstrip('/')}/{path}", self._storage.read(path)


def incomplete(path: str, job_id: JobId, newest_left: str) -> CorruptCheckpointError:
    """The error for a job whose directory lacks what was recorded.

    Args:
        path: Address of the missing file or directory.
        job_id: The job.
        newest_left: Address of the newest checkpoint that is there.
    """
    return CorruptCheckpointError(
        f"{path} is missing: job {job_id} recorded that it wrote it. The newest checkpoint that is left: "
        f"{newest_left}. The job does not go back to it by itself: sinks may have committed more than it "
        f"covers, and would commit that again. Restore the missing file from a copy. To accept repeated "
        f"output, start a new job from a checkpoint that is left with execution.state-recovery.path, or "
        f"without one"
    )


def _identity(job_id: JobId, epoch: int) -> dict[str, str | int]:
    return {"job_id": job_id, "number": epoch}
