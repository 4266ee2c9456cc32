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
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.job import JobEvent, JobLifeCycle
from ..protocol.job_tasks import TasksEvent, TasksLifeCycle, TasksPhase, check_phase
from ..protocol.scheduling.execution_graph import Subtask, build_execution_graph
from ..protocol.scheduling.failover import GiveUp, Restart, RestartDecision
from ..protocol.scheduling.plan import JobGraph
from ..protocol.task_metrics import ProcessMetrics
from ..state.storage.checkpoint_storage import CheckpointStorage
from ..telemetry import Tracer
from .checkpoints.checkpoint_driver import CheckpointDriver
from .checkpoints.checkpoint_store import CheckpointStore, FencedError
from .checkpoints.job_storage import continue_ids, foreign_state
from .checkpoints.ownership import RETRY_MS
from .deployment.task_deployments import AttemptStart, task_deployments, task_settings
from .job_attempt import JobAttempt
from .job_fail_points import JobFailPoints
from .job_failures import JobFailures
from .job_ownership import JobOwnership
from .monitoring.job_history import Failure
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
        self.spec = spec
        self.metrics = JobMetrics()
        self.observer = observer or JobObserver(spec, tracer, self.metrics, ports.now_ns)
        self._operators = OperatorCoordinators(spec.graph, ports, self._operator_failed, self.observer.warned)
        self._ports = self._operators.ports
        self.ownership = JobOwnership(
            spec,
            storage,
            lambda: self.now_ms,
            self._lose_ownership,
            is_current,
            self.observer.warned,
            before_clean_up,
        )
        """Shells ask it whether the coordinator may act, and let it remove what an ended job leaves."""
        self.rescaler = Rescaler(
            spec.graph, self._ports, self.observer, self._restart_to_rescale, self._lose_ownership
        )
        self._life = JobLifeCycle()
        self._tasks = TasksLifeCycle()
        self._failures = JobFailures(spec.new_failover())
        self.checkpoints: CheckpointDriver | None = None
        """What takes checkpoints, once the job has started; `None` without checkpointing."""
        self._foreign: CheckpointManifest | None = None
        self.current = self._attempt_before_first(0)
        """The newest attempt."""
        self._restarts = -1
        self._rescales = 0
        self.fail_points: JobFailPoints | None = None
        """Those that were armed, once the job has started."""
        self.results = ResultBuffer()
        self.running_since_ms: int | None = None
        """When all subtasks of the newest attempt that got so far began to run."""

    def _attempt_before_first(self, number: int) -> JobAttempt:
        graph = build_execution_graph(self.spec.graph)
        attempt = JobAttempt(Attempt(number), self.spec.graph, graph, None, self._ports.send)
        attempt.not_deployed()
        return attempt

    # ------------------------------------------------------------ seen from outside

    @property
    def statistics(self) -> JobStatistics:
        """The history of the job, for people."""
        return self.observer.statistics

    @property
    def status(self) -> JobStatus:
        """Where the job is in its life."""
        return self._life.state

    @property
    def job_name(self) -> str:
        """Name of the job."""
        return self.spec.job_name

    @property
    def graph(self) -> JobGraph:
        """The job with the parallelism that it has now."""
        return self.rescaler.graph

    @property
    def rescaling(self) -> RescaleStatistics | None:
        """The rescale that is under way, if any."""
        return self.rescaler.in_progress

    @property
    def is_starting(self) -> bool:
        """Whether an attempt is deployed and not all of its subtasks run yet."""
        return self._tasks.state is TasksPhase.DEPLOYING

    @property
    def subtasks(self) -> Mapping[SubtaskId, Subtask]:
        """Its subtasks as they are deployed now."""
        return self.current.graph.subtasks

    @property
    def now_ms(self) -> int:
        """What the clock of the coordinator says, in milliseconds since the Unix epoch."""
        return self._ports.now_ns() // 1_000_000

    @property
    def failure(self) -> Failure | None:
        """The last failure, if any."""
        return self._failures.latest

    @property
    def attempt(self) -> Attempt:
        """The current execution attempt."""
        return self.current.number

    @property
    def store(self) -> CheckpointStore | None:
        """The job's completed checkpoints, `None` without checkpointing."""
        return self.ownership.store

    def next_due_ms(self) -> int:
        """When `tick` should be called next."""
        due = min(
            self._operators.next_due_ms(),
            self.rescaler.next_due_ms(),
            self._tasks.next_due_ms(),
            self.ownership.next_due_ms(),
        )
        if self.checkpoints is not None:
            due = min(due, self.checkpoints.next_due_ms())
        return due

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the coordinator's state machines does not hold."""
        check_phase(self.status, self._tasks.state)
        if self.checkpoints is not None:
            self.checkpoints.validate()

    # ------------------------------------------------------------ ownership

    def claim(self) -> None:
        """Become the owner of the job in checkpoint storage: coordinators before this one are superseded.

        Raises:
            CheckpointStorageError: Storage refuses.
        """
        predecessors = self.ownership.claim()
        if predecessors:
            self.current = self._attempt_before_first(predecessors * ATTEMPTS_PER_EPOCH)

    # ------------------------------------------------------------ start

    def start(self) -> None:
        """Claim the job unless that is done, find the state to start from, and deploy."""
        self.observer.started()
        try:
            self._open_storage()
            self._foreign = foreign_state(self.spec, self.store, self.observer.warned)
            self.fail_points = JobFailPoints(self.spec, self.store.storage if self.store else None)
        except TidegateError as error:
            logger.error("The job %s fails at its start: %s", self.job_name, error)
            self._fails(Failure(str(error), "", self.now_ms))
            self._life.handle(JobEvent.GAVE_UP)
            return
        self._life.handle(JobEvent.DEPLOYED)
        if self.ownership.newest is not None:
            self.observer.restarting(COORDINATOR_LOST, is_rescale=False)
        self._deploy()

    def _open_storage(self) -> None:
        if self.store is None:
            self.claim()
        store, policy = self.store, self.spec.settings.trigger
        if store is None or policy is None:
            return
        continue_ids(self.spec, store)
        self.observer.resumed(store.load(), is_first=store.epoch == 1)
        self.checkpoints = CheckpointDriver(
            self.spec,
            policy,
            store,
            self._ports,
            self.observer,
            self._operators,
            fail=lambda cause: self._operator_failed(cause, is_recoverable=True),
            stop=self._lose_ownership,
            restart=self.restart,
        )
        self.rescaler.open(store, self.checkpoints)

    def _deploy(self) -> None:
        self._tasks.handle(TasksEvent.DUE)
        self.rescaler.deploy()
        graph, own = self.rescaler.graph, self.ownership.newest
        manifest = own or self._foreign
        number, subtasks = Attempt(self.attempt + 1), build_execution_graph(graph)
        attempt = self.current = JobAttempt(number, graph, subtasks, manifest, self._ports.send)
        self._operators.rescaled(graph)
        self._restarts += 1
        restarts = max(0, self._restarts - self._rescales)
        trace_context = self.observer.attempt_begins(attempt.graph, self._restarts, restarts, manifest)
        self._operators.deploy(attempt.number)
        if self.checkpoints is not None:
            self.checkpoints.remove_orphans(is_recovery=manifest is not None)
        if manifest is not None:
            self.observer.restored(manifest, is_own=own is not None)
        start = AttemptStart(
            attempt.number, self._restarts, manifest, own is not None, self._is_stopped, trace_context
        )
        settings = task_settings(self.spec, self.store, self.fail_points)
        self.metrics.begin(attempt.number)
        deployments = task_deployments(self.spec.job_id, graph, attempt.graph, start, settings)
        # Again: storage may have taken any time since, and tasks of a superseded coordinator may do harm.
        if self.ownership.may_act(is_final=True):
            self._ports.deploy(attempt.graph, deployments)
            return
        attempt.not_deployed()
        if self.ownership.is_fenced:
            self._go_on_when_stopped()
        else:
            self._restarts -= 1
            self._tasks.postpone(self.now_ms + RETRY_MS)

    # ------------------------------------------------------------ events

    def handle(self, event: events.TaskEvent) -> None:
        """Take one event from a task."""
        self.observer.reported(event, event.attempt == self.attempt)
        if isinstance(event, events.ResultsCollected):
            if not self.results.add(event):
                self._ports.send(event.attempt, event.subtask, events.ResultsTaken(event.size_bytes))
        elif isinstance(event, events.SpansRecorded):
            return
        elif event.attempt != self.attempt:
            if self.checkpoints is not None and isinstance(event, core.SubtaskAcknowledged):
                # It is counted, and nobody else would ever delete its files.
                self.checkpoints.handle(event)
        elif isinstance(event, events.FromOperator):
            self._operators.handle(event)
        elif isinstance(event, events.StateQueried):
            self.current.queries.answered(event)
        elif isinstance(event, events.TaskInitialized):
            self._on_initialized(event.subtask)
        elif isinstance(event, events.TaskFailed):
            self._on_failed(event)
        elif isinstance(event, events.TaskFinished):
            self.metrics.ended(event.attempt, event.subtask, event.metrics, self.now_ms)
            self.current.finished(event.subtask)
            self._go_on_when_stopped()
        elif isinstance(event, events.TaskStopped):
            self.current.stopped(event.subtask)
            self._go_on_when_stopped()
        elif self.checkpoints is not None:
            self.checkpoints.handle(event)
            self.rescaler.advance()

    def measured(self, taken: ProcessMetrics, taken_ms: int) -> None:
        """Take what a process measured, at a time in milliseconds since the Unix epoch."""
        self.metrics.update(taken, taken_ms)
        if taken.attempt == self.attempt:
            self.observer.measured(taken.subtasks)

    def tick(self) -> None:
        """Time passed: perform what is due."""
        self._operators.tick()
        if self.checkpoints is not None and not self.status.is_terminal_state():
            self.checkpoints.handle(core.TimePassed())
            self.rescaler.advance()
        self._go_on_when_stopped()

    def cancel(self) -> None:
        """Stop the job without a checkpoint."""
        if not self._life.allows(JobEvent.CANCEL_REQUESTED):
            return
        self._life.handle(JobEvent.CANCEL_REQUESTED)
        self._tasks.handle(TasksEvent.END)
        self.rescaler.job_ends("the job is cancelled")
        self._stop_tasks()
        self._go_on_when_stopped()

    def _on_initialized(self, subtask: SubtaskId) -> None:
        if self._tasks.state is not TasksPhase.DEPLOYING:
            # A late answer of an attempt that has failed since: its other subtasks are being stopped.
            return
        if not self.current.initialized(subtask):
            return
        self._life.handle(JobEvent.TASKS_RUNNING)
        self._tasks.handle(TasksEvent.INITIALIZED)
        self._failures.running()
        self.running_since_ms = self.now_ms
        attempt = self.current
        for target in sorted(attempt.graph.subtasks):
            self._ports.send(attempt.number, target, events.StartRunning())
        self.observer.running(attempt.number, attempt.restored, self.rescaler.running())
        if self._is_stopped or not self._operators.run(attempt.restored):
            return
        if self.checkpoints is not None:
            self.checkpoints.start(attempt.number, self._restarts, attempt.graph)

    @property
    def _is_stopped(self) -> bool:
        """Whether the job has taken its last checkpoint, so that nothing may be processed any more."""
        newest = self.ownership.newest
        return newest is not None and newest.kind.ends_job

    def _finish(self) -> None:
        self._life.handle(JobEvent.TASKS_FINISHED)
        self._tasks.handle(TasksEvent.END)
        self.rescaler.job_ends("the job has finished")
        self._operators.stop()
        if self.checkpoints is not None:
            self.checkpoints.handle(core.TasksStopped(core.AbortReason.SHUT_DOWN))
        self._clean_up(self.spec.settings.keep_on_finish)

    # ------------------------------------------------------------ failure

    def _on_failed(self, event: events.TaskFailed) -> None:
        self.current.stopped(event.subtask)
        if self._tasks.allows(TasksEvent.RESTART):
            repeated = self._failures.repeated(event)
            self._restart_or_give_up(event.cause, event.details, event.is_recoverable, repeated)
        else:
            self._go_on_when_stopped()

    def _operator_failed(self, cause: str, is_recoverable: bool) -> None:
        if self.checkpoints is None:
            self._fail_if_running(cause, is_recoverable)
        else:
            # Perhaps in the middle of what a checkpoint leads to.
            self.checkpoints.afterwards(lambda: self._fail_if_running(cause, is_recoverable))

    def _fail_if_running(self, cause: str, is_recoverable: bool) -> None:
        if self._tasks.allows(TasksEvent.RESTART):
            self._restart_or_give_up(cause, "", is_recoverable)

    def _lose_ownership(self, cause: str) -> None:
        """Another coordinator runs the job now: everything in storage is its own."""
        self.ownership.is_fenced = True
        self.rescaler.job_ends(cause)
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
        failure = Failure(cause, details, self.now_ms)
        self._life.handle(JobEvent.TASK_FAILED)
        self._fails(failure)
        if not self.ownership.is_fenced and self.rescaler.failed(cause):
            # The job itself did not fail, and runs again as it did before.
            decision: RestartDecision = Restart(0)
        else:
            decision = self._failures.decide(failure, is_recoverable, repeated, bool(self._restarts))
        if isinstance(decision, GiveUp):
            logger.error("The job %s fails: %s", self.job_name, cause)
            self.rescaler.job_ends(cause)
            self._life.handle(JobEvent.GAVE_UP)
            self._tasks.handle(TasksEvent.END)
        else:
            logger.warning("The job %s restarts in %d ms: %s", self.job_name, decision.delay_ms, cause)
            self._tasks.restart(failure.occurred_ms + decision.delay_ms)
        self._stop_tasks()
        self._go_on_when_stopped()

    def _fails(self, failure: Failure) -> None:
        self._failures.latest = failure
        self.observer.failed(failure)

    def _stop_tasks(self) -> None:
        self.current.queries.fail(f"the job is {self.status.name}")
        self._operators.stop()
        is_restart = self._tasks.state is TasksPhase.STOPPING
        if is_restart:
            is_rescale, failure = self.rescaler.is_stopping, self.failure
            if is_rescale or failure is None:
                self.observer.restarting(self.rescaler.description if is_rescale else "", is_rescale)
            else:
                self.observer.restarting(failure.cause, is_rescale, failure.occurred_ms)
        else:
            self.observer.ending(self.status)
        if self.checkpoints is not None:
            ending = core.AbortReason.SUSPENDED if self.ownership.is_fenced else core.AbortReason.SHUT_DOWN
            reason = core.AbortReason.RESTARTED if is_restart else ending
            self.checkpoints.handle(core.TasksStopped(reason))
        if self.current.live:
            self.observer.stopping(self.current.live)
            self._ports.stop(self.attempt, sorted(self.current.live))

    def _go_on_when_stopped(self) -> None:
        if self.current.live:
            return
        if self.status is JobStatus.RUNNING:
            if self.ownership.may_end():
                self._finish()
            return
        self.observer.stopped()
        if self._tasks.state is TasksPhase.STOPPING:
            self._tasks.handle(TasksEvent.STOPPED)
        if self._tasks.is_due(self.now_ms):
            if self._knows_newest():
                self._deploy()
        elif self.status in (JobStatus.FAILING, JobStatus.CANCELLING) and self.ownership.may_end():
            settings = self.spec.settings
            ended = self._life.handle(JobEvent.TASKS_STOPPED)
            # What could not be restored may be all that is left of the state, and somebody can repair it.
            keep_on_fail = settings.keep_on_fail or self._failures.is_final
            self._clean_up(keep_on_fail if ended is JobStatus.FAILED else settings.keep_on_cancel)

    def _knows_newest(self) -> bool:
        """Whether it is certain which checkpoint is the newest; if not, this is tried again later."""
        try:
            if self.store is not None:
                self.store.resolve_uncertain()
            return True
        except FencedError as error:
            self._lose_ownership(str(error))
        except CheckpointStorageError as error:
            self.observer.warned(f"the newest checkpoint cannot be found, so the job waits: {error}")
            self._tasks.postpone(self.now_ms + RETRY_MS)
        return False

    def _clean_up(self, keep_checkpoints: bool) -> None:
        self.observer.ended(self.status)
        if self.fail_points is not None:
            self.fail_points.settle()
        if self.ownership.is_fenced:
            return
        self.ownership.clean_up(keep_checkpoints)
        if self.fail_points is not None and not self.ownership.is_superseded:
            self.fail_points.remove_marks()
