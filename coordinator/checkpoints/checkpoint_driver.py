"""Performs what the checkpoint state machine decides: barriers, manifests, notifications, traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from ...common import failpoints
from ...common.errors import CheckpointStorageError, TidegateError
from ...protocol.checkpoints import checkpoint as core
from ...protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from ...protocol.checkpoints.trigger import TriggerPolicy
from ...protocol.elements import CheckpointBarrier, SavepointTarget, SnapshotKind
from ...protocol.event_queue import Cause, Decision, EventQueue
from ...protocol.ids import Attempt, CheckpointId, SubtaskId
from ...protocol.scheduling.execution_graph import ExecutionGraph
from ...protocol.task_events import CheckpointAborted, CheckpointCompleted, EndSource, TriggerCheckpoint
from ...telemetry import logs
from ..barrier_mode import BarrierMode, store_mode, stored_mode
from ..monitoring.job_observer import JobObserver
from ..operator_coordinators import OperatorCoordinators
from ..ports import CoordinatorPorts
from ..spec import JobSpec
from .checkpoint_cleaner import CheckpointCleaner
from .checkpoint_store import CheckpointStore, FencedError
from .savepoints import check_savepoint_directory, discard_savepoint, savepoint_path, write_savepoint

REQUESTS_PER_EPOCH = 1_000_000_000
"""Request numbers of one coordinator are below those of the next, so answers are never mixed up."""


class CheckpointDriver:
    """The checkpoints of one job.

    Args:
        policy: When checkpoints are taken.
        observer: Learns every event and what it led to; only its trace contexts are passed on.
        operators: The halves of operators in the coordinator, whose state a checkpoint holds too.
        fail: Called with the cause when too many checkpoints failed.
        stop: Called with the cause when this coordinator is fenced and must end.
        restart: Called with the cause when the tasks cannot go on from where they are.
    """

    def __init__(
        self,
        spec: JobSpec,
        policy: TriggerPolicy,
        store: CheckpointStore,
        ports: CoordinatorPorts,
        observer: JobObserver,
        operators: OperatorCoordinators,
        fail: Callable[[str], None],
        stop: Callable[[str], None],
        restart: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._policy = policy
        self._store = store
        self._ports = ports
        self._observer = observer
        self._log_context = logs.LogContext(spec.job_id, spec.job_name)
        self._operator_coordinators = operators
        self._fail = fail
        self._stop = stop
        self._restart = restart
        self._attempt = Attempt(0)
        self._request_count = 0
        self._answered: dict[core.RequestId, Callable[[core.AnswerRequest], None]] = {}
        started_with = BarrierMode(spec.settings.mode, spec.settings.aligned_timeout_ms)
        stored = stored_mode(store.storage, spec.job_id)
        if stored is not None:
            store.needs("mode")
        self._mode = self._wanted_mode = stored or started_with
        self._core = core.CheckpointCoordinator(policy, store.first_free_id())
        self._queue = EventQueue(self._take)
        self._cleaner = CheckpointCleaner(store, ports, observer.warned, self._cleaned)
        self._cleaning_count = 0

    def next_due_ms(self) -> int:
        """When `handle(TimePassed())` is due."""
        return self._core.next_due_ms()

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the state machine or of the store does not hold."""
        self._core.validate()
        self._store.validate()

    def request(
        self,
        kind: SnapshotKind = SnapshotKind.CHECKPOINT,
        savepoint: SavepointTarget | None = None,
        answered: Callable[[core.AnswerRequest], None] | None = None,
    ) -> core.RequestId:
        """Request a checkpoint, savepoint or stop now.

        Args:
            kind: What is requested.
            savepoint: Where the savepoint is to be, if one is requested.
            answered: Called once with the answer, perhaps before this method returns.

        Returns:
            The id under which the statistics have the answer.
        """
        self._request_count += 1
        request_id = core.RequestId(self._store.epoch * REQUESTS_PER_EPOCH + self._request_count)
        if answered is not None:
            self._answered[request_id] = answered
        self._observer.requested(request_id)
        newest = self._store.newest
        if newest is not None and newest.kind is kind and kind.ends_job and self._is_at(savepoint, newest):
            # The client lost the coordinator that took it, and requests it again.
            self._answer(core.AnswerRequest(request_id, newest.checkpoint_id, savepoint=savepoint))
            return request_id
        try:
            if savepoint is not None:
                check_savepoint_directory(savepoint.directory)
                self._store.check_fence()
        except CheckpointStorageError as error:
            refused = core.AbortReason.SAVEPOINT_REFUSED
            self._answer(core.AnswerRequest(request_id, None, refused, str(error)))
        else:
            requested = core.CheckpointRequested(request_id, kind, None, savepoint, self._forces(kind))
            self.handle(requested)
        return request_id

    def _is_at(self, target: SavepointTarget | None, stopped: CheckpointManifest) -> bool:
        """Whether the job was stopped with the requested savepoint."""
        return target is not None and self._path(target, stopped.checkpoint_id) == stopped.savepoint_path

    def _path(self, target: SavepointTarget | None, checkpoint_id: CheckpointId | None) -> str:
        """Address of the savepoint of a checkpoint; empty if there is none."""
        if target is None or checkpoint_id is None:
            return ""
        return savepoint_path(target.directory, self._spec.job_id, checkpoint_id)

    def _answer(self, command: core.AnswerRequest) -> None:
        path = self._path(command.savepoint, command.checkpoint_id)
        answer = replace(command, savepoint_path=path)
        self._observer.answered(answer)
        answered = self._answered.pop(command.request_id, None)
        if answered is not None:
            answered(answer)

    def _forces(self, kind: SnapshotKind) -> bool:
        """As Flink, not where barriers overtake: a task can store the records of one checkpoint at a time."""
        modes = (self._mode, self._wanted_mode)
        return kind is SnapshotKind.SAVEPOINT and all(mode.aligned_timeout_ms is None for mode in modes)

    @property
    def ending(self) -> str:
        """Why the job is about to end, an empty text if it is not."""
        return self._core.ending

    @property
    def mode(self) -> BarrierMode:
        """How the barriers of the next checkpoint are handled."""
        return self._wanted_mode

    def set_mode(self, mode: BarrierMode) -> str:
        """Handle barriers in another way from the next checkpoint on, also after a restart.

        Returns:
            Why the job cannot work so, or why it could not be written down, so that nothing has changed; or
            an empty text.
        """
        try:
            mode.check(self._policy)
            self._store.check_fence()
            store_mode(self._store.storage, self._spec.job_id, mode, self._store.probe)
            self._store.needs("mode")
        except TidegateError as error:
            return str(error)
        self._wanted_mode = mode
        return ""

    def start(self, attempt: Attempt, attempt_number: int, graph: ExecutionGraph) -> None:
        """All subtasks of an attempt run."""
        self._attempt = attempt
        self._observer.checkpointing(attempt_number, graph)
        subtasks = frozenset(graph.subtasks)
        self.handle(core.TasksRunning(attempt, subtasks, graph.sources, self._initial_delay_ms()))

    def _initial_delay_ms(self) -> int:
        policy = self._policy
        interval = policy.interval_ms or 0
        if not self._spec.settings.random_initial_delay or interval <= policy.min_pause_ms:
            return interval
        return policy.min_pause_ms + self._ports.random_ms(interval - policy.min_pause_ms + 1)

    @property
    def has_pending_savepoint(self) -> bool:
        """Whether a savepoint that does not end the job is under way."""
        return any(each.barrier.kind is SnapshotKind.SAVEPOINT for each in self._core.pending.values())

    def handle(self, event: core.CheckpointEvent) -> None:
        """Feed the state machine; while it handles another event, after that one."""
        self._queue.put(event)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Run an action that may stop or deploy the tasks: once all that was decided is performed."""
        self._queue.afterwards(action)

    def _take(self, cause: Cause[core.CheckpointEvent]) -> None:
        """Handle one event of the queue and perform its commands. Events that follow from them wait."""
        now_ns = self._ports.now_ns()
        try:
            # The end of an attempt triggers nothing, and must be heard even when storage is gone.
            if not isinstance(cause.event, core.TasksStopped):
                self._store.reserve(self._core.next_checkpoint_id)
        except FencedError as error:
            self._end(self._stop, str(error))
            return
        except CheckpointStorageError as error:
            self._end(self._fail, f"checkpoint ids cannot be reserved: {error}")
            return
        commands = self._core.handle(cause.event, now_ns // 1_000_000)
        self._observer.decided(Decision(cause, tuple(commands)), self._core.counts)
        for command in commands:
            self._perform(command)

    def _end(self, how: Callable[[str], None], cause: str) -> None:
        """The tasks are to be stopped, by the coordinator of the job."""
        self.afterwards(lambda: how(cause))

    def _perform(self, command: core.CheckpointCommand) -> None:
        if isinstance(command, core.TriggerSubtasks):
            self._trigger(command)
        elif isinstance(command, core.RegisterFiles):
            self._register(command)
        elif isinstance(command, core.DiscardFiles):
            self._store.discard_files(command.acknowledgement.files() + command.acknowledgement.dropped())
            self._discard_savepoint(command.acknowledgement)
        elif isinstance(command, core.WriteManifest):
            self._write_manifest(command)
        elif isinstance(command, core.NotifyComplete):
            self._notify_complete(command)
        elif isinstance(command, core.NotifyAborted):
            self._aborted(command)
        elif isinstance(command, core.DeleteSubsumed):
            self._cleaner.collect()
            self._observer.deleting(command.checkpoint_id, self._cleaner.is_deleting)
        elif isinstance(command, core.AnswerRequest):
            self._answer(command)
        elif isinstance(command, core.DrainSources):
            for subtask in command.subtasks:
                self._ports.send(self._attempt, subtask, EndSource())
        elif isinstance(command, core.UndoDrain):
            self._end(self._restart, command.cause)
        else:
            self._end(self._fail, command.cause)

    def _notify_complete(self, command: core.NotifyComplete) -> None:
        completed = CheckpointCompleted(
            command.checkpoint_id, self._observer.trace_context(command.checkpoint_id)
        )
        for subtask in command.subtasks:
            self._ports.send(self._attempt, subtask, completed)
        with self._within(command.checkpoint_id):
            self._operator_coordinators.complete(command.checkpoint_id)

    def _within(self, checkpoint_id: CheckpointId) -> AbstractContextManager[None]:
        """Lines that are logged meanwhile belong to the trace of this checkpoint."""
        return logs.entered(self._log_context.within(self._observer.trace_context(checkpoint_id)))

    def _register(self, command: core.RegisterFiles) -> None:
        acknowledgement = command.acknowledgement
        self._store.register_acknowledgement(
            command.subtask, command.checkpoint_id, acknowledgement.files(), command.is_pending
        )
        self._store.discard_files(acknowledgement.dropped())
        if not command.is_pending:
            self._discard_savepoint(acknowledgement)

    def _trigger(self, command: core.TriggerSubtasks) -> None:
        barrier = command.barrier
        if command.is_new and len(self._core.pending) == 1:
            # Not while another one is under way: tasks handle all barriers at once in one way.
            self._mode = self._wanted_mode
        if command.is_new and not self._snapshot_halves(barrier.checkpoint_id):
            return
        sent = replace(
            barrier,
            trace_context=self._observer.trace_context(barrier.checkpoint_id),
            mode=self._mode.mode,
            aligned_timeout_ms=None if barrier.savepoint else self._mode.aligned_timeout_ms,
            savepoint=self._target(barrier),
        )
        for subtask in command.subtasks:
            self._ports.send(self._attempt, subtask, TriggerCheckpoint(sent))

    def _snapshot_halves(self, checkpoint_id: CheckpointId) -> bool:
        """Before any barrier is sent; nothing of a failure reaches a task but the abort."""
        try:
            with self._within(checkpoint_id):
                self._operator_coordinators.snapshot(checkpoint_id)
        except TidegateError as error:
            first = self._operator_coordinators.subtasks[0]
            reason = core.AbortReason.SYNC_FAILED
            self.handle(core.SubtaskDeclined(self._attempt, first, checkpoint_id, str(error), reason))
            return False
        return True

    def _target(self, barrier: CheckpointBarrier) -> SavepointTarget | None:
        if barrier.savepoint is None:
            return None
        path = self._path(barrier.savepoint, barrier.checkpoint_id)
        threshold = self._spec.settings.inline_threshold_bytes
        return replace(barrier.savepoint, directory=path, inline_threshold_bytes=threshold)

    def _write_manifest(self, command: core.WriteManifest) -> None:
        manifest = self._manifest(command.barrier, command)
        history = self._observer.writing(manifest, self._store.newest)
        if manifest.kind is not SnapshotKind.SAVEPOINT:
            manifest = replace(manifest, statistics=history)
        try:
            if manifest.savepoint_path:
                self._write_savepoint(command, manifest)
            if manifest.kind is SnapshotKind.SAVEPOINT:
                self._store.release(command.checkpoint_id)
            else:
                self._store.complete(manifest)
        except FencedError as error:
            self._end(self._stop, str(error))
        except CheckpointStorageError as error:
            self._warn_of_doubtful_savepoint(manifest)
            self.handle(core.ManifestFailed(command.checkpoint_id, str(error)))
        else:
            self._count_cleaning()
            self.handle(core.ManifestWritten(command.checkpoint_id))

    def _write_savepoint(self, command: core.WriteManifest, manifest: CheckpointManifest) -> None:
        """Before the checkpoint of a stop: nothing may be committed that the savepoint could still lose."""
        self._store.check_fence()
        parts = {
            subtask: core.Acknowledgement(acknowledgement.savepoint.snapshots)
            for subtask, acknowledgement in command.acknowledgements.items()
            if acknowledgement.savepoint is not None
        }
        stored = replace(
            manifest,
            kind=SnapshotKind.SAVEPOINT,
            operators=self._operators(manifest.checkpoint_id, parts),
            savepoint_path="",
            statistics=None,
        )
        write_savepoint(manifest.savepoint_path, stored)

    def _warn_of_doubtful_savepoint(self, manifest: CheckpointManifest) -> None:
        """The checkpoint of a stop may exist after all, and then the job has stopped with this savepoint."""
        if self._store.is_uncertain(manifest.checkpoint_id) and manifest.savepoint_path:
            self._observer.warned(
                f"the job was not stopped, but its savepoint {manifest.savepoint_path} is complete and stays"
            )

    def _discard_savepoint(self, acknowledgement: core.Acknowledgement) -> None:
        """What came too late for a savepoint must not lie about in a directory of the user's."""
        if acknowledgement.savepoint is not None:
            self._discard_directory(acknowledgement.savepoint.directory)

    def _discard_directory(self, path: str) -> None:
        def discard() -> None:
            if self._store.fenced:
                # Its successor may have found the checkpoint of a stop, and so completed this savepoint.
                return
            try:
                discard_savepoint(path)
            except CheckpointStorageError as error:
                self._observer.warned(f"a failed savepoint could not be removed: {error}")

        self._ports.run_in_background(discard)

    def _count_cleaning(self) -> None:
        """Before the next trigger is decided: it waits where deletions lag behind."""
        before, count = self._cleaning_count, self._cleaner.waiting_count
        if count == before:
            return
        self._cleaning_count = count
        bound = self._policy.max_concurrent
        if before <= bound < count:
            self._observer.warned(self._cleaner.warning(bound))
        self.handle(core.CleaningCounted(count))

    def remove_orphans(self, is_recovery: bool) -> None:
        """Delete in the background what the attempts before left behind; only while no task runs."""
        try:
            if is_recovery:
                failpoints.reach("recover")
            self._store.find_orphans()
        except CheckpointStorageError as error:
            self._observer.warned(f"orphaned files could not be found: {error}")
        self._cleaner.collect()

    def _manifest(self, barrier: CheckpointBarrier, command: core.WriteManifest) -> CheckpointManifest:
        return CheckpointManifest(
            job_id=self._spec.job_id,
            job_name=self._spec.job_name,
            checkpoint_id=barrier.checkpoint_id,
            kind=barrier.kind,
            triggered_ms=barrier.timestamp_ms,
            completed_ms=self._ports.now_ns() // 1_000_000,
            operators=self._operators(barrier.checkpoint_id, command.acknowledgements),
            savepoint_path=self._path(barrier.savepoint, barrier.checkpoint_id),
        )

    def _operators(
        self, checkpoint_id: CheckpointId, acknowledgements: Mapping[SubtaskId, core.Acknowledgement]
    ) -> dict[str, OperatorManifest]:
        operators = {node.uid: node for node in self._spec.graph.operators}
        snapshots = core.operator_snapshots(acknowledgements, operators)
        return {
            uid: OperatorManifest(
                uid,
                node.name,
                node.max_parallelism,
                tuple(snapshots[uid]),
                self._operator_coordinators.state_of(checkpoint_id, uid),
            )
            for uid, node in operators.items()
        }

    def _aborted(self, command: core.NotifyAborted) -> None:
        for subtask in command.subtasks:
            self._ports.send(self._attempt, subtask, CheckpointAborted(command.checkpoint_id))
        self._operator_coordinators.forget(command.checkpoint_id)
        self._store.abort(command.checkpoint_id)
        self._count_cleaning()
        path = self._path(command.savepoint, command.checkpoint_id)
        if path and not self._store.is_uncertain(command.checkpoint_id):
            self._discard_directory(path)
        self._cleaner.collect()

    def _cleaned(self) -> None:
        self._observer.deleted()
        self._count_cleaning()
