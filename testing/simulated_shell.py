"""The simulated shell: the lives of a job's coordinators one after the other, and all that goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..actors.ports import TaskDeployment
from ..common.job_status import JobStatus
from ..coordinator.spec import JobSettings, JobSpec
from ..protocol.ids import CheckpointId, JobId
from ..protocol.plan import JobGraph
from .incarnation import Incarnation
from .network import Network
from .plan import MILLISECOND, Ending, Plan, Victim
from .simulated_graph import job_graph
from .simulated_process import Process, ProcessDied
from .simulated_storage import SimulatedStorage
from .virtual_event_loop import VirtualEventLoop
from .world import World

_RESTARTED_NS = 10 * MILLISECOND
_PARTITION_NS = 150 * MILLISECOND

_CANCELABLE = (JobStatus.INITIALIZING, JobStatus.RUNNING, JobStatus.RESTARTING)

_Actor = Process | Incarnation | None
"""Who runs: a task process, a coordinator, or deletions in the background, which nobody kills."""


class SimulatedShell:
    """Runs one job from its first run to its last.

    Args:
        settings: Makes the job's settings, given the address of its checkpoints.
    """

    def __init__(self, world: World, plan: Plan, settings: Callable[[str], JobSettings]) -> None:
        self.world = world
        self.plan = plan
        self.storage = SimulatedStorage(world, plan.faults.failed_write, self.point, self._may_fail)
        self.network = Network(world, plan.faults, plan.settings)
        self.crashes = 0
        self.attempts = 0
        self.run_number = 0
        self._settings = settings(self.storage.uri)
        self._running: _Actor = None
        self._points = {Victim.TASK_INSIDE: 0, Victim.COORDINATOR_INSIDE: 0}
        self._crashes = list(plan.faults.crashes)
        self._requests = list(plan.faults.requests)
        self._next_at = 0
        self._is_cancelling = False
        self._jobs = 1
        self._restore_path: str | None = None
        self._graphs: dict[int, JobGraph] = {}
        self.event_loops: list[VirtualEventLoop] = []
        self._lives = 0
        self._triggered: dict[tuple[JobId, CheckpointId], int] = {}
        self._newest_id: dict[JobId, int] = {}
        self.current = self._new_life()

    # ------------------------------------------------------------ lives

    def _spec(self) -> JobSpec:
        run = self.run_number
        if run not in self._graphs:
            self._graphs[run] = self.new_graph(run)
        settings = replace(self._settings, restore_path=self._restore_path)
        return JobSpec(JobId(f"job-{self._jobs}"), self._graphs[run], settings)

    def new_graph(self, run: int) -> JobGraph:
        """The job of a run of the plan."""
        return job_graph(self.plan, self.plan.runs[run])

    def _new_life(self) -> Incarnation:
        self._lives += 1
        life = Incarnation(self, self._lives, self._spec())
        self.network.current = life
        self.current = life
        return life

    def start(self) -> None:
        """Start the first run."""
        self.current.start()

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and no other run is to follow."""
        end = self.current.end
        return end is not None and (end.status is not JobStatus.CANCELED or not self._is_cancelling)

    def after_event(self) -> None:
        """Make happen what is planned for after so many events."""
        events = self.world.events_run
        if events < self._next_at and not self._is_cancelling:
            return
        for crash in [each for each in self._crashes if each.victim not in self._points]:
            if crash.at <= events:
                self._crashes.remove(crash)
                self._crash(crash.victim)
        for request in [each for each in self._requests if each <= events]:
            self._requests.remove(request)
            self.current.perform(self._request)
        self._move_on(events)
        self._next_at = self._next_plan()

    def _next_plan(self) -> int:
        """After how many events something is planned next."""
        crashes = (crash.at for crash in self._crashes if crash.victim not in self._points)
        ends_at = self.plan.runs[self.run_number].ends_at
        return min((*crashes, *self._requests, *(() if ends_at is None else (ends_at,))), default=1 << 62)

    def _request(self) -> None:
        if self.current.has_started:
            self.current.coordinator.trigger_checkpoint()

    # ------------------------------------------------------------ from run to run

    def _move_on(self, events: int) -> None:
        life = self.current
        if self._is_cancelling:
            if life.end is not None and life.end.status is JobStatus.CANCELED:
                self._start_next_job()
            elif life.has_started and life.coordinator.status in _CANCELABLE:
                # Again after a crash of the coordinator: nobody but the user knew of it.
                life.perform(life.coordinator.cancel)
            return
        run = self.plan.runs[self.run_number]
        if run.ends_at is None or events < run.ends_at or life.end is not None or not life.is_alive:
            return
        if run.ending is Ending.CANCEL:
            self.world.note("the job is cancelled")
            self._is_cancelling = True
        else:
            self.run_number += 1
            self._crash(Victim.COORDINATOR)

    def _start_next_job(self) -> None:
        ended = self.current
        assert ended.end is not None
        ended.forget_end()
        self._is_cancelling = False
        self.run_number += 1
        self._jobs += 1
        self._restore_path = ended.end.newest_checkpoint or self._restore_path
        # The address of the storage differs from run to run, and the log must not.
        checkpoint = None if self._restore_path is None else self._restore_path.rpartition("/")[2]
        self.world.note(f"another job starts from {checkpoint}")
        # A coordinator that dies while it cleans up leaves what it had not removed yet, and files stay whose
        # manifest may exist, as nobody knows whether its creation failed.
        if self._lives == 1 and not self.plan.faults.failed_write:
            orphans = self.storage.watcher.orphans(ended.spec.job_id)
            assert not orphans, f"files are left behind: {orphans}"
        self._new_life().start()

    # ------------------------------------------------------------ crashes

    def run_as(self, actor: _Actor, work: Callable[[], None]) -> None:
        """Run `work` in the name of somebody, who may die in the middle of it."""
        before, self._running = self._running, actor
        try:
            work()
        except ProcessDied:
            assert actor is not None
            actor.die()
        finally:
            self._running = before

    def point(self) -> None:
        """Whoever runs does something that others notice: here it may die."""
        victim = Victim.TASK_INSIDE if isinstance(self._running, Process) else Victim.COORDINATOR_INSIDE
        actor = self._running
        if actor is None or not self._crashes or (isinstance(actor, Process) and not actor.is_alive):
            return
        self._points[victim] += 1
        for crash in self._crashes:
            if crash.victim is victim and crash.at <= self._points[victim]:
                self._crashes.remove(crash)
                self.crashes += 1
                raise ProcessDied

    def _may_fail(self) -> bool:
        """Whether storage may fail for whoever runs: a job that cannot start or clean up ends by it."""
        actor = self._running
        if not isinstance(actor, Incarnation):
            return True
        return actor.has_started and not actor.coordinator.status.is_globally_terminal_state()

    def _crash(self, victim: Victim) -> None:
        life = self.current
        if life.end is not None or not life.is_alive:
            return
        self.crashes += 1
        if victim is Victim.TASK:
            alive = [process for process in life.processes.values() if process.is_alive]
            if alive:
                life.crash(self.world.random.choice(sorted(alive, key=lambda each: each.subtask)))
        elif victim is Victim.PARTITIONED:
            self.world.note("the coordinator counts as dead, but is not")
            self.world.soon(_PARTITION_NS, lambda: self._end_life(life))
            self._restart(life)
        else:
            self.coordinator_died(life)

    def coordinator_died(self, life: Incarnation) -> None:
        """A coordinator dies; Ray kills what it owned, and starts it again."""
        self.world.note("the coordinator crashes")
        self._end_life(life)
        if life is self.current:
            self._restart(life)

    def _end_life(self, life: Incarnation) -> None:
        if life.is_alive:
            life.is_alive = False
            life.stop_processes()

    def _restart(self, life: Incarnation) -> None:
        def restart() -> None:
            self.world.note("the coordinator is back")
            self._new_life().start()

        self.world.soon(_RESTARTED_NS, restart)

    # ------------------------------------------------------------ watching

    def deployed(self, deployment: TaskDeployment) -> None:
        """An attempt is deployed."""
        self.attempts += 1
        self.world.note(
            f"attempt {deployment.attempt} is deployed from checkpoint {deployment.restored_checkpoint_id}"
        )

    def triggered(self, life: Incarnation, checkpoint_id: CheckpointId) -> None:
        """A coordinator triggers a checkpoint, perhaps not for the first time."""
        job_id = life.spec.job_id
        is_new = (job_id, checkpoint_id) not in self._triggered
        giver = self._triggered.setdefault((job_id, checkpoint_id), life.number)
        assert giver == life.number, f"checkpoint id {checkpoint_id} is given twice"
        newest = self._newest_id.get(job_id, 0)
        if checkpoint_id > newest:
            self._newest_id[job_id] = checkpoint_id
        elif life is self.current and is_new:
            raise AssertionError(f"checkpoint id {checkpoint_id} is given after {newest}")

    def completed(self, life: Incarnation, checkpoint_id: CheckpointId) -> None:
        """A coordinator tells a task that a checkpoint is complete."""
        known = (life.spec.job_id, checkpoint_id) in self.storage.watcher.completed
        assert known, f"checkpoint {checkpoint_id} is told to be complete, but has no manifest"

    @property
    def checkpoints(self) -> int:
        """How many checkpoints completed."""
        return len(self.storage.watcher.completed)

    def check_files(self) -> None:
        """Raise `AssertionError` if the job left files, apart from what its kept checkpoints need."""
        ended = self.current
        ended.forget_end()
        left = self.storage.list_files(ended.spec.job_id)
        assert not left, f"files are left behind: {left}"

    def close_event_loops(self) -> None:
        """End what the async functions of dead processes left behind."""
        for loop in self.event_loops:
            loop.close()

    def stuck(self) -> str:
        """Who waits for what, for the report of a deadlock."""
        return self.current.stuck()
