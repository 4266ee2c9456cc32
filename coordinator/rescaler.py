"""Changes the parallelism of a running job: make room, take a checkpoint, stop, start again from it.

Until the tasks are stopped nothing has happened to the job, and afterwards it goes back to the parallelism
it had if the new subtasks do not come to run: a rescale loses nothing, whatever becomes of it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..common import failpoints
from ..common.errors import CheckpointStorageError
from ..protocol.checkpoint_events import AnswerRequest
from ..protocol.execution_graph import build_execution_graph
from ..protocol.ids import CheckpointId
from ..protocol.plan import JobGraph
from ..protocol.rescaling import RescaleError, parallelism_of, rescaled
from ..protocol.trigger import NEVER_MS
from .checkpoint_driver import CheckpointDriver
from .checkpoint_store import CheckpointStore, FencedError
from .job_observer import JobObserver
from .ports import CoordinatorPorts
from .statistics import RescaleStatistics
from .stored_parallelism import restored_parallelism, store_parallelism

RESCALES_PER_EPOCH = 1_000_000
"""Numbers of rescales of one coordinator are below those of the next."""

_RETRY_MS = 1_000


class _Phase(enum.Enum):
    PREPARING = "room is being made for its subtasks"
    CHECKPOINT = "its checkpoint is being taken"
    STOPPING = "the tasks are being stopped"
    STARTING = "its tasks are being started"
    STORING = "it is being written down"


@dataclass(slots=True)
class _Rescale:
    old: JobGraph
    new: JobGraph
    record: RescaleStatistics
    phase: _Phase = _Phase.PREPARING
    answer: AnswerRequest | None = None
    """How the requested checkpoint ended."""
    newest_before: CheckpointId | None = None
    store_at_ms: int = 0


class Rescaler:
    """The rescales of one job, one at a time.

    Args:
        submitted: The job as the program has it.
        ports: The shell.
        observer: Learns how each rescale ended.
        restart: Stops the tasks, to deploy the job again from its newest checkpoint.
        give_way: Called with the cause when another coordinator runs the job.
    """

    def __init__(
        self,
        submitted: JobGraph,
        ports: CoordinatorPorts,
        observer: JobObserver,
        restart: Callable[[], None],
        give_way: Callable[[str], None],
    ) -> None:
        self._submitted = submitted
        self.graph = submitted
        """The job as it is to run."""
        self._ports = ports
        self._observer = observer
        self._restart = restart
        self._give_way = give_way
        self._checkpoints: CheckpointDriver | None = None
        self._store: CheckpointStore | None = None
        self._current: _Rescale | None = None
        self._count = 0
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
        return self._current is not None and self._current.phase is _Phase.STOPPING

    @property
    def description(self) -> str:
        """What changes in the rescale that is under way, for people."""
        if self._current is None:
            return ""
        before, after = self._current.record.from_parallelism, self._current.record.to_parallelism
        changes = [f"{uid} from {before[uid]} to {after[uid]}" for uid in after if before[uid] != after[uid]]
        return f"rescale ({self._current.record.cause}): {', '.join(changes) or 'other processes'}"

    def fit(self, fitted: Callable[[JobGraph], JobGraph]) -> None:
        """The job is about to be deployed in reactive mode: not as it was, but as it fits."""
        if self._current is None or self._current.phase is not _Phase.STARTING:
            self.graph = fitted(self.graph)

    def next_due_ms(self) -> int:
        """When `advance` should be called next."""
        current = self._current
        is_storing = current is not None and current.phase is _Phase.STORING
        return current.store_at_ms if current is not None and is_storing else NEVER_MS

    # ------------------------------------------------------------ until the tasks are stopped

    def begin(self, parallelism: Mapping[str, int], cause: str, is_move: bool = False) -> str:
        """Start a rescale of a running job; why not, or an empty text.

        Nothing happens where the job is, or is about to be, as it is asked to be.

        Args:
            parallelism: As `protocol.rescaling.rescaled` takes it.
            cause: Who asks.
            is_move: Whether the subtasks have to go elsewhere, be they as many as before.
        """
        current = self._current
        base = self.graph if current is None or current.phase is _Phase.STORING else current.old
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
        obstacle = self._obstacle()
        if obstacle:
            return obstacle
        assert self._store is not None
        self._count += 1
        number = self._store.epoch * RESCALES_PER_EPOCH + self._count
        old, new = parallelism_of(self.graph), parallelism_of(wanted)
        record = RescaleStatistics(number, cause, old, new, self._now_ms())
        self._current = _Rescale(self.graph, wanted, record)
        problem = self._ports.prepare(
            build_execution_graph(wanted), lambda problem: self._prepared(number, problem)
        )
        if problem:
            self._current = None
        return problem

    def _obstacle(self) -> str:
        if self._checkpoints is None:
            return (
                "the job takes no checkpoints, so its state could not move; set "
                "execution.checkpointing.interval and execution.checkpointing.dir"
            )
        return self._checkpoints.ending

    def _prepared(self, number: int, problem: str) -> None:
        current = self._current
        if current is None or current.record.number != number or current.phase is not _Phase.PREPARING:
            return
        if problem:
            self.abandon(problem)
            return
        assert self._checkpoints is not None
        current.phase, current.newest_before = _Phase.CHECKPOINT, self._newest_id

        def answered(answer: AnswerRequest) -> None:
            current.answer = answer

        self._checkpoints.request(answered=answered)
        self.advance()

    @property
    def _newest_id(self) -> CheckpointId | None:
        newest = self._store.newest if self._store is not None else None
        return None if newest is None else newest.checkpoint_id

    def advance(self) -> None:
        """Something happened, or time passed: perhaps the rescale can go on."""
        current = self._current
        if current is None:
            return
        if current.phase is _Phase.CHECKPOINT:
            self._stop_if_stored(current)
        elif current.phase is _Phase.STORING and current.store_at_ms <= self._now_ms():
            self._write_down(current)

    def _stop_if_stored(self, current: _Rescale) -> None:
        """Any checkpoint will do that completed since: perhaps one was under way already."""
        assert self._store is not None
        assert self._checkpoints is not None
        if self._checkpoints.has_pending_savepoint:
            # A client waits for it, and it would be aborted.
            return
        newest = self._store.newest
        if newest is None or newest.checkpoint_id == current.newest_before:
            answer = current.answer
            if answer is not None and answer.reason is not None:
                detail = f": {answer.cause}" if answer.cause else ""
                self.abandon(f"its checkpoint was aborted: {answer.reason.value}{detail}")
            return
        if newest.kind.ends_job:
            self.abandon("the job has taken its last checkpoint")
            return
        try:
            failpoints.reach("rescale_stop")
        except CheckpointStorageError as error:
            self.abandon(str(error))
            return
        current.phase = _Phase.STOPPING
        current.record = replace(
            current.record, stopped_ms=self._now_ms(), checkpoint_id=newest.checkpoint_id
        )
        self._restart()

    def abandon(self, cause: str, is_job_over: bool = False) -> None:
        """The rescale fails for a cause, unless its tasks run already; the job stays as it was."""
        current = self._current
        if current is None or (current.phase is _Phase.STORING and not is_job_over):
            return
        self._current = None
        self._ports.release()
        self._record(replace(current.record, failure=cause))

    def stops_job(self) -> None:
        """The job is to be stopped with a savepoint, which goes before."""
        if self._current is not None and self._current.phase in (_Phase.PREPARING, _Phase.CHECKPOINT):
            self.abandon("the job is stopped with a savepoint")

    # ------------------------------------------------------------ while they are not running

    def deploy(self) -> None:
        """The job is about to be deployed: from now on `graph` is what is asked for, if the tasks stopped."""
        current = self._current
        if current is None or current.phase is not _Phase.STOPPING:
            return
        try:
            failpoints.reach("rescale_deploy")
        except CheckpointStorageError as error:
            self.abandon(str(error))
            return
        current.phase, self.graph = _Phase.STARTING, current.new

    def failed(self, cause: str) -> bool:
        """The job failed; whether it did so because of the rescale, and goes back to what it was."""
        current = self._current
        if current is None or current.phase is _Phase.STORING:
            return False
        is_to_blame = current.phase is _Phase.STARTING
        if is_to_blame:
            self.graph = current.old
            self.abandon(f"its tasks did not come to run: {cause}")
        else:
            self.abandon(f"the job failed in the meantime: {cause}")
        return is_to_blame

    def running(self) -> bool:
        """All subtasks of an attempt run; whether it is one of a rescale."""
        current = self._current
        if current is None or current.phase is not _Phase.STARTING:
            return False
        current.phase, current.record = _Phase.STORING, replace(current.record, running_ms=self._now_ms())
        return True

    def _write_down(self, current: _Rescale) -> None:
        """Until it succeeds: before that nobody is told that the job has another parallelism for good."""
        assert self._store is not None
        try:
            store_parallelism(self._store, self._submitted, current.new)
        except FencedError as error:
            self._give_way(str(error))
        except CheckpointStorageError as error:
            current.store_at_ms = self._now_ms() + _RETRY_MS
            self._observer.warned(f"the new parallelism cannot be written down: {error}")
        else:
            self._current = None
            self._record(current.record)

    def _record(self, rescale: RescaleStatistics) -> None:
        self.ended_ms = rescale.running_ms or rescale.requested_ms
        self._observer.rescaled(rescale)

    def _now_ms(self) -> int:
        return self._ports.now_ns() // 1_000_000
