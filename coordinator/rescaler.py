"""Changes the parallelism of a running job: make room, take a checkpoint, stop, start again from it.

Until the tasks are stopped nothing has happened to the job, and afterwards it goes back to the parallelism
it had if the new subtasks do not come to run: a rescale loses nothing, whatever becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..common import failpoints
from ..common.errors import CheckpointStorageError
from ..protocol.checkpoints.checkpoint_events import AnswerRequest
from ..protocol.checkpoints.trigger import NEVER_MS
from ..protocol.ids import CheckpointId
from ..protocol.rescale import RescaleEvent, RescaleLifeCycle, RescalePhase
from ..protocol.scheduling.execution_graph import build_execution_graph
from ..protocol.scheduling.plan import JobGraph
from ..protocol.scheduling.rescaling import RescaleError, parallelism_of, rescaled
from .checkpoints.checkpoint_driver import CheckpointDriver
from .checkpoints.checkpoint_store import CheckpointStore, FencedError
from .checkpoints.stored_parallelism import restored_parallelism, store_parallelism
from .monitoring.job_observer import JobObserver
from .monitoring.statistics import RescaleStatistics
from .ports import CoordinatorPorts

RESCALES_PER_EPOCH = 1_000_000
"""Numbers of rescales of one coordinator are below those of the next."""

_RETRY_MS = 1_000


@dataclass(slots=True)
class _Rescale:
    store: CheckpointStore
    checkpoints: CheckpointDriver
    old: JobGraph
    new: JobGraph
    record: RescaleStatistics
    life: RescaleLifeCycle = field(default_factory=RescaleLifeCycle)
    answer: AnswerRequest | None = None
    """How the requested checkpoint ended."""
    newest_before: CheckpointId | None = None
    store_at_ms: int = 0

    @property
    def phase(self) -> RescalePhase:
        return self.life.state


class Rescaler:
    """The rescales of one job, one at a time.

    Args:
        submitted: The job as the program has it.
        ports: The shell.
        observer: Learns how each rescale ended.
        restart: Stops the tasks, to deploy the job again from its newest checkpoint.
        lose_ownership: Called with the cause when another coordinator runs the job.
    """

    def __init__(
        self,
        submitted: JobGraph,
        ports: CoordinatorPorts,
        observer: JobObserver,
        restart: Callable[[], None],
        lose_ownership: Callable[[str], None],
    ) -> None:
        self._submitted = submitted
        self.graph = submitted
        """The job as it is to run."""
        self._ports = ports
        self._observer = observer
        self._restart = restart
        self._lose_ownership = lose_ownership
        self._checkpoints: CheckpointDriver | None = None
        self._store: CheckpointStore | None = None
        self._current: _Rescale | None = None
        self._count = 0
        self.fit: Callable[[JobGraph], JobGraph] | None = None
        """In reactive mode, what makes the job fit into its cluster whenever it is deployed."""
        self.ended_ms: int | None = None
        """When the tasks of the last rescale ran, or when it was requested if it failed; `None` before it."""

    def open(self, store: CheckpointStore, checkpoints: CheckpointDriver) -> None:
        """The job takes checkpoints, and was perhaps rescaled by coordinators before."""
        self._store, self._checkpoints = store, checkpoints
        self.graph = restored_parallelism(store, self._submitted)

    @property
    def in_progress(self) -> RescaleStatistics | None:
        """The rescale that is under way, if any."""
        return None if self._current is None else self._current.record

    @property
    def is_stopping(self) -> bool:
        """Whether the tasks are being stopped for a rescale."""
        return self._is_in(RescalePhase.STOPPING)

    def _is_in(self, phase: RescalePhase) -> bool:
        return self._current is not None and self._current.phase is phase

    @property
    def description(self) -> str:
        """What changes in the rescale that is under way, for people."""
        if self._current is None:
            return ""
        before, after = self._current.record.from_parallelism, self._current.record.to_parallelism
        changes = [f"{uid} from {before[uid]} to {after[uid]}" for uid in after if before[uid] != after[uid]]
        return f"rescale ({self._current.record.cause}): {', '.join(changes) or 'other processes'}"

    def next_due_ms(self) -> int:
        """When `advance` should be called next."""
        current = self._current
        return (
            current.store_at_ms
            if current is not None and current.life.allows(RescaleEvent.STORED)
            else NEVER_MS
        )

    # ------------------------------------------------------------ until the tasks are stopped

    def begin(self, parallelism: Mapping[str, int], cause: str, is_move: bool = False) -> str:
        """Start a rescale of a running job; why not, or an empty text.

        Nothing happens where the job is, or is about to be, as it is asked to be.

        Args:
            parallelism: As `protocol.scheduling.rescaling.rescaled` takes it.
            cause: Who asks.
            is_move: Whether the subtasks have to go elsewhere, be they as many as before.
        """
        current = self._current
        base = self.graph if current is None or current.life.allows(RescaleEvent.STORED) else current.old
        try:
            failpoints.reach("rescale_begin")
            wanted = rescaled(base, parallelism)
        except (RescaleError, CheckpointStorageError) as error:
            return str(error)
        if current is not None:
            if parallelism_of(wanted) == parallelism_of(current.new):
                return ""
            return f"the job is being rescaled already: {current.phase.value}; ask again when that is over"
        if parallelism_of(wanted) == parallelism_of(self.graph) and not is_move:
            return ""
        return self._prepare(wanted, cause)

    def _prepare(self, wanted: JobGraph, cause: str) -> str:
        if self._store is None or self._checkpoints is None:
            return (
                "the job takes no checkpoints, so its state could not move; set "
                "execution.checkpointing.interval and execution.checkpointing.dir"
            )
        if self._checkpoints.ending:
            return self._checkpoints.ending
        self._count += 1
        number = self._store.epoch * RESCALES_PER_EPOCH + self._count
        old, new = parallelism_of(self.graph), parallelism_of(wanted)
        record = RescaleStatistics(number, cause, old, new, self._now_ms())
        self._current = _Rescale(self._store, self._checkpoints, self.graph, wanted, record)
        problem = self._ports.prepare(
            build_execution_graph(wanted), lambda problem: self._prepared(number, problem)
        )
        if problem:
            self._current = None
        return problem

    def _prepared(self, number: int, problem: str) -> None:
        current = self._current
        if (
            current is None
            or current.record.number != number
            or not current.life.allows(RescaleEvent.PREPARED)
        ):
            return
        if problem:
            self._fail(RescaleEvent.REFUSED, problem)
            return
        current.life.handle(RescaleEvent.PREPARED)
        newest = current.store.newest
        current.newest_before = None if newest is None else newest.checkpoint_id

        def answered(answer: AnswerRequest) -> None:
            current.answer = answer

        current.checkpoints.request(answered=answered)
        self.advance()

    def advance(self) -> None:
        """Something happened, or time passed: perhaps the rescale can go on."""
        current = self._current
        if current is None:
            return
        if current.life.allows(RescaleEvent.CHECKPOINT_COMPLETED):
            self._stop_if_stored(current)
        elif current.life.allows(RescaleEvent.STORED) and current.store_at_ms <= self._now_ms():
            self._write_down(current)

    def _stop_if_stored(self, current: _Rescale) -> None:
        """Any checkpoint will do that completed since: perhaps one was under way already."""
        if current.checkpoints.has_pending_savepoint:
            # A client waits for it, and it would be aborted.
            return
        newest = current.store.newest
        if newest is None or newest.checkpoint_id == current.newest_before:
            answer = current.answer
            if answer is not None and answer.reason is not None:
                detail = f": {answer.cause}" if answer.cause else ""
                self._fail(RescaleEvent.REFUSED, f"its checkpoint was aborted: {answer.reason.value}{detail}")
            return
        if newest.kind.ends_job:
            self._fail(RescaleEvent.REFUSED, "the job has taken its last checkpoint")
            return
        try:
            failpoints.reach("rescale_stop")
        except CheckpointStorageError as error:
            self._fail(RescaleEvent.REFUSED, str(error))
            return
        current.life.handle(RescaleEvent.CHECKPOINT_COMPLETED)
        current.record = replace(
            current.record, stopped_ms=self._now_ms(), checkpoint_id=newest.checkpoint_id
        )
        self._restart()

    def _fail(self, event: RescaleEvent, cause: str) -> RescalePhase | None:
        """An event ends the rescale, if any, unless it has no effect in this phase; the new phase."""
        current = self._current
        if current is None or not current.life.allows(event):
            return None
        phase = current.life.handle(event)
        self._current = None
        if phase is RescalePhase.UNDONE:
            self.graph = current.old
        self._ports.release()
        self._record(replace(current.record, failure=cause))
        return phase

    def job_ends(self, cause: str) -> None:
        """The job ends, or another coordinator runs it."""
        self._fail(RescaleEvent.JOB_ENDED, cause)

    def stops_job(self) -> None:
        """The job is to be stopped with a savepoint, which takes precedence."""
        self._fail(RescaleEvent.STOP_REQUESTED, "the job is stopped with a savepoint")

    # ------------------------------------------------------------ while they are not running

    def deploy(self) -> None:
        """The job is about to be deployed: `graph` is what it is to run as now."""
        current = self._current
        if current is not None and current.life.allows(RescaleEvent.DEPLOYING):
            self._deploy(current)
        if self.fit is not None and not self._is_in(RescalePhase.STARTING):
            self.graph = self.fit(self.graph)

    def _deploy(self, current: _Rescale) -> None:
        try:
            failpoints.reach("rescale_deploy")
        except CheckpointStorageError as error:
            self._fail(RescaleEvent.REFUSED, str(error))
            return
        current.life.handle(RescaleEvent.DEPLOYING)
        self.graph = current.new

    def failed(self, cause: str) -> bool:
        """The job failed; whether it did so because of the rescale, and goes back to what it was."""
        is_starting = self._is_in(RescalePhase.STARTING)
        what = "its tasks did not start" if is_starting else "the job failed in the meantime"
        return self._fail(RescaleEvent.JOB_FAILED, f"{what}: {cause}") is RescalePhase.UNDONE

    def running(self) -> bool:
        """All subtasks of an attempt run; whether it is one of a rescale."""
        current = self._current
        if current is None or not current.life.allows(RescaleEvent.RUNNING):
            return False
        current.life.handle(RescaleEvent.RUNNING)
        current.record = replace(current.record, running_ms=self._now_ms())
        return True

    def _write_down(self, current: _Rescale) -> None:
        """Until it succeeds: before that nobody is told that the job has another parallelism for good."""
        try:
            store_parallelism(current.store, self._submitted, current.new)
        except FencedError as error:
            self._lose_ownership(str(error))
        except CheckpointStorageError as error:
            current.store_at_ms = self._now_ms() + _RETRY_MS
            self._observer.warned(f"the new parallelism cannot be written down: {error}")
        else:
            current.life.handle(RescaleEvent.STORED)
            self._current = None
            self._record(current.record)

    def _record(self, rescale: RescaleStatistics) -> None:
        self.ended_ms = rescale.running_ms or rescale.requested_ms
        self._observer.rescaled(rescale)

    def _now_ms(self) -> int:
        return self._ports.now_ns() // 1_000_000
