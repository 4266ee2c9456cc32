"""What people do with a simulated job: ask for savepoints and modes, stop it, and start it again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...common.job_status import JobStatus
from ...coordinator.barrier_mode import BarrierMode
from ...coordinator.control.job_requests import JobRequests
from ...coordinator.monitoring.job_report import JobReport
from ...protocol.checkpoints.checkpoint_events import RequestId
from ...protocol.elements import CheckpointBarrier, SavepointFormatType, SnapshotKind
from ...protocol.ids import JobId
from .external_system import external_system
from .plan import (
    ALIGNED_TIMEOUTS_MS,
    MODES,
    Ask,
    Ending,
    Handover,
    Request,
    Victim,
)
from .simulated_driver import SimulatedDriver
from .simulated_storage import ROOT
from .storage_watcher import SAVEPOINTS
from .watched_rescales import WatchedRescales

if TYPE_CHECKING:
    from .simulated_coordinator import SimulatedCoordinator
    from .simulated_shell import SimulatedShell

_CANCELABLE = (JobStatus.INITIALIZING, JobStatus.RUNNING, JobStatus.RESTARTING)
_MOST_STOPS = 4
"""A stop that failed so often becomes a cancellation."""
_ASKED_AGAIN_AFTER = 40
_STOPS = {Ending.STOP: SnapshotKind.STOP, Ending.DRAIN: SnapshotKind.FINAL}


class SimulatedUser:
    """Asks what the plan says, and remembers what it was told.

    Args:
        shell: Runs the job.
    """

    def __init__(self, shell: SimulatedShell) -> None:
        self._shell = shell
        self._plan = shell.plan
        self._requests = list(shell.plan.requests)
        self._waiting: set[RequestId] = set()
        self._stop: RequestId | None = None
        self._stops = 0
        self._asks_at = 0
        self._stopped_with = ""
        self._newest_savepoint = ""
        self._modes: dict[JobId, BarrierMode] = {}
        self._unanswered: dict[JobId, BarrierMode] = {}
        self.rescales = WatchedRescales(shell)
        self._removes: str | None = None
        self.ending: Ending | None = None
        """How the current run is about to end, if it is."""
        self.restore_path: str | None = None
        """What the current job was started from."""
        self.follows: tuple[str, ...] = ()
        """The directories of the jobs that were ended when it started from nothing."""
        self.claims_restored = False
        self._driver: SimulatedDriver | None = None
        """Starts the next job while the current one runs, if it is not over."""

    def next_at(self) -> int:
        """After how many events there is something to do."""
        if self._driver is not None and not self._driver.is_over:
            return 1 << 62
        if self.ending is not None:
            return 0
        ends_at = self._plan.runs[self._shell.run_number].ends_at
        at = min((request.at for request in self._requests), default=1 << 62)
        return at if ends_at is None else min(at, ends_at)

    def act(self, events: int) -> None:
        """Do what is to be done after so many events."""
        for request in [each for each in self._requests if each.at <= events]:
            self._requests.remove(request)
            life = self._shell.current
            if life.has_started:
                life.perform(partial(self._ask, life, request))
        if self.ending is not None:
            self._go_on_ending(events)
            return
        if self._driver is not None and not self._driver.is_over:
            return
        life, run = self._shell.current, self._plan.runs[self._shell.run_number]
        if run.ends_at is None or events < run.ends_at or life.end is not None or not life.is_alive:
            return
        if run.ending is Ending.REPLACE:
            self._shell.replace_coordinator()
        elif run.ending is Ending.ABANDON:
            self._abandon()
        else:
            self._shell.scheduler.note(f"the job is to end: {run.ending.value}")
            self.ending, self._stops, self._asks_at, self._stop = run.ending, 0, 0, None

    # ------------------------------------------------------------ requests

    def _ask(self, life: SimulatedCoordinator, request: Request) -> None:
        if request.ask is Ask.CHECKPOINT:
            JobRequests(life.coordinator).trigger_checkpoint()
        elif request.ask is Ask.MODE:
            self._change_mode(life, request.mode)
        elif request.ask is Ask.RESCALE:
            self.rescales.ask(life, request.parallelism)
        else:
            is_native = request.ask is Ask.NATIVE
            self._waiting.add(self._savepoint(life, SnapshotKind.SAVEPOINT, is_native))

    def _savepoint(self, life: SimulatedCoordinator, kind: SnapshotKind, is_native: bool) -> RequestId:
        chosen = SavepointFormatType.NATIVE if is_native else SavepointFormatType.CANONICAL
        request = JobRequests(life.coordinator).trigger_savepoint(kind, f"{ROOT}/{SAVEPOINTS}", chosen)
        assert request is not None
        return request

    def _change_mode(self, life: SimulatedCoordinator, name: str) -> None:
        mode = BarrierMode(MODES[name], ALIGNED_TIMEOUTS_MS.get(name))
        self._unanswered[life.spec.job_id] = mode
        problem = JobRequests(life.coordinator).set_barrier_mode(mode)
        if not self._shell.is_current(life):
            # It was stopped meanwhile: whether its successor has seen the change is not known.
            return
        del self._unanswered[life.spec.job_id]
        is_possible = mode.aligned_timeout_ms is None or self._plan.settings.max_concurrent == 1
        self._shell.scheduler.note(f"the mode is to be {name}: {problem or 'yes'}")
        if not problem:
            assert is_possible, f"{name} with several checkpoints at a time is not refused"
            self._modes[life.spec.job_id] = mode
        elif is_possible and not self._plan.faults.failed_write:
            # Whoever was replaced may not change anything.
            assert life is not self._shell.current or "fenced" in problem, f"{name} is refused: {problem}"

    def triggered(self, life: SimulatedCoordinator, barrier: CheckpointBarrier) -> None:
        """A coordinator triggers a new checkpoint: in the mode that was asked for, if it is alone."""
        job_id = life.spec.job_id
        before, life.triggered_mode = life.triggered_mode, barrier.mode
        if len(life.coordinator.statistics.in_progress) > 1:
            assert before is barrier.mode, f"checkpoint {barrier.checkpoint_id} changes the mode of others"
            return
        if life is not self._shell.current:
            return
        in_doubt = self._unanswered.pop(job_id, None)
        if in_doubt is not None and _is_in(barrier, in_doubt):
            # The coordinator died before it could say that it had written it down.
            self._modes[job_id] = in_doubt
        wanted = self._modes.get(job_id)
        assert wanted is None or _is_in(barrier, wanted), f"{barrier} is triggered, not in the mode {wanted}"

    def hear(self, life: SimulatedCoordinator) -> None:
        """A coordinator did something: it may have answered."""
        if life.spec.job_id != self._shell.current.spec.job_id:
            # A coordinator that was cut off, of a job that has ended: its numbers mean other requests.
            return
        self.rescales.hear(life)
        answers = life.coordinator.statistics.requests
        for request in [*self._waiting, *(() if self._stop is None else (self._stop,))]:
            answer = answers.get(request)
            if answer is None:
                continue
            self._waiting.discard(request)
            if answer.reason is None:
                self._savepoint_completed(answer.savepoint_path)
            else:
                self._shell.scheduler.note(f"no savepoint: {answer.reason.value} {answer.cause}")
            if request == self._stop:
                self._stop = None
                self._stopped_with = answer.savepoint_path if answer.reason is None else ""

    def _savepoint_completed(self, path: str) -> None:
        assert path.startswith(f"{ROOT}/{SAVEPOINTS}/"), f"a savepoint is said to be at {path!r}"
        directory = path.removeprefix(f"{ROOT}/")
        self._shell.scheduler.note(f"{directory} is complete")
        self._shell.storage.watcher.told(directory)
        self._newest_savepoint = directory

    # ------------------------------------------------------------ from job to job

    def _abandon(self) -> None:
        """The driver of the job is killed and started again, while the processes of the job live on."""
        handover = self._handover
        is_root = handover.is_moved or handover.may_be_new
        directory = "" if is_root else self._shell.current.spec.job_id
        self._waiting.clear()
        self._shell.scheduler.note(
            f"the driver is killed, and started again from the latest checkpoint ({directory})"
        )
        self._driver = SimulatedDriver(self._shell, directory, handover.is_claimed, handover.may_be_new)
        self._driver.begin()

    def _go_on_ending(self, events: int) -> None:
        life, ending = self._shell.current, self.ending
        if life.end is not None:
            if self.starts_another(life.end):
                self._start_next(life.end)
            return
        if not life.has_started or life.coordinator.status not in _CANCELABLE:
            return
        if ending not in _STOPS:
            # Again after a crash of the coordinator: nobody but the user knew of it.
            life.perform(life.coordinator.cancel)
            return
        is_known = self._stop is not None and self._stop in life.coordinator.statistics.requests
        if is_known or self._stopped_with or events < self._asks_at:
            return
        self._stops += 1
        self._asks_at = events + _ASKED_AGAIN_AFTER
        if self._stops > _MOST_STOPS:
            self._shell.scheduler.note("it cannot be stopped, and is cancelled")
            self.ending = Ending.CANCEL
            return
        life.perform(lambda: self._ask_to_stop(life, _STOPS[ending]))

    def _ask_to_stop(self, life: SimulatedCoordinator, kind: SnapshotKind) -> None:
        victims = (Victim.TASK, Victim.COORDINATOR, Victim.PARTITIONED)
        self._shell.may_crash_soon(self._plan.faults.crash_at_stop, victims)
        self._stop = self._savepoint(life, kind, self._handover.is_native)

    @property
    def _handover(self) -> Handover:
        return self._plan.runs[self._shell.run_number].handover

    def starts_another(self, end: JobReport) -> bool:
        """Whether the next run follows, now that the job has ended."""
        if self._driver is not None and not self._driver.is_over:
            return True
        if self.ending is None:
            return False
        if end.status is JobStatus.CANCELED:
            return self.ending not in _STOPS
        # Also where a stop seemed to have failed, and it was found out later that it had not.
        return end.status is JobStatus.FINISHED and bool(self._stopped_with or end.stopped_with)

    def _start_next(self, end: JobReport) -> None:
        shell, ended = self._shell, self._shell.current
        ended.forget_end()
        if end.stopped_with and not self._stopped_with:
            self._savepoint_completed(end.stopped_with)
        handover = self._handover
        path = self._chosen(end)
        if path is not None and handover.is_moved and f"/{SAVEPOINTS}/" in path:
            path = self._move(path)
        # What the job before has claimed, and not replaced by anything, is claimed already.
        is_claimed = handover.is_claimed and not (self.claims_restored and end.newest_checkpoint is None)
        self._removes = path if handover.is_removed and not is_claimed else None
        self.restore_path, self.claims_restored, self.follows = path, is_claimed, ()
        self.ending, self._stopped_with, self._newest_savepoint = None, "", ""
        self._waiting.clear()
        shell.scheduler.note(f"another job starts from {path} ({handover})")
        shell.start_next_job()

    def _chosen(self, end: JobReport) -> str | None:
        if self._stopped_with or end.stopped_with:
            return self._stopped_with or end.stopped_with
        if self.ending is Ending.GO_BACK and self._newest_savepoint:
            path = f"{ROOT}/{self._newest_savepoint}"
            external_system().go_back_to(path)
            return path
        return end.newest_checkpoint or self.restore_path

    def _move(self, path: str) -> str:
        moved = f"{path}-moved"
        self._shell.storage.move(path.removeprefix(f"{ROOT}/"), moved.removeprefix(f"{ROOT}/"))
        return moved

    def completed(self) -> None:
        """The current job has a checkpoint of its own: what it was started from is not needed any more."""
        path, self._removes = self._removes, None
        if path is None:
            return
        directory = path.removeprefix(f"{ROOT}/")
        if not directory.startswith(SAVEPOINTS):
            # All checkpoints of the job before: they share files.
            directory = directory.partition("/")[0]
        self._shell.scheduler.note(f"{directory} is removed by its owner")
        self._shell.storage.remove(directory)


def _is_in(barrier: CheckpointBarrier, mode: BarrierMode) -> bool:
    """Whether a barrier says what a mode asks for. Savepoints overtake nothing."""
    timeout_ms = None if barrier.savepoint else mode.aligned_timeout_ms
    return (barrier.mode, barrier.aligned_timeout_ms) == (mode.mode, timeout_ms)
