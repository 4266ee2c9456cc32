"""What a driver holds of a running job (PyFlink's `JobClient`), and what a shell provides for it."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..common.errors import (
    CheckpointStorageError,
    ConfigurationError,
    JobCancelledError,
    JobExecutionError,
    StateError,
)
from ..common.failpoints import FailPointReport
from ..common.job_id import JobID
from ..common.job_status import JobStatus
from ..protocol.checkpoint_events import AnswerRequest, RequestId
from ..protocol.ids import CheckpointId
from ..state import read_snapshot
from ..state.key_codec import encode_key
from .state_queries import StateAnswer, StateQuery
from .statistics import JobStatistics

logger = logging.getLogger(__name__)

T = TypeVar("T")

_POLL_S = 0.02


@dataclass(frozen=True)
class JobReport:
    """A view of a job at one moment."""

    status: JobStatus
    cause: str | None
    details: str
    restarts: int
    statistics: JobStatistics
    newest_checkpoint: str | None
    """Address of the newest complete checkpoint, to start another job from."""
    fail_points: tuple[FailPointReport, ...] = ()
    """What became of the points that `TIDEGATE_FAILPOINTS` armed."""


class JobHandle(Protocol):
    """One job in one shell."""

    def report(self) -> JobReport:
        """How the job is."""

    def cancel(self) -> None:
        """Ask the job to stop."""

    def trigger_checkpoint(self) -> RequestId | None:
        """Ask for a checkpoint now; the id of the request, or `None` if checkpointing is off."""

    def query_state(self, query: StateQuery, timeout_s: float) -> StateAnswer:
        """Ask the task that owns a key for live state; the answer may be that it should be asked again."""

    def take_results(self) -> list[Any]:
        """Collected records that arrived since the last call."""

    def processes(self) -> dict[str, int]:
        """Process ids of the live task processes, by the names of the subtasks in them."""

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end; false when the time is over first."""

    def release(self) -> None:
        """The driver is done with the job: nothing of it may stay once it is over."""


@dataclass(frozen=True)
class JobExecutionResult:
    """What a finished job leaves."""

    job_id: JobID
    net_runtime_ms: int
    report: JobReport

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from submission to the end."""
        return self.net_runtime_ms


class JobClient:
    """Watches and steers one job. Calls that PyFlink answers with a future do so here too."""

    def __init__(self, job_id: JobID, handle: JobHandle) -> None:
        self._job_id = job_id
        self._handle = handle
        self._started_s = time.monotonic()

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return self._job_id

    def get_job_status(self) -> Future[JobStatus]:
        """Where the job is in its life."""
        return _answered(lambda: self._handle.report().status)

    def report(self) -> JobReport:
        """Status, last failure, restarts, checkpoint history."""
        return self._handle.report()

    def processes(self) -> dict[str, int]:
        """The live task processes, each with its id and named after its subtasks: `operator (1/2)`.

        On its own node, such an id can be watched with the tools of the system, or killed to see the
        job recover. A local job runs in the driver and has none.
        """
        return self._handle.processes()

    def cancel(self) -> Future[None]:
        """Stop the job without a checkpoint."""
        return _answered(self._handle.cancel)

    def trigger_checkpoint(self, timeout_s: float = 60.0) -> CheckpointId:
        """Take a checkpoint now and wait until it is complete.

        Raises:
            ConfigurationError: Checkpointing is off.
            JobExecutionError: It was aborted, the job ended, or the time is over.
        """
        request = self._request_checkpoint()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            report = self._handle.report()
            answer = report.statistics.requests.get(request)
            if answer is not None:
                return _completed_checkpoint(answer)
            if report.status.is_globally_terminal_state():
                raise JobExecutionError(f"the job is {report.status.name}; no checkpoint was taken")
            if request not in report.statistics.requests:
                # Its coordinator is gone, and the next one does not know of it.
                request = self._request_checkpoint()
            self._handle.wait(_POLL_S)
        raise JobExecutionError(f"no checkpoint completed within {timeout_s} s")

    def _request_checkpoint(self) -> RequestId:
        request = self._handle.trigger_checkpoint()
        if request is None:
            raise ConfigurationError(
                "the job takes no checkpoints; set execution.checkpointing.interval (a long one, if they "
                "are only to be taken by hand) and execution.checkpointing.dir"
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
        encode_key(key)
        if consistency == "checkpoint":
            return self._stored_value(uid, state, key, namespace)
        if consistency == "live":
            return self._live_value(StateQuery(uid, state, key, namespace), timeout_s)
        raise ConfigurationError(f"consistency is {consistency!r}; choose 'checkpoint' or 'live'")

    def _stored_value(self, uid: str, state: str, key: Any, namespace: Any) -> Any:
        path = self._handle.report().newest_checkpoint
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
                newest = self._handle.report().newest_checkpoint
                if newest == path:
                    raise
                path = newest

    def _live_value(self, query: StateQuery, timeout_s: float) -> Any:
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            answer = self._handle.query_state(query, max(0.0, left))
            if answer.error is None:
                return pickle.loads(answer.value)
            if answer.is_final and self._handle.wait(0):
                raise JobExecutionError(f"{answer.error}; only a running job answers with consistency='live'")
            if answer.is_final:
                raise StateError(answer.error)
            if left <= 0:
                raise JobExecutionError(
                    f"no answer about state {query.state_name!r} within {timeout_s} s: {answer.error}"
                )
            self._handle.wait(_POLL_S)

    def wait(self, timeout_s: float | None = None) -> JobStatus:
        """Wait for the end of the job, or for `timeout_s`, and return the status."""
        self._handle.wait(timeout_s)
        return self._handle.report().status

    def get_job_execution_result(self) -> Future[JobExecutionResult]:
        """Wait for the end; the future holds the result or the error that ended the job."""
        return _answered(self.result)

    def result(self) -> JobExecutionResult:
        """Wait for the end and return the result.

        Raises:
            JobCancelledError: The job was cancelled.
            JobExecutionError: The job failed; the message names operator, subtask and cause.
        """
        self._handle.wait(None)
        report = self._handle.report()
        self._handle.release()
        runtime_ms = int((time.monotonic() - self._started_s) * 1_000)
        _raise_unless_finished(report)
        return JobExecutionResult(self._job_id, runtime_ms, report)

    def collected(self) -> Iterator[Any]:
        """Collected records as they arrive, until the job ends; then its error, if it failed."""
        while True:
            is_over = self._handle.wait(0)
            records = self._handle.take_results()
            if is_over:
                break
            yield from records
            if not records:
                self._handle.wait(_POLL_S)
        report = self._handle.report()
        # Before the last records, which the caller may take all the time in the world to look at.
        self._handle.release()
        yield from records
        _raise_unless_finished(report)

    def close(self) -> None:
        """Cancel the job if it still runs, wait for that, and let go of it."""
        if not self._handle.wait(0):
            self._handle.cancel()
            self._handle.wait(None)
        self._handle.release()


def _completed_checkpoint(answer: AnswerRequest) -> CheckpointId:
    if answer.checkpoint_id is not None:
        return answer.checkpoint_id
    assert answer.reason is not None
    detail = f": {answer.cause}" if answer.cause else ""
    what = "not triggered" if answer.reason.is_pre_flight else "aborted"
    raise JobExecutionError(f"the checkpoint was {what}: {answer.reason.value}{detail}")


def _raise_unless_finished(report: JobReport) -> None:
    for point in report.fail_points:
        # A warning, since that is what Python shows unasked.
        logger.warning("%s", point)
    if report.status is JobStatus.FAILED:
        details = f"\n\n{report.details}" if report.details else ""
        raise JobExecutionError(f"{report.cause}{details}")
    if report.status is JobStatus.CANCELED:
        raise JobCancelledError("the job was cancelled")


def _answered(question: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(question())
    except Exception as error:
        future.set_exception(error)
    return future
