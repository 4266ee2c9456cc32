"""What can be requested of a running job: checkpoints, savepoints, another parallelism, keyed state."""

from __future__ import annotations

from collections.abc import Mapping

from ...common.job_status import JobStatus
from ...protocol.checkpoints.checkpoint import RequestId
from ...protocol.elements import SavepointFormatType, SavepointTarget, SnapshotKind
from ..barrier_mode import BarrierMode
from ..job_coordinator import JobCoordinator
from .control_requests import StateAnswer, StateQuery
from .state_queries import Answer


class JobRequests:
    """The requests to one job; used on the coordinator's thread.

    Args:
        coordinator: Of the job.
    """

    def __init__(self, coordinator: JobCoordinator) -> None:
        self._coordinator = coordinator

    def trigger_checkpoint(self) -> RequestId | None:
        """Request a checkpoint now; its answer will be among `statistics.requests`.

        Returns:
            The id of the request, `None` if checkpointing is off.
        """
        checkpoints = self._coordinator.checkpoints
        takes = self._coordinator.spec.settings.takes_checkpoints
        return checkpoints.request() if checkpoints is not None and takes else None

    def trigger_savepoint(
        self, kind: SnapshotKind, directory: str | None, format_type: SavepointFormatType
    ) -> RequestId | None:
        """Request a savepoint, and perhaps the end of the job with it; answered as a checkpoint is.

        Args:
            kind: `SAVEPOINT`, or `STOP` where the job stands, or `FINAL` after its sources have ended.
            directory: Where the savepoint makes its own; `None` for the default of the job.
            format_type: How keyed state is stored.

        Returns:
            The id of the request, `None` if checkpointing is off.
        """
        checkpoints = self._coordinator.checkpoints
        if checkpoints is None:
            return None
        if kind.ends_job:
            self._coordinator.rescaler.stops_job()
        default = self._coordinator.spec.settings.savepoint_dir
        return checkpoints.request(kind, SavepointTarget(directory or default or "", format_type))

    def rescale(self, parallelism: Mapping[str, int], cause: str = "requested") -> str:
        """Change the number of subtasks of operators while the job runs.

        The outcome will be among `statistics.rescales`, where it is not the parallelism it has already.

        Args:
            parallelism: As `protocol.scheduling.rescaling.rescaled` takes it.
            cause: Who asks.

        Returns:
            Why it cannot be, or an empty text.
        """
        status = self._coordinator.status
        if status is not JobStatus.RUNNING:
            return f"the job is {status.name}; only a running job can be rescaled"
        if self._coordinator.rescaler.fit is not None and cause == "requested":
            return "it follows the size of its cluster (scheduler-mode: reactive)"
        return self._coordinator.rescaler.begin(parallelism, cause)

    def relocate(self, cause: str) -> str:
        """Move the subtasks off nodes that will leave, as a rescale does; why not, or an empty text."""
        if self._coordinator.status is not JobStatus.RUNNING:
            return f"the job is {self._coordinator.status.name}"
        return self._coordinator.rescaler.begin({}, cause, is_move=True)

    def set_barrier_mode(self, mode: BarrierMode) -> str:
        """Handle barriers in another way from the next checkpoint on; why not, or an empty text."""
        checkpoints = self._coordinator.checkpoints
        return "the job takes no checkpoints" if checkpoints is None else checkpoints.set_mode(mode)

    def query_state(self, query: StateQuery, answer: Answer) -> None:
        """Ask the running task that owns a key; `answer` is called once, perhaps much later."""
        status = self._coordinator.status
        if status is JobStatus.RUNNING:
            self._coordinator.current.ask(query, answer)
        else:
            answer(StateAnswer(b"", f"the job is {status.name}", status.is_terminal_state()))
