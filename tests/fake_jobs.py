"""Jobs that are only described, for tests of what shows jobs: nothing runs, every figure is made up.

`large_job` is as large as a console has to bear: 500 subtasks, 10,000 checkpoints.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tidegate.common.job_id import JobID
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.control_requests import (
    Cancel,
    ControlRequest,
    Rescale,
    SetBarrierMode,
    StateAnswer,
    StateQuery,
    TakeCheckpoint,
    TakeSavepoint,
)
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.control.terminated_job import TerminatedJob
from tidegate.coordinator.monitoring.job_details import JobDetails, JobException, SubtaskDetails
from tidegate.coordinator.monitoring.job_report import JobReport
from tidegate.coordinator.monitoring.statistics import (
    CheckpointOutcome,
    CheckpointStatistics,
    JobStatistics,
    RecoveryStatistics,
    RescaleStatistics,
    job_shape,
)
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.checkpoint_events import AnswerRequest, RequestId, SubtaskMetrics
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId
from tidegate.protocol.scheduling.execution_graph import ExecutionGraph, build_execution_graph
from tidegate.protocol.scheduling.execution_plan import execution_plan
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.protocol.task_metrics import ExecutionState, TaskMetrics, TaskRates

__all__ = ["FakeJob", "fake_client", "fake_job", "large_job"]

NOW_MS = 1_700_000_000_000
_CHECKPOINT_MS = 10_000
_SUBTASKS_KEPT = 10
"""The newest checkpoints that still say what each of their subtasks did."""

_STATES = {
    JobStatus.CREATED: ExecutionState.CREATED,
    JobStatus.RUNNING: ExecutionState.RUNNING,
    JobStatus.RESTARTING: ExecutionState.INITIALIZING,
    JobStatus.FAILED: ExecutionState.CANCELED,
    JobStatus.CANCELED: ExecutionState.CANCELED,
    JobStatus.FINISHED: ExecutionState.FINISHED,
}


def fake_job(
    number: int = 1,
    status: JobStatus = JobStatus.RUNNING,
    tasks: int = 4,
    parallelism: int = 2,
    checkpoints: int = 30,
    newest_checkpoint: str | None = None,
    savepoint_directory: str = "",
) -> JobDetails:
    """A job that reads, enriches, …, and writes, at one moment.

    Args:
        number: Tells it from others: from 1 on.
        status: Where it is in its life; one that failed has a failure with a traceback.
        tasks: How many tasks, each with two operators but for the source; at least 2.
        parallelism: Subtasks of each task.
        checkpoints: How many have ended; each tenth was aborted, each seventh was a savepoint.
        newest_checkpoint: Where the newest complete one is, if it can be read.
        savepoint_directory: The job's own default.
    """
    graph = build_job_graph(_stream_graph(f"job {number}", tasks, parallelism))
    execution = build_execution_graph(graph)
    order = list(execution.subtasks)
    subtasks = tuple(_subtask(subtask, place, status) for place, subtask in enumerate(order))
    is_over = status.is_globally_terminal_state()
    exceptions = _exceptions(order, status)
    started_ms = NOW_MS - (checkpoints + 1) * _CHECKPOINT_MS - number
    report = JobReport(
        status=status,
        cause=exceptions[0].cause if exceptions else None,
        details=exceptions[0].details if exceptions else "",
        restarts=max(0, len(exceptions) - 1),
        statistics=_statistics(execution, checkpoints, started_ms),
        newest_checkpoint=newest_checkpoint,
        job_name=f"job {number}",
        checkpointing_mode="exactly-once",
    )
    return JobDetails(
        job_id=f"{number:032x}",
        report=report,
        started_ms=started_ms,
        ended_ms=NOW_MS if is_over else None,
        plan=execution_plan(graph),
        subtasks=subtasks,
        exceptions=exceptions,
        configuration=_configuration(f"job {number}", savepoint_directory),
        coordinator_host="node-0",
        now_ms=NOW_MS,
    )


def large_job(number: int = 1) -> JobDetails:
    """A running job with 500 subtasks in ten tasks, and 10,000 checkpoints in its history."""
    return fake_job(number, tasks=10, parallelism=50, checkpoints=10_000)


def fake_client(details: JobDetails) -> JobClient:
    """A client of a fake job, which takes part in every action."""
    return JobClient(JobID(details.job_id), FakeJob(details))


class FakeJob:
    """The `JobHandle` of a job that is only described. What it is asked to do it does at once.

    Attributes:
        asked: The actions that were requested, in order.
    """

    def __init__(self, details: JobDetails) -> None:
        self._details = details
        self.asked: list[ControlRequest[Any]] = []

    def details(self) -> JobDetails:
        """The job now."""
        return self._details

    def ask(self, request: ControlRequest[Any]) -> Any:
        match request:
            case StateQuery():
                return StateAnswer(b"", "a fake job has no state")
            case SetBarrierMode():
                return "a fake job has no barriers"
            case TakeCheckpoint():
                self.asked.append(request)
                return self._answered("")
            case TakeSavepoint():
                self.asked.append(request)
                return self._save(request)
            case Rescale():
                self.asked.append(request)
                return self._rescale(request.parallelism)
            case Cancel():
                self.asked.append(request)
                self._end(JobStatus.CANCELED)
        # It shows how it is as a job that has ended does.
        return TerminatedJob(self._details.report, self.details).ask(request)

    def _save(self, request: TakeSavepoint) -> RequestId:
        path = f"{request.directory or 'savepoints'}/savepoint-{self._details.job_id[:6]}-{len(self.asked)}"
        answered = self._answered(path)
        if request.kind.ends_job:
            self._end(JobStatus.FINISHED)
        return answered

    def _rescale(self, parallelism: Mapping[str, int]) -> str:
        rescales = self._details.report.statistics.rescales
        before = {node["uid"]: node["parallelism"] for node in self._details.plan["nodes"]}
        rescales.append(
            RescaleStatistics(len(rescales) + 1, "requested", before, {**before, **parallelism}, NOW_MS)
        )
        return ""

    def take_results(self, timeout_s: float = 0.0) -> list[Any]:
        return []

    def wait(self, timeout_s: float | None) -> bool:
        return self._details.report.status.is_globally_terminal_state()

    def release(self) -> None:
        """Nothing runs."""

    def _answered(self, path: str) -> RequestId:
        statistics = self._details.report.statistics
        request = RequestId(len(self.asked))
        newest = statistics.latest_completed
        number = CheckpointId(1 if newest is None else newest.checkpoint_id + 1)
        statistics.requested(request)
        statistics.answered(AnswerRequest(request, number, savepoint_path=path))
        return request

    def _end(self, status: JobStatus) -> None:
        report = replace(self._details.report, status=status)
        self._details = replace(self._details, report=report, ended_ms=self._details.now_ms)


# ---------------------------------------------------------------- what it is made of


def _stream_graph(name: str, tasks: int, parallelism: int) -> StreamGraph:
    graph = StreamGraph(name)
    for task in range(tasks):
        kind = "read" if task == 0 else "write" if task == tasks - 1 else f"enrich {task}"
        operators = [kind] if task == 0 else [f"{kind}: decode", kind]
        for position, operator in enumerate(operators):
            node_id = len(graph.nodes) + 1
            graph.nodes[node_id] = StreamNode(
                node_id,
                operator,
                operator.replace(": ", "-").replace(" ", "-"),
                b"",
                parallelism,
                max(128, parallelism),
                is_source=task == 0,
                is_sink=task == tasks - 1 and position == 1,
                is_stateful=position == 1,
            )
            if node_id > 1:
                how = Partitioning.FORWARD if position else Partitioning.HASH
                graph.edges.append(StreamEdge(node_id - 1, node_id - 1, node_id, how))
    return graph


def _wave(place: int, low: float, high: float) -> float:
    """Between low and high, another one for every place; the same in every run."""
    return low + (high - low) * (0.5 + 0.5 * math.sin(place * 0.7))


def _subtask(subtask: SubtaskId, place: int, status: JobStatus) -> SubtaskDetails:
    state = _STATES.get(status, ExecutionState.CANCELING)
    if status is JobStatus.FAILED and place == 1:
        state = ExecutionState.FAILED
    busy = _wave(place, 50, 800)
    backpressured = _wave(place + 3, 0, 1_000 - busy)
    idle = 1_000 - busy - backpressured
    records = int(_wave(place, 1_000, 90_000))
    seconds = 600
    is_running = state is ExecutionState.RUNNING
    return SubtaskDetails(
        subtask=subtask,
        state=state,
        since_ms=NOW_MS - seconds * 1_000,
        attempt=0,
        host=f"node-{place % 5}",
        process_id=1_000 + place,
        metrics=TaskMetrics(
            records_in=records * seconds,
            records_out=records * seconds // 2,
            bytes_in=records * seconds * 80,
            bytes_out=records * seconds * 40,
            busy_ms=busy * seconds,
            backpressured_ms=backpressured * seconds,
            idle_ms=idle * seconds,
            watermark_ms=NOW_MS - 2_000 - place,
            input_bytes=place * 100,
            output_bytes=place * 10,
            state_bytes=None if place % 2 else 1 << 20,
            timers=place,
            late_records=place % 3,
            user={"enrich.hits": place},
        ),
        rates=TaskRates(records, records / 2, records * 80, records * 40, busy, backpressured, idle)
        if is_running
        else TaskRates(),
        metrics_ms=NOW_MS - 500,
    )


def _exceptions(subtasks: list[SubtaskId], status: JobStatus) -> tuple[JobException, ...]:
    count = 3 if status in (JobStatus.FAILED, JobStatus.RESTARTING) else 0
    return tuple(
        JobException(
            occurred_ms=NOW_MS - 60_000 * place - 1_000,
            cause=f"operator 'enrich 1' failed at record {place}: ValueError: not a number: 'x{place}'",
            details='Traceback (most recent call last):\n  File "job.py", line 12, in process_element\n'
            f"ValueError: not a number: 'x{place}'\n",
            subtask=subtasks[1],
            subtask_name="enrich 1 (1/2)",
            host="node-1",
            attempt=count - place - 1,
        )
        for place in range(count)
    )


def _configuration(name: str, savepoint_directory: str) -> Mapping[str, str]:
    chosen = {
        "execution.checkpointing.dir": "/checkpoints",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "parallelism.default": "2",
        "pipeline.name": name,
        "state.backend.type": "lmdb",
    }
    if savepoint_directory:
        chosen["execution.checkpointing.savepoint-dir"] = savepoint_directory
    return chosen


def _statistics(graph: ExecutionGraph, count: int, started_ms: int) -> JobStatistics:
    statistics = JobStatistics(checkpoints=deque(maxlen=max(1, count)))
    for checkpoint in _checkpoints(graph, count, started_ms):
        statistics.ended(checkpoint)
    for place in (2, 1):
        failed_ms = NOW_MS - 60_000 * place - 1_000
        statistics.recoveries.append(
            RecoveryStatistics(
                Attempt(3 - place),
                failed_ms,
                failed_ms + 2_100,
                f"operator 'enrich 1' failed at record {place}: ValueError: not a number: 'x{place}'",
                CheckpointId(count) if count else None,
                place,
                failed_ms - 12_000,
                failed_ms + 2_300,
            )
        )
    return statistics


def _checkpoints(graph: ExecutionGraph, count: int, started_ms: int) -> Iterator[CheckpointStatistics]:
    subtasks, shape = list(graph.subtasks), job_shape(graph)
    for number in range(1, count + 1):
        is_aborted, is_savepoint = number % 10 == 0, number % 7 == 0
        acknowledged = subtasks[: len(subtasks) // 2] if is_aborted else subtasks
        is_kept = number > count - _SUBTASKS_KEPT
        yield CheckpointStatistics(
            checkpoint_id=CheckpointId(number),
            outcome=CheckpointOutcome.ABORTED if is_aborted else CheckpointOutcome.COMPLETED,
            triggered_ms=started_ms + number * _CHECKPOINT_MS,
            duration_ms=_wave(number, 40, 900),
            size_bytes=int(_wave(number, 1 << 20, 1 << 30)),
            new_bytes=int(_wave(number, 1 << 10, 1 << 20)),
            reason="it did not complete within its timeout" if is_aborted else "",
            abort_reason=AbortReason.EXPIRED if is_aborted else None,
            subtasks={one: _part(number + place, _upstream(one)) for place, one in enumerate(acknowledged)}
            if is_kept
            else {},
            kind=SnapshotKind.SAVEPOINT if is_savepoint else SnapshotKind.CHECKPOINT,
            subtask_count=len(subtasks),
            shape=shape,
        )


def _upstream(subtask: SubtaskId) -> SubtaskId | None:
    """Of the same index; tasks are named after their heads, of which every second operator is one."""
    head = int(subtask.task_id.removeprefix("task-"))
    return None if head == 1 else SubtaskId(f"task-{max(1, head - 2)}", subtask.index)


def _part(place: int, upstream: SubtaskId | None) -> SubtaskMetrics:
    start_delay_ms, alignment_ms = _wave(place, 1, 20), _wave(place + 1, 0, 200)
    sync_ms, async_ms = _wave(place + 2, 0.1, 5), _wave(place + 3, 5, 300)
    taken_ms = start_delay_ms + alignment_ms
    return SubtaskMetrics(
        start_delay_ms=start_delay_ms,
        alignment_ms=alignment_ms,
        sync_ms=sync_ms,
        async_ms=async_ms,
        taken_ms=taken_ms,
        upload_ms=async_ms * 0.8,
        queued_ms=alignment_ms * 0.5,
        busy_ms=alignment_ms * 0.4,
        acknowledged_ms=taken_ms + sync_ms + async_ms,
        last_channel=-1 if upstream is None else upstream.index,
        upstream=upstream,
        size_bytes=int(_wave(place, 1 << 10, 1 << 20)),
        processed_bytes=int(_wave(place, 0, 1 << 16)),
    )
