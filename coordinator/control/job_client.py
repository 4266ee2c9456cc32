"""What a driver holds of a running job (PyFlink's `JobClient`), and what a shell provides for it."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...common.completable_future import CompletableFuture
from ...common.errors import (
    CheckpointStorageError,
    ConfigurationError,
    JobCancelledError,
    JobExecutionError,
    JobTimeoutError,
    StateError,
)
from ...common.job_client import JobClient as BaseJobClient
from ...common.job_execution_result import JobExecutionResult
from ...common.job_id import JobID
from ...common.job_status import JobStatus
from ...common.time import Duration
from ...protocol.elements import CheckpointingMode, SavepointFormatType, SnapshotKind
from ...protocol.ids import CheckpointId
from ...protocol.scheduling.rescaling import ALL_OPERATORS, RescaleError
from ...state.serializers.key_codec import checked_key
from ...state.storage.checkpoint_storage import absolute_address
from ..barrier_mode import BarrierMode
from .control_requests import (
    Cancel,
    ControlRequest,
    GetDetails,
    GetProcesses,
    GetReport,
    R,
    Rescale,
    SetBarrierMode,
    StateQuery,
    TakeCheckpoint,
    TakeSavepoint,
)
from .finished_job import DetachedJob, FinishedJob
from .later_answers import answered, answered_later

if TYPE_CHECKING:
    # What a driver gets only when its job runs: the job would start later if it were imported before.
    from ...protocol.checkpoints.checkpoint_events import AnswerRequest, RequestId
    from ..monitoring.job_details import JobDetails
    from ..monitoring.job_report import JobReport
    from ..monitoring.statistics import RescaleStatistics

logger = logging.getLogger(__name__)

_POLL_S = 0.02
# How long one question for results may stay open; the answer comes as soon as there are some.
_RESULTS_WAIT_S = 1.0


class JobHandle(Protocol):
    """One job in one shell."""

    def ask(self, request: ControlRequest[R]) -> R:
        """Answer a request.

        Raises:
            JobExecutionError: The job has ended and cannot perform it, or its coordinator is gone.
        """

    def take_results(self, timeout_s: float = 0.0) -> list[Any]:
        """Collected records that arrived since the last call.

        Args:
            timeout_s: How long to wait for the first, in seconds. A wait ends with the job, too.
        """

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end; false when the time is over first."""

    def release(self) -> None:
        """The driver is done with the job: nothing of it may stay once it is over."""


class JobClient(BaseJobClient):
    """Watches and steers one job. Calls that PyFlink answers with a future do so here too."""

    def __init__(self, job_id: JobID, handle: JobHandle) -> None:
        self._job_id = job_id
        self._handle = handle
        self._started_s = time.monotonic()
        self._runtime_s: float | None = None

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return self._job_id

    @property
    def runtime_s(self) -> float:
        """Seconds from the job's start until `result` saw its end, until now as long as it has not."""
        return time.monotonic() - self._started_s if self._runtime_s is None else self._runtime_s

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Where the job is in its life."""
        return answered(lambda: self.report().status)

    def report(self) -> JobReport:
        """Status, last failure, restarts, checkpoint history."""
        return self._handle.ask(GetReport())

    def details(self) -> JobDetails:
        """The report with plan, subtasks, metrics, failures and settings, as the console shows them."""
        return self._handle.ask(GetDetails())

    def processes(self) -> dict[str, int]:
        """The live task processes, each with its id and named after its subtasks: `operator (1/2)`.

        On its own node, such an id can be watched with the tools of the system, or killed to see the
        job recover. A local job runs in the driver and has none.
        """
        return self._handle.ask(GetProcesses())

    def cancel(self) -> CompletableFuture[None]:
        """Stop the job without a checkpoint."""
        return answered(lambda: self._handle.ask(Cancel()))

    def trigger_checkpoint(self, timeout_s: float = 60.0) -> CheckpointId:
        """Take a checkpoint now and wait until it is complete.

        Raises:
            ConfigurationError: Checkpointing is off.
            JobExecutionError: It was aborted, the job ended, or the time is over.
        """
        return self._answer_to(TakeCheckpoint(), "checkpoint", timeout_s).checkpoint_id

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
        timeout_s: float = 600.0,
    ) -> CompletableFuture[str]:
        """Take a savepoint: a copy of the job's state that is yours, while the job goes on.

        Args:
            savepoint_directory: Where it makes a directory of its own; it must be absent or empty, or hold
                other savepoints only. By default `execution.checkpointing.savepoint-dir`.
            format_type: How keyed state is stored.
            timeout_s: How long to wait.

        Returns:
            The path of the savepoint, or a `JobExecutionError` that says why there is none.
        """
        return self._savepoint(SnapshotKind.SAVEPOINT, savepoint_directory, format_type, timeout_s)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool = False,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
        timeout_s: float = 600.0,
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; it is FINISHED afterwards, and its sinks have committed everything.

        If the savepoint fails the job goes on. A second stop in the same way shares the outcome of the first.

        Args:
            advance_to_end_of_event_time: Drain: end all sources, so that all windows and event-time timers
                fire before the savepoint. Do not start a job from it that is to go on with the same input.
                Without, nothing is processed after the barrier, and a job goes on from there.
            savepoint_directory: As in `trigger_savepoint`.
            format_type: How keyed state is stored.
            timeout_s: How long to wait.

        Returns:
            The path of the savepoint, or a `JobExecutionError` that says why there is none.
        """
        kind = SnapshotKind.FINAL if advance_to_end_of_event_time else SnapshotKind.STOP
        return self._savepoint(kind, savepoint_directory, format_type, timeout_s)

    def set_checkpointing_mode(
        self,
        checkpointing_mode: CheckpointingMode,
        unaligned: bool = False,
        aligned_timeout: Duration | None = None,
    ) -> None:
        """Change how the running job takes its checkpoints, from the next one on, also after a restart of it.

        Args:
            checkpointing_mode: Exactly-once or at-least-once.
            unaligned: Whether barriers may overtake records; needs exactly-once.
            aligned_timeout: How long an unaligned checkpoint first tries to align; by default not at all.

        Raises:
            ConfigurationError: The job cannot work so; nothing has changed.
        """
        timeout_ms = 0 if aligned_timeout is None else aligned_timeout.to_millis()
        mode = BarrierMode(checkpointing_mode, timeout_ms if unaligned else None)
        problem = self._handle.ask(SetBarrierMode(mode))
        if problem:
            raise ConfigurationError(f"the checkpointing mode cannot be changed to {mode}: {problem}")

    def rescale(self, parallelism: int | Mapping[str, int], timeout_s: float = 60.0) -> None:
        """Give the running job another parallelism, through a checkpoint, and wait until it runs so.

        The job keeps it when it is restarted. If its new subtasks do not come to run, it goes back.

        Args:
            parallelism: Numbers of subtasks by the uid or the name of an operator. What is chained, or joined
                by a forward exchange, changes together. A single number is for every operator that the
                program did not limit to one subtask.
            timeout_s: How long to wait.

        Raises:
            RescaleError: It cannot be, or failed; the message says why, and nothing has changed.
            JobExecutionError: The job is over, or the time is; then the rescale may still come.
        """
        wanted = {ALL_OPERATORS: parallelism} if isinstance(parallelism, int) else dict(parallelism)
        deadline = time.monotonic() + timeout_s
        before = _last_rescale(self.report())
        is_asked_again = False
        while True:
            problem = self._handle.ask(Rescale(wanted))
            if problem:
                raise RescaleError(f"Cannot rescale {_listed(wanted)}: {problem}")
            ended = self._rescale_ended(deadline, before)
            if ended is not None and ended.failure:
                raise RescaleError(f"Could not rescale {_listed(wanted)}: {ended.failure}")
            if ended is not None or is_asked_again:
                return
            # Nothing was to be done, or a coordinator was lost that knew of it; the next one is asked too.
            is_asked_again = True

    def _rescale_ended(self, deadline: float, before: int) -> RescaleStatistics | None:
        """The rescale after number `before` when it is over, `None` if none is under way."""
        while True:
            report = self.report()
            if report.status.is_globally_terminal_state():
                raise JobExecutionError(f"the job is {report.status.name}; it was not rescaled")
            if report.rescaling is None:
                last = _last_rescale(report)
                return report.statistics.rescales[-1] if last > before else None
            if time.monotonic() >= deadline:
                raise JobTimeoutError(
                    f"the rescale of {_listed(report.rescaling.to_parallelism)} did not end in time; it "
                    f"continues, and report().rescaling shows its progress"
                )
            self._handle.wait(_POLL_S)

    def _savepoint(
        self, kind: SnapshotKind, directory: str | None, format_type: SavepointFormatType, timeout_s: float
    ) -> CompletableFuture[str]:
        # The coordinator has another working directory.
        target = None if directory is None else absolute_address(directory)

        def path() -> str:
            request = TakeSavepoint(kind, target, format_type)
            return self._answer_to(request, "savepoint", timeout_s).savepoint_path

        return answered_later(path)

    def _answer_to(self, asked: TakeCheckpoint | TakeSavepoint, what: str, timeout_s: float) -> _Completed:
        request = self._requested(asked)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            report = self.report()
            answer = report.statistics.requests.get(request)
            if answer is not None:
                return _completed(answer, what)
            if report.status.is_globally_terminal_state():
                if what == "savepoint" and report.stopped_with:
                    # Its coordinator was lost after the stop, and the next one finished it.
                    return _Completed(CheckpointId(0), report.stopped_with)
                raise JobExecutionError(f"the job is {report.status.name}; no {what} was taken")
            if request not in report.statistics.requests:
                # Its coordinator is gone, and the next one does not know of it.
                request = self._requested(asked)
            self._handle.wait(_POLL_S)
        raise JobTimeoutError(f"no {what} completed within {timeout_s:g} s; the job may still complete it")

    def _requested(self, asked: TakeCheckpoint | TakeSavepoint) -> RequestId:
        request = self._handle.ask(asked)
        if request is None:
            raise ConfigurationError(
                "the job takes no checkpoints; set execution.checkpointing.interval and "
                "execution.checkpointing.dir. For savepoints without checkpoints, start the job with "
                "execution.checkpointing.savepoint-dir"
            )
        return request

    def query_state(
        self,
        uid: str,
        state: str,
        key: Any,
        namespace: Any = None,
        consistency: str = "checkpoint",
        timeout_s: float = 30.0,
    ) -> Any:
        """What a keyed state of the job holds for one key.

        Pickled values are loaded: the driver is the job's own program, so they are trusted. What is
        expired (in processing time) is left out.

        Args:
            uid: of the operator.
            state: name of the state.
            key: the key.
            namespace: of a state with namespaces, such as a window.
            consistency: `checkpoint` reads the last completed checkpoint from storage, so all keys are of
                one moment and survive a failure. `live` asks the task that owns the key, which answers
                between two batches: as new as can be, but a failure may take it back.
            timeout_s: how long to wait for a job that is restarting.

        Returns:
            The value, or None when the key has none; a dict for map state, a list for list state, the
            accumulator for aggregating state.

        Raises:
            StateError: there is no such operator or state; the message lists those there are. Or the job
                has no completed checkpoint.
            KeyTypeError: the key has no deterministic encoding.
            JobExecutionError: the job is over, or gave no answer in time (`live`).
            CorruptCheckpointError: the checkpoint is damaged.
        """
        key = checked_key(key)
        if consistency == "checkpoint":
            return self._stored_value(uid, state, key, namespace)
        if consistency == "live":
            return self._live_value(StateQuery(uid, state, key, namespace), timeout_s)
        raise ConfigurationError(f"consistency is {consistency!r}; choose 'checkpoint' or 'live'")

    def _stored_value(self, uid: str, state: str, key: Any, namespace: Any) -> Any:
        # Few programs ask, and all would import what reads snapshots.
        from ...state import read_snapshot

        path = self.report().newest_checkpoint
        while True:
            if path is None:
                raise StateError(
                    "the job has completed no checkpoint to read state from; wait for one, switch on "
                    "execution.checkpointing.interval, or ask with consistency='live'"
                )
            try:
                found = read_snapshot(path).keyed_state(uid, state)
                by_event_time = found.schema.get("ttl") == "event-time"
                now_ms = None if by_event_time else time.time_ns() // 1_000_000
                return found.get(key, namespace, trusted=True, now_ms=now_ms)
            except CheckpointStorageError:
                # A newer checkpoint may have taken its place, and its files with it.
                newest = self.report().newest_checkpoint
                if newest == path:
                    raise
                path = newest

    def _live_value(self, query: StateQuery, timeout_s: float) -> Any:
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            answer = self._handle.ask(replace(query, timeout_s=max(0.0, left)))
            if answer.error is None:
                return pickle.loads(answer.value)
            if answer.is_final and self._handle.wait(0):
                raise JobExecutionError(f"{answer.error}; only a running job answers with consistency='live'")
            if answer.is_final:
                raise StateError(answer.error)
            if left <= 0:
                raise JobTimeoutError(
                    f"no answer about state {query.state_name!r} within {timeout_s} s: {answer.error}"
                )
            self._handle.wait(_POLL_S)

    def wait(self, timeout_s: float | None = None) -> JobStatus:
        """Wait for the end of the job, or for `timeout_s`, and return the status."""
        self._handle.wait(timeout_s)
        return self.report().status

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Wait for the end; the future holds the result or the error that ended the job."""
        return answered(self.result)

    def result(self) -> FinishedJob:
        """Wait for the end and return the result.

        Raises:
            JobCancelledError: The job was cancelled.
            JobExecutionError: The job failed; the message names operator, subtask and cause.
        """
        self._handle.wait(None)
        report = self.report()
        self._handle.release()
        self._runtime_s = self.runtime_s
        _raise_unless_finished(report)
        return FinishedJob(self._job_id, int(self._runtime_s * 1_000), report)

    def detached(self) -> DetachedJob:
        """The job that goes on without its driver, once its coordinator has started it.

        Raises:
            JobExecutionError: It failed at its start.
        """
        # The coordinator answers when it has read what the job starts from, and has deployed the job.
        report = self.report()
        if report.status is JobStatus.FAILED:
            _raise_unless_finished(report)
        return DetachedJob(self._job_id, 0, report)

    def collected(self) -> Iterator[Any]:
        """Collected records as they arrive, until the job ends; then its error, if it failed."""
        while not self._handle.wait(0):
            yield from self._handle.take_results(_RESULTS_WAIT_S)
        records = self._handle.take_results()
        report = self.report()
        # Before the last records, which the caller may take all the time in the world to look at.
        self._handle.release()
        yield from records
        _raise_unless_finished(report)

    def close(self) -> None:
        """Cancel the job if it still runs, wait for that, and let go of it."""
        if not self._handle.wait(0):
            self._handle.ask(Cancel())
            self._handle.wait(None)
        self._handle.release()


def _last_rescale(report: JobReport) -> int:
    """Number of the last rescale that is over, 0 if there is none."""
    rescales = report.statistics.rescales
    return rescales[-1].number if rescales else 0


def _listed(parallelism: Mapping[str, int]) -> str:
    names = {name: "the job" if name == ALL_OPERATORS else f"operator {name!r}" for name in parallelism}
    return ", ".join(f"{names[name]} to parallelism {number}" for name, number in parallelism.items())


class _Completed(NamedTuple):
    """A checkpoint that was requested and is complete."""

    checkpoint_id: CheckpointId
    savepoint_path: str


def _completed(answer: AnswerRequest, what: str) -> _Completed:
    if answer.checkpoint_id is not None:
        return _Completed(answer.checkpoint_id, answer.savepoint_path)
    assert answer.reason is not None
    detail = f": {answer.cause}" if answer.cause else ""
    how = "not triggered" if answer.reason.is_pre_flight else "aborted"
    raise JobExecutionError(f"the {what} was {how}: {answer.reason.value}{detail}")


def _raise_unless_finished(report: JobReport) -> None:
    for point in report.fail_points:
        # A warning, since that is what Python shows unasked.
        logger.warning("%s", point)
    if report.status is JobStatus.FAILED:
        details = f"\n\n{report.details}" if report.details else ""
        raise JobExecutionError(f"{report.cause}{details}")
    if report.status is JobStatus.CANCELED:
        raise JobCancelledError(f"job {report.job_name!r} is CANCELED")
