"""The coordinator of one job, without threads, sleeping or Ray.

A shell feeds it events and the passing of time; it answers through its ports. Restarting it with the
same job and checkpoint storage resumes the job from the newest complete checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..common.errors import CheckpointStorageError, TidegateError
from ..common.job_status import JobStatus
from ..protocol import task_events as events
from ..protocol.checkpoints import checkpoint as core
from ..protocol.checkpoints.manifest import CheckpointManifest
from ..protocol.checkpoints.trigger import NEVER_MS
from ..protocol.elements import SavepointFormatType, SavepointTarget, SnapshotKind
from ..protocol.ids import Attempt, JobId, SubtaskId
from ..protocol.job import JobEvent, JobLifeCycle
from ..protocol.job_tasks import TasksEvent, TasksLifeCycle, TasksPhase, check_phase
from ..protocol.scheduling.execution_graph import Subtask, build_execution_graph
from ..protocol.scheduling.failover import GiveUp, Restart, RestartDecision
from ..protocol.scheduling.plan import JobGraph
from ..protocol.scheduling.start_errors import StartErrors
from ..protocol.task_metrics import ProcessMetrics
from ..state.storage.checkpoint_storage import CheckpointStorage
from ..telemetry import Tracer
from .barrier_mode import BarrierMode
from .checkpoints.checkpoint_driver import CheckpointDriver
from .checkpoints.checkpoint_store import CheckpointStore, FencedError
from .checkpoints.job_cleanup import JobCleanup
from .checkpoints.job_storage import claim_epoch, continue_ids, foreign_state, new_store
from .checkpoints.ownership import RETRY_MS, Ownership
from .control.control_requests import StateAnswer, StateQuery
from .control.state_queries import Answer, StateQueries
from .deployment.task_deployments import AttemptStart, task_deployments, task_settings
from .job_fail_points import JobFailPoints
from .monitoring.job_history import Failure, JobHistory
from .monitoring.job_metrics import JobMetrics
from .monitoring.job_observer import JobObserver
from .monitoring.recoveries import COORDINATOR_LOST
from .monitoring.statistics import JobStatistics, RescaleStatistics
from .operator_coordinators import OperatorCoordinators
from .ports import CoordinatorPorts
from .rescaler import Rescaler
from .result_buffer import ResultBuffer
from .spec import JobSpec

logger = logging.getLogger(__name__)

ATTEMPTS_PER_EPOCH = 1_000_000
"""Attempt numbers of one coordinator are below those of the next, so zombies of both are fenced."""


class JobCoordinator:
    """Runs one job to its end.

    Args:
        spec: The job.
        ports: The shell.
        tracer: Where checkpoint traces go.
        storage: Root of all checkpoints instead of the one in the settings (tests, simulation).
        before_clean_up: Called when the job has ended, with whether its checkpoints stay, before they go.
        is_current: Whether the shell counts this process as the job's coordinator, `None` if not known.
        observer: Takes the place of the usual `JobObserver`.
    """

    def __init__(
        self,
        spec: JobSpec,
        ports: CoordinatorPorts,
        tracer: Tracer,
        storage: CheckpointStorage | None = None,
        before_clean_up: Callable[[bool], None] = lambda keep: None,
        is_current: Callable[[], bool | None] = lambda: True,
        observer: JobObserver | None = None,
    ) -> None:
        self._spec = spec
        self.metrics = JobMetrics()
        self.observer = observer or JobObserver(spec, tracer, self.metrics, ports.now_ns)
        self._operators = OperatorCoordinators(spec.graph, ports, self._operator_failed, self.observer.warned)
        self._ports = self._operators.ports
        self._storage = storage
        self._before_clean_up = before_clean_up
        self._is_current = is_current
        self._cleaning = JobCleanup(self.observer.warned, self._before_removal)
        self._rescaler = Rescaler(
            spec.graph, self._ports, self.observer, self._restart_to_rescale, self._lose_ownership
        )
        self._graph = build_execution_graph(spec.graph)
        self._life = JobLifeCycle()
        self._failover = spec.new_failover()
        self._start_errors = StartErrors()
        self._store: CheckpointStore | None = None
        self._ownership: Ownership | None = None
        self._checkpoints: CheckpointDriver | None = None
        self._foreign: CheckpointManifest | None = None
        self._restored: CheckpointManifest | None = None
        self._attempt = Attempt(0)
        self._restarts = -1
        self._rescales = 0
        self._live: set[SubtaskId] = set()
        self._initialized: set[SubtaskId] = set()
        self._finished: set[SubtaskId] = set()
        self._tasks = TasksLifeCycle()
        self._is_fenced = False
        self._end_at_ms = NEVER_MS
        self._is_beyond_restart = False
        self._stopped_with = ""
        self._failure: Failure | None = None
        self.fit: Callable[[JobGraph], JobGraph] | None = None
        """In reactive mode, what makes the job fit into its cluster whenever it is deployed."""
        self.fail_points: JobFailPoints | None = None
        """Those that were armed, once the job has started."""
        self._queries = self._new_queries(spec.graph)
        self.results = ResultBuffer()
        self.running_since_ms: int | None = None
        """When all subtasks of the newest attempt that got so far began to run."""

    def _new_queries(self, graph: JobGraph) -> StateQueries:
        return StateQueries(graph, lambda subtask, query: self._ports.send(self._attempt, subtask, query))

    # ------------------------------------------------------------ seen from outside

    @property
    def statistics(self) -> JobStatistics:
        """The history of the job, for people."""
        return self.observer.statistics

    @property
    def history(self) -> JobHistory:
        """What its subtasks did, for people."""
        return self.observer.history

    @property
    def status(self) -> JobStatus:
        """Where the job is in its life."""
        return self._life.state

    @property
    def job_name(self) -> str:
        """Name of the job."""
        return self._spec.job_name

    @property
    def graph(self) -> JobGraph:
        """The job with the parallelism that it has now."""
        return self._rescaler.graph

    @property
    def rescaling(self) -> RescaleStatistics | None:
        """The rescale that is under way, if any."""
        return self._rescaler.in_progress

    @property
    def rescaled_ms(self) -> int | None:
        """When the last rescale had ended, `None` before the first one."""
        return self._rescaler.ended_ms

    @property
    def is_starting(self) -> bool:
        """Whether an attempt is deployed and not all of its subtasks run yet."""
        return self._tasks.state is TasksPhase.DEPLOYING

    @property
    def job_id(self) -> JobId:
        """Id of the job."""
        return self._spec.job_id

    @property
    def subtasks(self) -> Mapping[SubtaskId, Subtask]:
        """Its subtasks as they are deployed now."""
        return self._graph.subtasks

    @property
    def now_ms(self) -> int:
        """What the clock of the coordinator says, in milliseconds since the Unix epoch."""
        return self._ports.now_ns() // 1_000_000

    @property
    def failure(self) -> Failure | None:
        """The last failure, if any."""
        return self._failure

    @property
    def attempt(self) -> Attempt:
        """The current execution attempt."""
        return self._attempt

    @property
    def restarts(self) -> int:
        """How often the job was restarted, also by earlier coordinators, not counting rescales."""
        return self.statistics.restarts

    @property
    def store(self) -> CheckpointStore | None:
        """The job's completed checkpoints, `None` without checkpointing."""
        return self._store

    @property
    def stopped_with(self) -> str:
        """The savepoint that the job was stopped with, if any; also when its checkpoints are gone."""
        return self._stopped_with if self._newest is None else self._newest.savepoint_path

    @property
    def _newest(self) -> CheckpointManifest | None:
        return None if self._store is None else self._store.newest

    @property
    def ending(self) -> str:
        """Why the job is about to end although it runs, an empty text if it is not."""
        return "" if self._checkpoints is None else self._checkpoints.ending

    def next_due_ms(self) -> int:
        """When `tick` should be called next."""
        due = min(
            self._operators.next_due_ms(),
            self._rescaler.next_due_ms(),
            self._tasks.next_due_ms(),
            self._end_at_ms,
        )
        if self._checkpoints is not None:
            due = min(due, self._checkpoints.next_due_ms())
        return due

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the coordinator's state machines does not hold."""
        check_phase(self.status, self._tasks.state)
        if self._checkpoints is not None:
            self._checkpoints.validate()

    # ------------------------------------------------------------ ownership

    def claim(self) -> None:
        """Become the owner of the job in checkpoint storage: coordinators before this one are superseded.

        Raises:
            CheckpointStorageError: Storage refuses.
        """
        store = new_store(self._spec, self._storage)
        if store is not None:
            self._attempt = Attempt((claim_epoch(self._spec, store) - 1) * ATTEMPTS_PER_EPOCH)
            lease_ms = self._spec.settings.lease_ms
            self._ownership = Ownership(
                # Without retries: it is asked again anyway, and waiting would look like a silence.
                lambda: store.check_fence(retries=False),
                lease_ms,
                lambda: self.now_ms,
                self._lose_ownership,
                self._is_current,
            )
        self._store = store

    def may_act(self, is_final: bool = False) -> bool:
        """Whether this coordinator still owns the job; a shell asks before it lets the coordinator act.

        Args:
            is_final: Whether the job is about to be deployed or to end.

        Returns:
            `False` if it is superseded, or if storage does not answer after the coordinator was stopped for
            longer than its lease; then the shell asks again.
        """
        if self._ownership is None or self._store is None:
            return True
        if self._store.fenced:
            self._ownership.lose(self._store.fenced)
        return self._ownership.confirm(is_final)

    @property
    def is_superseded(self) -> bool:
        """Whether another coordinator owns the job: this one changes nothing that they share."""
        return self._is_fenced or (self._store is not None and bool(self._store.fenced))

    # ------------------------------------------------------------ start

    def start(self) -> None:
        """Claim the job unless that is done, find the state to start from, and deploy."""
        self.observer.started()
        try:
            self._open_storage()
            self._foreign = foreign_state(self._spec, self._store, self.observer.warned)
            self.fail_points = JobFailPoints(self._spec, self._store.storage if self._store else None)
        except TidegateError as error:
            logger.error("The job %s fails at its start: %s", self.job_name, error)
            self._fails(Failure(str(error), "", self.now_ms))
            self._life.handle(JobEvent.GAVE_UP)
            return
        self._life.handle(JobEvent.DEPLOYED)
        if self._newest is not None:
            self.observer.restarting(COORDINATOR_LOST, is_rescale=False)
        self._deploy()

    def finish_clean_up(self, keep_checkpoints: bool) -> None:
        """The job was claimed, but it has ended: remove what a predecessor that died was to remove."""
        if self._store is not None:
            self._cleaning.finish(self._spec, self._store, keep_checkpoints)

    def _open_storage(self) -> None:
        if self._store is None:
            self.claim()
        if self._store is None:
            return
        continue_ids(self._spec, self._store)
        self.observer.resumed(self._store.load(), is_first=self._store.epoch == 1)
        self._checkpoints = CheckpointDriver(
            self._spec,
            self._store,
            self._ports,
            self.observer,
            self._operators,
            fail=lambda cause: self._operator_failed(cause, is_recoverable=True),
            stop=self._lose_ownership,
            restart=self.restart,
        )
        self._rescaler.open(self._store, self._checkpoints)

    def _deploy(self) -> None:
        self._tasks.handle(TasksEvent.DUE)
        self._rescaler.deploy()
        if self.fit is not None:
            self._rescaler.fit(self.fit)
        graph = self._rescaler.graph
        self._graph, self._queries = build_execution_graph(graph), self._new_queries(graph)
        self._operators.rescaled(graph)
        self._attempt = Attempt(self._attempt + 1)
        self._restarts += 1
        self._initialized, self._finished = set(), set()
        self._live = set(self._graph.subtasks)
        own = self._newest
        manifest = self._restored = own or self._foreign
        restarts = max(0, self._restarts - self._rescales)
        trace_context = self.observer.attempt_begins(self._graph, self._restarts, restarts, manifest)
        self._operators.deploy(self._attempt)
        if self._checkpoints is not None:
            self._checkpoints.remove_orphans(is_recovery=manifest is not None)
        if manifest is not None:
            self.observer.restored(manifest, is_own=own is not None)
        start = AttemptStart(
            self._attempt, self._restarts, manifest, own is not None, self._is_stopped, trace_context
        )
        settings = task_settings(self._spec, self._store, self.fail_points)
        self.metrics.begin(self._attempt)
        deployments = task_deployments(self._spec.job_id, graph, self._graph, start, settings)
        # Again: storage may have taken any time since, and tasks of a superseded coordinator may do harm.
        if self.may_act(is_final=True):
            self._ports.deploy(self._graph, deployments)
            return
        self._live = set()
        if self._is_fenced:
            self._go_on_when_stopped()
        else:
            self._restarts -= 1
            self._tasks.postpone(self.now_ms + RETRY_MS)

    # ------------------------------------------------------------ events

    def handle(self, event: events.TaskEvent) -> None:
        """Take one event from a task."""
        self.observer.reported(event, event.attempt == self._attempt)
        if isinstance(event, events.ResultsCollected):
            if not self.results.add(event):
                self._ports.send(event.attempt, event.subtask, events.ResultsTaken(event.size_bytes))
        elif isinstance(event, events.SpansRecorded):
            return
        elif event.attempt != self._attempt:
            if self._checkpoints is not None and isinstance(event, core.SubtaskAcknowledged):
                # It is counted, and nobody else would ever delete its files.
                self._checkpoints.handle(event)
        elif isinstance(event, events.FromOperator):
            self._operators.handle(event)
        elif isinstance(event, events.StateQueried):
            self._queries.answered(event)
        elif isinstance(event, events.TaskInitialized):
            self._on_initialized(event.subtask)
        elif isinstance(event, events.TaskFailed):
            self._on_failed(event)
        elif isinstance(event, events.TaskFinished):
            self.metrics.ended(event.attempt, event.subtask, event.metrics, self.now_ms)
            self._on_finished(event.subtask)
        elif isinstance(event, events.TaskStopped):
            self._live.discard(event.subtask)
            self._go_on_when_stopped()
        elif self._checkpoints is not None:
            self._checkpoints.handle(event)
            self._rescaler.advance()

    def measured(self, taken: ProcessMetrics, taken_ms: int) -> None:
        """Take what a process measured, at a time in milliseconds since the Unix epoch."""
        self.metrics.update(taken, taken_ms)
        if taken.attempt == self._attempt:
            self.observer.measured(taken.subtasks)

    def tick(self) -> None:
        """Time passed: perform what is due."""
        self._operators.tick()
        if self._checkpoints is not None and not self.status.is_terminal_state():
            self._checkpoints.handle(core.TimePassed())
            self._rescaler.advance()
        self._go_on_when_stopped()

    def cancel(self) -> None:
        """Stop the job without a checkpoint."""
        if not self._life.allows(JobEvent.CANCEL_REQUESTED):
            return
        self._life.handle(JobEvent.CANCEL_REQUESTED)
        self._tasks.handle(TasksEvent.END)
        self._rescaler.job_ends("the job is cancelled")
        self._stop_tasks()
        self._go_on_when_stopped()

    def trigger_checkpoint(self) -> core.RequestId | None:
        """Ask for a checkpoint now; its answer will be among `statistics.requests`.

        Returns:
            The id of the request, `None` if checkpointing is off.
        """
        takes = self._checkpoints is not None and self._spec.settings.takes_checkpoints
        return self._checkpoints.request() if self._checkpoints is not None and takes else None

    def trigger_savepoint(
        self, kind: SnapshotKind, directory: str | None, format_type: SavepointFormatType
    ) -> core.RequestId | None:
        """Ask for a savepoint, and perhaps for the end of the job with it; answered as a checkpoint is.

        Args:
            kind: `SAVEPOINT`, or `STOP` where the job stands, or `FINAL` after its sources have ended.
            directory: Where the savepoint makes its own; `None` for the default of the job.
            format_type: How keyed state is stored.
        """
        if self._checkpoints is None:
            return None
        if kind.ends_job:
            self._rescaler.stops_job()
        target = SavepointTarget(directory or self._spec.settings.savepoint_dir or "", format_type)
        return self._checkpoints.request(kind, target)

    def rescale(self, parallelism: Mapping[str, int], cause: str = "requested") -> str:
        """Give operators another number of subtasks while the job runs.

        The outcome will be among `statistics.rescales`, where it is not the parallelism it has already.

        Args:
            parallelism: As `protocol.scheduling.rescaling.rescaled` takes it.
            cause: Who asks.

        Returns:
            Why it cannot be, or an empty text.
        """
        if self.status is not JobStatus.RUNNING:
            return f"the job is {self.status.name}; only a running job can be rescaled"
        if self.fit is not None and cause == "requested":
            return "it follows the size of its cluster (scheduler-mode: reactive)"
        return self._rescaler.begin(parallelism, cause)

    def relocate(self, cause: str) -> str:
        """Take the subtasks off nodes that are about to go, as a rescale does; why not, or an empty text."""
        if self.status is not JobStatus.RUNNING:
            return f"the job is {self.status.name}"
        return self._rescaler.begin({}, cause, is_move=True)

    @property
    def barrier_mode(self) -> BarrierMode | None:
        """How the barriers of the next checkpoint are handled; `None` without checkpoints."""
        return None if self._checkpoints is None else self._checkpoints.mode

    def set_barrier_mode(self, mode: BarrierMode) -> str:
        """Handle barriers in another way from the next checkpoint on; why not, or an empty text."""
        return (
            "the job takes no checkpoints" if self._checkpoints is None else self._checkpoints.set_mode(mode)
        )

    def query_state(self, query: StateQuery, answer: Answer) -> None:
        """Ask the running task that owns a key; `answer` is called once, perhaps much later."""
        if self.status is not JobStatus.RUNNING:
            is_final = self.status.is_terminal_state()
            answer(StateAnswer(b"", f"the job is {self.status.name}", is_final))
            return
        try:
            self._queries.ask(query, answer, self._finished)
        except TidegateError as error:
            answer(StateAnswer(b"", str(error)))

    def _on_initialized(self, subtask: SubtaskId) -> None:
        if self._tasks.state is not TasksPhase.DEPLOYING:
            # A late answer of an attempt that has failed since: its other subtasks are being stopped.
            return
        self._initialized.add(subtask)
        if len(self._initialized) < len(self._graph.subtasks):
            return
        self._life.handle(JobEvent.TASKS_RUNNING)
        self._tasks.handle(TasksEvent.INITIALIZED)
        self._start_errors.running()
        self.running_since_ms = self.now_ms
        for target in sorted(self._graph.subtasks):
            self._ports.send(self._attempt, target, events.StartRunning())
        self.observer.running(self._attempt, self._restored, self._rescaler.running())
        if self._is_stopped or not self._operators.run(self._restored):
            return
        if self._checkpoints is not None:
            self._checkpoints.start(self._attempt, self._restarts, self._graph)

    @property
    def _is_stopped(self) -> bool:
        """Whether the job has taken its last checkpoint, so that nothing may be processed any more."""
        return self._newest is not None and self._newest.kind.ends_job

    def _on_finished(self, subtask: SubtaskId) -> None:
        self._finished.add(subtask)
        self._live.discard(subtask)
        self._queries.fail("the subtask that owns the key has finished", subtask)
        self._go_on_when_stopped()

    def _finish(self) -> None:
        self._life.handle(JobEvent.TASKS_FINISHED)
        self._tasks.handle(TasksEvent.END)
        self._rescaler.job_ends("the job has finished")
        self._operators.stop()
        if self._checkpoints is not None:
            self._checkpoints.handle(core.TasksStopped(core.AbortReason.SHUT_DOWN))
        self._clean_up(self._spec.settings.keep_on_finish)

    # ------------------------------------------------------------ failure

    def _on_failed(self, event: events.TaskFailed) -> None:
        self._live.discard(event.subtask)
        if self._tasks.allows(TasksEvent.RESTART):
            repeated = (
                self._start_errors.failed(event.subtask.task_id, event.cause)
                if event.is_start_error
                else None
            )
            self._restart_or_give_up(event.cause, event.details, event.is_recoverable, repeated)
        else:
            self._go_on_when_stopped()

    def _operator_failed(self, cause: str, is_recoverable: bool) -> None:
        if self._checkpoints is None:
            self._fail_if_running(cause, is_recoverable)
        else:
            # Perhaps in the middle of what a checkpoint leads to.
            self._checkpoints.afterwards(lambda: self._fail_if_running(cause, is_recoverable))

    def _fail_if_running(self, cause: str, is_recoverable: bool) -> None:
        if self._tasks.allows(TasksEvent.RESTART):
            self._restart_or_give_up(cause, "", is_recoverable)

    def _lose_ownership(self, cause: str) -> None:
        """Another coordinator runs the job now: everything in storage is its own."""
        self._is_fenced = True
        self._rescaler.job_ends(cause)
        if self._life.allows(JobEvent.TASK_FAILED):
            self._restart_or_give_up(cause, "", is_recoverable=False)

    def restart(self, cause: str) -> None:
        """The tasks cannot go on from where they are, but nothing failed: no restart is used up."""
        if self._tasks.allows(TasksEvent.RESTART):
            self._fails(Failure(cause, "", self.now_ms))
            self._restart_because(JobEvent.TASK_FAILED)

    def _restart_to_rescale(self) -> None:
        """The tasks run as they should, and are stopped at a checkpoint."""
        self._rescales += 1
        self._restart_because(JobEvent.RESCALED)

    def _restart_because(self, event: JobEvent) -> None:
        self._life.handle(event)
        self._tasks.restart(self.now_ms)
        self._stop_tasks()
        self._go_on_when_stopped()

    def _restart_or_give_up(
        self, cause: str, details: str, is_recoverable: bool, repeated: GiveUp | None = None
    ) -> None:
        now_ms = self.now_ms
        self._life.handle(JobEvent.TASK_FAILED)
        self._fails(Failure(cause, details, now_ms))
        decision = self._decide(cause, is_recoverable, repeated)
        if isinstance(decision, GiveUp):
            logger.error("The job %s fails: %s", self.job_name, cause)
            self._is_beyond_restart = decision is repeated or not is_recoverable
            if decision.reason and self._restarts:
                self._failure = Failure(f"{cause} ({decision.reason})", details, now_ms)
            self._rescaler.job_ends(cause)
            self._life.handle(JobEvent.GAVE_UP)
            self._tasks.handle(TasksEvent.END)
        else:
            logger.warning("The job %s restarts in %d ms: %s", self.job_name, decision.delay_ms, cause)
            self._tasks.restart(now_ms + decision.delay_ms)
        self._stop_tasks()
        self._go_on_when_stopped()

    def _decide(self, cause: str, is_recoverable: bool, repeated: GiveUp | None) -> RestartDecision:
        if not self._is_fenced and self._rescaler.failed(cause):
            # The job itself did not fail, and runs again as it did before.
            return Restart(0)
        if repeated is not None:
            return repeated
        return self._failover.on_failure(self.now_ms) if is_recoverable else GiveUp("")

    def _fails(self, failure: Failure) -> None:
        self._failure = failure
        self.observer.failed(failure)

    def _stop_tasks(self) -> None:
        self._queries.fail(f"the job is {self.status.name}")
        self._operators.stop()
        is_restart = self._tasks.state is TasksPhase.STOPPING
        if is_restart:
            is_rescale, failure = self._rescaler.is_stopping, self._failure
            if is_rescale or failure is None:
                self.observer.restarting(self._rescaler.description if is_rescale else "", is_rescale)
            else:
                self.observer.restarting(failure.cause, is_rescale, failure.occurred_ms)
        else:
            self.observer.ending(self.status)
        if self._checkpoints is not None:
            ending = core.AbortReason.SUSPENDED if self._is_fenced else core.AbortReason.SHUT_DOWN
            reason = core.AbortReason.RESTARTED if is_restart else ending
            self._checkpoints.handle(core.TasksStopped(reason))
        if self._live:
            self.observer.stopping(self._live)
            self._ports.stop(self._attempt, sorted(self._live))

    def _go_on_when_stopped(self) -> None:
        if self._live:
            return
        if self.status is JobStatus.RUNNING:
            if self._may_end():
                self._finish()
            return
        self.observer.stopped()
        if self._tasks.state is TasksPhase.STOPPING:
            self._tasks.handle(TasksEvent.STOPPED)
        if self._tasks.is_due(self.now_ms):
            if self._knows_newest():
                self._deploy()
        elif self.status in (JobStatus.FAILING, JobStatus.CANCELLING) and self._may_end():
            settings = self._spec.settings
            ended = self._life.handle(JobEvent.TASKS_STOPPED)
            # What could not be restored may be all that is left of the state, and somebody can repair it.
            keep_on_fail = settings.keep_on_fail or self._is_beyond_restart
            self._clean_up(keep_on_fail if ended is JobStatus.FAILED else settings.keep_on_cancel)

    def _knows_newest(self) -> bool:
        """Whether it is certain which checkpoint is the newest; if not, this is tried again later."""
        try:
            if self._store is not None:
                self._store.resolve_uncertain()
            return True
        except FencedError as error:
            self._lose_ownership(str(error))
        except CheckpointStorageError as error:
            self.observer.warned(f"the newest checkpoint cannot be found, so the job waits: {error}")
            self._tasks.postpone(self.now_ms + RETRY_MS)
        return False

    def _may_end(self) -> bool:
        """Whether the job may end now; if it is not known whose job it is, this is tried again later."""
        may_end = self._is_fenced or self.may_act(is_final=True)
        self._end_at_ms = NEVER_MS if may_end else self.now_ms + RETRY_MS
        return may_end

    def sweep(self) -> None:
        """For the shell, when the job has ended and none of its processes runs any more.

        A task may have been storing a snapshot when the job ended; nobody else would ever delete that.
        """
        if self._store is not None and not self.is_superseded:
            self._cleaning.sweep(self._store)

    def _clean_up(self, keep_checkpoints: bool) -> None:
        self.observer.ended(self.status)
        if self.fail_points is not None:
            self.fail_points.settle()
        if self._is_fenced:
            return
        if self._store is not None:
            self._cleaning.end(self._store, keep_checkpoints and self._spec.settings.takes_checkpoints)
        if self.fail_points is not None and not self.is_superseded:
            self.fail_points.remove_marks()

    def _before_removal(self, keep_checkpoints: bool) -> None:
        self._stopped_with = self.stopped_with
        self._before_clean_up(keep_checkpoints)
