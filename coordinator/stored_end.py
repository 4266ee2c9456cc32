"""How a job ended, kept in checkpoint storage until its driver knows.

Once a job is over its checkpoints go. A coordinator that is killed after that and restarted by Ray finds
none, and would run the whole job again. The record stands beside the job's directory, as `ended/<job id>`.
"""

from __future__ import annotations

import pickle

from ..protocol.task_events import ResultsCollected
from ..state.storage import CheckpointStorage, open_storage
from .job_report import JobReport
from .spec import JobSpec


class StoredEnd:
    """The record of one job's end. Without checkpoints nothing is kept: nothing could be resumed."""

    def __init__(self, spec: JobSpec) -> None:
        self._storage: CheckpointStorage | None = None
        if spec.settings.trigger is not None:
            assert spec.settings.checkpoint_dir is not None
            self._storage = open_storage(spec.settings.checkpoint_dir)
        self._path = f"ended/{spec.job_id}"

    def write(self, report: JobReport, waiting: list[ResultsCollected]) -> None:
        """Keep the report and the collected results that the driver has not confirmed."""
        if self._storage is not None:
            self._storage.write_file(self._path, pickle.dumps((report, waiting)))

    def read(self) -> tuple[JobReport, list[ResultsCollected]] | None:
        """What was kept, if the job had ended."""
        if self._storage is None or self._path not in self._storage.list_files("ended"):
            return None
        stored: tuple[JobReport, list[ResultsCollected]] = pickle.loads(self._storage.read(self._path))
        return stored

    def remove(self) -> None:
        """The end is known: keep nothing."""
        if self._storage is not None:
            self._storage.delete([self._path])
