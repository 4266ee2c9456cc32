"""Brings a job with a Spark stage into a phase and keeps it there; finds the processes to kill.

Each function returns only when the job's own reports say that it is in the phase. It stays there until the
holds are released.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import ray
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.job_report import JobReport
from tidegate.coordinator.monitoring.statistics import CheckpointStatistics
from tidegate.protocol.stages.stage_reports import StageReport

from .faults import Watched
from .stage_job import IN_SPARK, OPEN, SHARE, SNAPSHOT, SUBTASKS, TAKE, StageJob

_FEW = 10


class StageTarget(Watched):
    """A running job with a stage."""

    def __init__(self, client: JobClient, job: StageJob) -> None:
        super().__init__(client)
        self.job = job

    def reports(self, since_ms: int) -> list[StageReport]:
        """What each subtask of the stage has reported after a moment; empty until all have."""
        found = [
            (each.subtask.index, report)
            for each in self.client.details().subtasks
            for report in each.metrics.stages
            if each.metrics_ms > since_ms
        ]
        return [report for _, report in sorted(found)] if len(found) == SUBTASKS else []

    def await_stage(self, what: str, is_there: Callable[[list[StageReport]], bool]) -> None:
        """Wait until the reports of all subtasks say so."""
        since_ms = _now_ms()

        def ask(_: JobReport) -> bool:
            reports = self.reports(since_ms)
            return bool(reports) and is_there(reports)

        self.eventually(what, ask)

    def feed_until(self, records: int, what: str, is_there: Callable[[list[StageReport]], bool]) -> None:
        """Give each source this number of records until the reports of all subtasks say so.

        Aligned barriers must be able to pass.
        """

        def ask(_: JobReport) -> bool:
            self.job.feed(records)
            # Its barrier comes after the records, so none of them can change the phase later.
            self.await_checkpoint()
            since_ms = _now_ms()
            return is_there(self.eventually("reports", lambda _: self.reports(since_ms)))

        self.eventually(what, ask)

    def await_held(self, place: str) -> None:
        """Wait until something is held."""
        self.eventually(f"process that is held ({place})", lambda _: self.job.holds.has_held(place))

    def pid_of(self, task: str, index: int) -> int:
        """The process of a subtask."""

        def ask(_: JobReport) -> int:
            # Operators that share the task follow in the name.
            named = (
                pid
                for name, pid in self.client.processes().items()
                if name.startswith(task) and name.endswith(f"({index + 1}/{SUBTASKS})")
            )
            return next(named, 0)

        return self.eventually(f"process of {task} ({index + 1}/{SUBTASKS})", ask)


# ---------------------------------------------------------------- phases


def gathering(target: StageTarget) -> None:
    """Both subtasks gather, and no other epoch is there."""
    target.feed_until(
        _FEW,
        "only an epoch that gathers",
        lambda reports: all(each.gathering.records and len(each.epochs) == 1 for each in reports),
    )


def running(target: StageTarget) -> None:
    """An epoch runs in the executor, and a checkpoint contains it."""
    _run(target, waiting=0)
    target.await_checkpoint()


def _run(target: StageTarget, waiting: int) -> None:
    """Hold an epoch in the executor, with so many after it that are complete."""
    target.job.holds.set(IN_SPARK)
    target.feed_until(
        SHARE,
        f"an epoch that runs, and {waiting} that wait",
        lambda reports: all(each.running.epochs and each.waiting.epochs >= waiting for each in reports),
    )
    target.await_held(IN_SPARK)


def result(target: StageTarget) -> None:
    """A subtask has results of an epoch and has emitted none of them.

    They wait for those of the epoch before, of which downstream does not take all. Another subtask may have
    begun to emit them.
    """
    _emit(target, waiting=2)
    _await_stuck(
        target, "results that wait", lambda each: bool(each.emitting.epochs and each.finished.epochs)
    )
    _stored(target)


def emitting(target: StageTarget) -> None:
    """A subtask is emitting an epoch, and downstream takes no more."""
    _emit(target, waiting=1)
    _await_stuck(target, "emission", lambda each: bool(each.emitting.epochs))
    _stored(target)


def _emit(target: StageTarget, waiting: int) -> None:
    """Let some epochs run, of whose results downstream takes none."""
    _run(target, waiting)
    target.job.holds.set(TAKE)
    target.job.holds.release(IN_SPARK)


def _await_stuck(target: StageTarget, what: str, is_there: Callable[[StageReport], bool]) -> None:
    """Wait until a subtask reports it twice, and has emitted nothing in between."""
    before: list[int] = []
    while True:
        after = _emitted(target, what, is_there)
        if any(old == new >= 0 for old, new in zip(before, after)):
            return
        before = after


def _emitted(target: StageTarget, what: str, is_there: Callable[[StageReport], bool]) -> list[int]:
    """What each subtask has emitted; -1 where it is not there."""
    found: list[int] = []

    def look(reports: list[StageReport]) -> bool:
        found[:] = [each.records_out if is_there(each) else -1 for each in reports]
        return max(found) >= 0

    target.await_stage(what, look)
    return found


def _stored(target: StageTarget) -> None:
    """Wait for a checkpoint of this phase where barriers overtake records. Others wait for what is held."""
    if target.job.is_unaligned:
        target.await_checkpoint()


def checkpoint(target: StageTarget) -> None:
    """The stage has stored an epoch that runs in a checkpoint, which is not complete."""
    running(target)
    target.job.holds.set(SNAPSHOT)
    target.await_held(SNAPSHOT)
    target.eventually(
        "checkpoint that lacks the tasks after the stage",
        lambda report: any(_has_stage(target, each) for each in report.statistics.in_progress.values()),
    )


def _has_stage(target: StageTarget, checkpoint: CheckpointStatistics) -> bool:
    names = {checkpoint.subtask_name(each) for each in checkpoint.subtasks}
    return all(f"stage ({index + 1}/{SUBTASKS})" in names for index in range(SUBTASKS))


def restore(target: StageTarget) -> None:
    """The stage has been restored with an epoch that ran, and the job does not run yet."""
    running(target)
    target.job.holds.set(OPEN)
    os.kill(target.pid_of("numbers", 0), signal.SIGKILL)
    target.await_held(OPEN)
    target.await_stage("restored stage", lambda reports: all(report.epochs for report in reports))


PHASES: dict[str, Callable[[StageTarget], None]] = {
    "gathering": gathering,
    "running": running,
    "result": result,
    "emitting": emitting,
    "checkpoint": checkpoint,
    "restore": restore,
}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---------------------------------------------------------------- processes


def executor(target: StageTarget, number: int) -> tuple[str, int]:
    """The Java of Spark's executor, an actor of Ray."""

    def ask(_: JobReport) -> int:
        actors = ray._private.state.actors().values()
        pids = [
            each["Pid"] for each in actors if "raydp-executor" in each["Name"] and each["State"] == "ALIVE"
        ]
        return next((pid for pid in pids if psutil.pid_exists(pid)), 0)

    return "executor", target.eventually("executor", ask)


def driver(target: StageTarget, number: int) -> tuple[str, int]:
    """The Java of Spark's driver, a child of the subtask that runs the epochs."""

    def ask(_: JobReport) -> int:
        children = psutil.Process(target.pid_of("stage", 0)).children()
        return next((child.pid for child in children if child.name() == "java"), 0)

    return "driver", target.eventually("driver's Java", ask)


def stage(target: StageTarget, number: int) -> tuple[str, int]:
    """A process of the stage: in turns the one that runs the epochs and owns the session, and the other."""
    return _subtask(target, "stage", number % SUBTASKS)


def task(target: StageTarget, number: int) -> tuple[str, int]:
    """A process of a task before or after the stage."""
    return _subtask(target, ("count", "numbers")[number % 2], number // 2 % SUBTASKS)


def _subtask(target: StageTarget, name: str, index: int) -> tuple[str, int]:
    return f"{name} ({index + 1}/{SUBTASKS})", target.pid_of(name, index)


PROCESSES: dict[str, Callable[[StageTarget, int], tuple[str, int]]] = {
    "executor": executor,
    "driver": driver,
    "stage": stage,
    "task": task,
}
