"""Performs what the checkpoint state machine decides: barriers, manifests, notifications, traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from ..common import failpoints
from ..common.errors import CheckpointStorageError, TidegateError
from ..protocol import checkpoint as core
from ..protocol.elements import CheckpointBarrier, SavepointTarget, SnapshotKind
from ..protocol.execution_graph import ExecutionGraph
from ..protocol.ids import Attempt, CheckpointId, SubtaskId
from ..protocol.manifest import CheckpointManifest, OperatorManifest
from ..protocol.task_events import (
    CheckpointAborted,
    CheckpointCompleted,
    EndSource,
    SpansRecorded,
    TriggerCheckpoint,
)
from ..telemetry import logs
from .barrier_mode import BarrierMode, store_mode, stored_mode
from .checkpoint_log import log_end
from .checkpoint_store import CheckpointStore, FencedError
from .checkpoint_traces import CheckpointTraces
from .cleaner import CheckpointCleaner
from .operator_coordinators import OperatorCoordinators
from .ports import CoordinatorPorts
from .savepoints import check_savepoint_directory, discard_savepoint, savepoint_path, write_savepoint
from .spec import JobSpec
from .statistics import CheckpointOutcome, CheckpointStatistics, JobShape, JobStatistics, job_shape
from .stored_statistics import stored_statistics
from .traces import JobTraces

REQUESTS_PER_EPOCH = 1_000_000_000
"""Request numbers of one coordinator are below those of the next, so answers are never mixed up."""


class CheckpointDriver:
    """The checkpoints of one job.

    Args:
        operators: The halves of operators in the coordinator, whose state a checkpoint holds too.
        fail: Called with the cause when too many checkpoints failed.
        stop: Called with the cause when this coordinator is fenced and must end.
        restart: Called with the cause when the tasks cannot go on from where they are.
    """

    def __init__(
        self,
        spec: JobSpec,
        store: CheckpointStore,
        ports: CoordinatorPorts,
        traces: JobTraces,
        statistics: JobStatistics,
        operators: OperatorCoordinators,
        fail: Callable[[str], None],
        stop: Callable[[str], None],
        restart: Callable[[str], None],
    ) -> None:
        assert spec.settings.trigger is not None
        self._spec = spec
        self._graph = ExecutionGraph({}, {})
        self._shape: JobShape = {}
        self._store = store
        self._ports = ports
        self._job_traces = traces
        self._traces = CheckpointTraces(traces, statistics)
        self._log_context = logs.LogContext(spec.job_id, spec.job_name)
        self._statistics = statistics
        self._halves = operators
        self._fail = fail
        self._stop = stop
        self._restart = restart
        self._attempt = Attempt(0)
        self._attempt_number = 0
        self._request_count = 0
        self._savepoint_paths: dict[CheckpointId, str] = {}
        started_with = BarrierMode(spec.settings.mode, spec.settings.aligned_timeout_ms)
        stored = stored_mode(store.storage, spec.job_id)
        if stored is not None:
            store.needs("mode")
        self._mode = self._wanted_mode = stored or started_with
        self._core = core.CheckpointCoordinator(spec.settings.trigger, store.first_free_id())
        self._counted_before = statistics.acknowledgements
        self._cleaner = CheckpointCleaner(store, ports, statistics.warnings.append, self._cleaned)
        self._cleaning_count = 0

    def next_due_ms(self) -> int:
        """When `handle(TimePassed())` is due."""
        return self._core.next_due_ms()

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the state machine or of the store does not hold."""
        self._core.validate()
        self._store.validate()

    def request(
        self, kind: SnapshotKind = SnapshotKind.CHECKPOINT, savepoint: SavepointTarget | None = None
    ) -> core.RequestId:
        """Ask for a checkpoint, savepoint or stop now.

        Its answer will be in the statistics under the returned id.
        """
        self._request_count += 1
        request_id = core.RequestId(self._store.epoch * REQUESTS_PER_EPOCH + self._request_count)
        self._statistics.requested(request_id)
        newest = self._store.newest
        if newest is not None and newest.kind is kind and kind.ends_job and self._is_at(savepoint, newest):
            # Whoever asked lost the coordinator that did it, and asks again.
            done = core.AnswerRequest(request_id, newest.checkpoint_id, savepoint_path=newest.savepoint_path)
            self._statistics.answered(done)
            return request_id
        try:
            if savepoint is not None:
                check_savepoint_directory(savepoint.directory)
                self._store.check_fence()
        except CheckpointStorageError as error:
            refused = core.AbortReason.SAVEPOINT_REFUSED
            self._statistics.answered(core.AnswerRequest(request_id, None, refused, str(error)))
        else:
            requested = core.CheckpointRequested(request_id, kind, None, savepoint, self._forces(kind))
            self.handle(requested)
        return request_id

    def _is_at(self, target: SavepointTarget | None, stopped: CheckpointManifest) -> bool:
        """Whether the job was stopped with the savepoint that this asks for."""
        if target is None:
            return False
        path = savepoint_path(target.directory, self._spec.job_id, stopped.checkpoint_id)
        return path == stopped.savepoint_path

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
        assert self._spec.settings.trigger is not None
        try:
            mode.check(self._spec.settings.trigger)
            self._store.check_fence()
            store_mode(self._store.storage, self._spec.job_id, mode, self._store.probe)
            self._store.needs("mode")
        except TidegateError as error:
            return str(error)
        self._wanted_mode = mode
        return ""

    def start(self, attempt: Attempt, attempt_number: int, graph: ExecutionGraph) -> None:
        """All subtasks of an attempt run."""
        self._attempt, self._attempt_number = attempt, attempt_number
        self._graph, self._shape = graph, job_shape(graph)
        subtasks = frozenset(graph.subtasks)
        self.handle(core.TasksRunning(attempt, subtasks, graph.sources, self._initial_delay_ms()))

    def _initial_delay_ms(self) -> int:
        policy = self._spec.settings.trigger
        assert policy is not None
        interval = policy.interval_ms or 0
        if not self._spec.settings.random_initial_delay or interval <= policy.min_pause_ms:
            return interval
        return policy.min_pause_ms + self._ports.random_ms(interval - policy.min_pause_ms + 1)

    def handle(self, event: core.CheckpointEvent) -> None:
        """Feed the state machine and perform its commands, and those that follow from them."""
        started_ns = self._ports.now_ns()
        try:
            # The end of an attempt triggers nothing, and must be heard even when storage is gone.
            if not isinstance(event, core.TasksStopped):
                self._store.reserve(self._core.next_checkpoint_id)
        except FencedError as error:
            self._stop(str(error))
            return
        except CheckpointStorageError as error:
            self._fail(f"checkpoint ids cannot be reserved: {error}")
            return
        if isinstance(event, core.TasksStopped):
            self._traces.attempt_ended()
        commands = self._core.handle(event, started_ns // 1_000_000)
        self._statistics.acknowledgements = {
            result: before + self._core.counts[result] for result, before in self._counted_before.items()
        }
        for command in commands:
            self._perform(command)

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
            context = self._traces.context(command.checkpoint_id)
            completed = CheckpointCompleted(command.checkpoint_id, context)
            self._traces.notified(command.checkpoint_id, command.subtasks)
            for subtask in command.subtasks:
                self._ports.send(self._attempt, subtask, completed)
            with self._within(command.checkpoint_id):
                self._halves.complete(command.checkpoint_id)
        elif isinstance(command, core.NotifyAborted):
            self._aborted(command)
        elif isinstance(command, core.AnswerRequest):
            path = self._savepoint_paths.get(command.checkpoint_id or CheckpointId(0), "")
            self._statistics.answered(replace(command, savepoint_path=path))
        elif isinstance(command, core.DrainSources):
            for subtask in command.subtasks:
                self._ports.send(self._attempt, subtask, EndSource())
        elif isinstance(command, core.UndoDrain):
            self._restart(command.cause)
        else:
            self._fail(command.cause)

    def _within(self, checkpoint_id: CheckpointId) -> AbstractContextManager[None]:
        """Lines that are logged meanwhile belong to the trace of this checkpoint."""
        return logs.entered(self._log_context.within(self._traces.context(checkpoint_id)))

    def _register(self, command: core.RegisterFiles) -> None:
        acknowledgement = command.acknowledgement
        self._store.register_acknowledgement(
            command.subtask, command.checkpoint_id, acknowledgement.files(), command.is_pending
        )
        self._store.discard_files(acknowledgement.dropped())
        if command.is_pending:
            metrics = self._located(command.checkpoint_id, command.subtask, acknowledgement.metrics)
            self._statistics.acknowledged(command.checkpoint_id, command.subtask, metrics)
            checkpoint = self._statistics.in_progress[command.checkpoint_id]
            self._traces.acknowledged(checkpoint, command.subtask, metrics, self._ports.now_ns())
        else:
            self._discard_savepoint(acknowledgement)

    def _located(
        self, checkpoint_id: CheckpointId, subtask: SubtaskId, metrics: core.SubtaskMetrics
    ) -> core.SubtaskMetrics:
        """What a subtask measured, by the coordinator's clock, and whose barrier it waited for."""
        acknowledged_ms = (
            self._ports.now_ns() / 1e6 - self._statistics.in_progress[checkpoint_id].triggered_ms
        )
        if metrics.taken_ms is None:
            return replace(metrics, acknowledged_ms=acknowledged_ms)
        first_ms = min(metrics.start_delay_ms, metrics.taken_ms - metrics.queued_ms)
        told_ms = (
            metrics.taken_ms + metrics.prepare_ms + metrics.sync_ms + metrics.async_ms + metrics.report_ms
        )
        skew_ms = self._job_traces.skews.observe(subtask, told_ms - acknowledged_ms, first_ms)
        index = metrics.last_channel
        upstream = None if index < 0 else self._graph.subtasks[subtask].upstream_of(index)
        return replace(
            metrics,
            start_delay_ms=max(0.0, metrics.start_delay_ms - skew_ms),
            taken_ms=max(0.0, metrics.taken_ms - skew_ms),
            acknowledged_ms=acknowledged_ms,
            skew_ms=skew_ms,
            upstream=upstream,
        )

    def _trigger(self, command: core.TriggerSubtasks) -> None:
        barrier = command.barrier
        if command.is_new and len(self._core.pending) == 1:
            # Not while another one is under way: tasks handle all barriers at once in one way.
            self._mode = self._wanted_mode
        if command.is_new:
            self._statistics.started(
                CheckpointStatistics(
                    barrier.checkpoint_id,
                    CheckpointOutcome.IN_PROGRESS,
                    barrier.timestamp_ms,
                    0.0,
                    kind=barrier.kind,
                    subtask_count=len(self._graph.subtasks),
                    shape=self._shape,
                )
            )
            self._traces.begin(barrier, self._attempt_number, len(self._graph.subtasks))
        if command.is_new and not self._snapshot_halves(barrier.checkpoint_id):
            return
        sent = replace(
            barrier,
            trace_context=self._traces.context(barrier.checkpoint_id),
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
                self._halves.snapshot(checkpoint_id)
        except TidegateError as error:
            first = self._halves.subtasks[0]
            reason = core.AbortReason.SYNC_FAILED
            self.handle(core.SubtaskDeclined(self._attempt, first, checkpoint_id, str(error), reason))
            return False
        return True

    def _target(self, barrier: CheckpointBarrier) -> SavepointTarget | None:
        if barrier.savepoint is None:
            return None
        path = savepoint_path(barrier.savepoint.directory, self._spec.job_id, barrier.checkpoint_id)
        self._savepoint_paths[barrier.checkpoint_id] = path
        threshold = self._spec.settings.inline_threshold_bytes
        return replace(barrier.savepoint, directory=path, inline_threshold_bytes=threshold)

    def _write_manifest(self, command: core.WriteManifest) -> None:
        started_ns = self._ports.now_ns()
        manifest = self._manifest(command.barrier, command)
        completed = self._completed(manifest)
        if manifest.kind is not SnapshotKind.SAVEPOINT:
            manifest = replace(manifest, statistics=stored_statistics(self._statistics, completed))
        try:
            if manifest.savepoint_path:
                self._write_savepoint(command, manifest)
            if manifest.kind is SnapshotKind.SAVEPOINT:
                self._store.release(command.checkpoint_id)
            else:
                self._store.complete(manifest)
        except FencedError as error:
            self._stop(str(error))
            return
        except CheckpointStorageError as error:
            self._keep_doubtful_savepoint(manifest)
            self.handle(core.ManifestFailed(command.checkpoint_id, str(error)))
            return
        self._traces.committed(command.checkpoint_id, started_ns)
        self._record(completed)
        self._count_cleaning()
        self.handle(core.ManifestWritten(command.checkpoint_id))
        self._savepoint_paths.pop(command.checkpoint_id, None)
        self._cleaner.collect()
        if self._cleaner.is_deleting:
            self._traces.cleaning(command.checkpoint_id)
        self._traces.settled(command.checkpoint_id)

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

    def _keep_doubtful_savepoint(self, manifest: CheckpointManifest) -> None:
        """The checkpoint of a stop may exist after all, and then the job has stopped with this savepoint."""
        if self._store.is_doubtful(manifest.checkpoint_id) and manifest.savepoint_path:
            del self._savepoint_paths[manifest.checkpoint_id]
            self._statistics.warnings.append(
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
                self._statistics.warnings.append(f"a failed savepoint could not be removed: {error}")

        self._ports.run_in_background(discard)

    def _count_cleaning(self) -> None:
        """Before the next trigger is decided: it waits where deletions lag behind."""
        before, count = self._cleaning_count, self._cleaner.waiting_count
        if count == before:
            return
        self._cleaning_count = count
        assert self._spec.settings.trigger is not None
        bound = self._spec.settings.trigger.max_concurrent
        if before <= bound < count:
            self._statistics.warnings.append(self._cleaner.warning(bound))
        self.handle(core.CleaningCounted(count))

    def remove_orphans(self, is_recovery: bool) -> None:
        """Delete in the background what the attempts before left behind; only while no task runs."""
        try:
            if is_recovery:
                failpoints.reach("recover")
            self._store.find_orphans()
        except CheckpointStorageError as error:
            self._statistics.warnings.append(f"orphaned files could not be found: {error}")
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
            savepoint_path=self._savepoint_paths.get(barrier.checkpoint_id, ""),
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
                self._halves.state_of(checkpoint_id, uid),
            )
            for uid, node in operators.items()
        }

    def _completed(self, manifest: CheckpointManifest) -> CheckpointStatistics:
        before = self._store.newest
        old_files = {handle.path for handle in before.files()} if before is not None else set()
        new_files = {h.path: h.size_bytes for h in manifest.files() if h.path not in old_files}
        return replace(
            self._statistics.in_progress[manifest.checkpoint_id],
            outcome=CheckpointOutcome.COMPLETED,
            duration_ms=manifest.completed_ms - manifest.triggered_ms,
            size_bytes=manifest.size_bytes,
            new_bytes=sum(new_files.values()),
        )

    def _aborted(self, command: core.NotifyAborted) -> None:
        for subtask in command.subtasks:
            self._ports.send(self._attempt, subtask, CheckpointAborted(command.checkpoint_id))
        self._halves.forget(command.checkpoint_id)
        self._store.abort(command.checkpoint_id)
        self._count_cleaning()
        path = self._savepoint_paths.pop(command.checkpoint_id, None)
        if path is not None:
            self._discard_directory(path)
        detail = f": {command.cause}" if command.cause else ""
        self._record(
            replace(
                self._statistics.in_progress[command.checkpoint_id],
                outcome=CheckpointOutcome.ABORTED,
                reason=f"{command.reason.value}{detail}",
                abort_reason=command.reason,
            )
        )
        self._cleaner.collect()

    def _record(self, checkpoint: CheckpointStatistics) -> None:
        now_ns = self._ports.now_ns()
        statistics = replace(checkpoint, duration_ms=now_ns / 1e6 - checkpoint.triggered_ms)
        self._statistics.ended(statistics)
        with self._within(checkpoint.checkpoint_id):
            log_end(statistics)
        self._traces.ended(statistics, now_ns)

    def spans_recorded(self, event: SpansRecorded) -> None:
        """A task sent spans, which were forwarded."""
        self._traces.heard(event, self._ports.now_ns())

    def _cleaned(self) -> None:
        self._traces.cleaned(self._ports.now_ns())
        self._count_cleaning()
