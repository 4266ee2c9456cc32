"""How a job ended, kept in checkpoint storage until its driver knows.

When a job has ended, its checkpoints are removed. A coordinator that is killed after that and restarted by
Ray finds none, and would run the whole job again. The record is next to the job's directory, as
`ended/<job id>.<epoch of the coordinator that wrote it>`.

Each coordinator writes and removes its own record only. The one that takes an end over writes a copy under
its own number, so a predecessor that wakes up can neither remove nor change what its successor needs. A
record counts unless a later coordinator has started to run the job (`accepted/<n>`): then its writer was
superseded before it could detect it (ADR 054).
"""

from __future__ import annotations

import re

from ...protocol.checkpoints.checkpoint_paths import numbers
from ...protocol.task_events import ResultsCollected
from ...state.storage.checkpoint_storage import CheckpointStorage, open_storage
from ..ended_job import decode_end, encode_end
from ..monitoring.job_report import JobReport
from ..spec import JobSpec
from .checkpoint_store import FencedError

_DIRECTORY = "ended"


class StoredEnd:
    """The record of one job's end. Without checkpoints nothing is kept: nothing could be resumed."""

    def __init__(self, spec: JobSpec) -> None:
        root = spec.settings.checkpoint_root
        self._storage = None if root is None else open_storage(root)
        self._job_id = spec.job_id
        self._prefix = f"{_DIRECTORY}/{spec.job_id}"
        self._own: str | None = None

    @property
    def is_written(self) -> bool:
        """Whether this coordinator has a record in storage."""
        return self._own is not None

    def write(self, report: JobReport, waiting: list[ResultsCollected], epoch: int) -> None:
        """Keep the report and the collected results that the driver has not confirmed.

        Args:
            epoch: Of the coordinator that ended the job.
        """
        if self._storage is not None:
            path = f"{self._prefix}.{epoch}"
            self._storage.write_file(path, encode_end(self._job_id, report, waiting))
            self._own = path

    def take_over(self, epoch: int) -> tuple[JobReport, list[ResultsCollected]] | None:
        """What was kept, if the job had ended; from now on this coordinator answers for it.

        Args:
            epoch: Of this coordinator, which has claimed the job.

        Raises:
            CorruptCheckpointError: The record is damaged.
        """
        if self._storage is None:
            return None
        found = [path for path in self._records() if not self._is_void(path, self._storage)]
        if not found:
            return None
        data = self._storage.read(found[-1])
        stored = decode_end(data, f"{self._storage.uri.rstrip('/')}/{found[-1]}", self._job_id)
        # Epochs begin at 1 again where everything else of the job is removed.
        number = max(_number(found[-1]) + 1, epoch)
        while not self._storage.create_exclusive(f"{self._prefix}.{number}", data):
            number += 1
        self._own = f"{self._prefix}.{number}"
        return stored

    def check(self) -> None:
        """Raise `FencedError` unless the newest record is that of this coordinator."""
        records = self._records()
        if self._own is not None and (not records or records[-1] != self._own):
            raise FencedError(f"{self._own} is not the newest record of the end of job {self._job_id}")

    def remove(self) -> None:
        """The end is known: keep nothing of this coordinator and of those before it."""
        if self._storage is not None and self._own is not None:
            number = _number(self._own)
            self._storage.delete([path for path in self._records() if _number(path) <= number])
        self._own = None

    def _records(self) -> list[str]:
        """All records of the job, the newest last. One without a number is of a release up to 0.1."""
        if self._storage is None:
            return []
        found = self._storage.list_files(_DIRECTORY)
        name = re.compile(rf"{re.escape(self._prefix)}(\.[1-9][0-9]{{0,17}})?")
        return sorted((path for path in found if name.fullmatch(path)), key=_number)

    def _is_void(self, path: str, storage: CheckpointStorage) -> bool:
        if path == self._prefix:
            return False
        accepted = storage.sub(self._job_id).list_files("accepted")
        return any(epoch > _number(path) for epoch in numbers(accepted))


def _number(path: str) -> int:
    number = path.rpartition("/")[2].rpartition(".")[2]
    return int(number) if "." in path.rpartition("/")[2] else 0
