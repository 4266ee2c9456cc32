"""The simulated shell: the lives of a job's coordinators one after the other, and all that goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...common.errors import CheckpointStorageError
from ...common.job_status import JobStatus
from ...coordinator.restore.latest_checkpoint import secure_restored
from ...coordinator.spec import JobSettings, JobSpec
from ...protocol.elements import CheckpointBarrier
from ...protocol.ids import CheckpointId, JobId
from ...protocol.scheduling.plan import JobGraph
from ...runtime.ports import TaskDeployment
from ..virtual_event_loop import VirtualEventLoop
from .faults.local_copies import LocalCopies
from .faults.lost_manifests import LostManifests
from .faults.stalls import LINGER_MS, Stalls
from .network import Network
from .plan import MILLISECOND, Crash, Plan, Victim
from .simulated_client import SimulatedClient
from .simulated_coordinator import SimulatedCoordinator
from .simulated_graph import job_graph, most_delayed
from .simulated_process import Process, ProcessDied
from .simulated_scheduler import SimulatedScheduler
from .simulated_storage import ROOT, SimulatedStorage
from .simulated_user import SimulatedUser

_RESTARTED_NS = 10 * MILLISECOND
_PARTITION_NS = 150 * MILLISECOND
_MOST_UNPLANNED_CRASHES = 2
_ENDS_SOON = 0.5
_LIVES_ON_NS = 400 * MILLISECOND
"""How long, at most, a job runs on whose driver was killed, if anything ends it at all."""
_SOON_EVENTS = 300
"""Within so many events after its cause an unplanned crash comes."""

_Actor = Process | SimulatedCoordinator | None
"""Who runs: a task process, a coordinator, or deletions in the background, which nobody kills."""


class SimulatedShell:
    """Runs one job from its first run to its last.

    Args:
        settings: Makes the job's settings, given the address of its checkpoints.
    """

    def __init__(
        self, scheduler: SimulatedScheduler, plan: Plan, settings: Callable[[str], JobSettings]
    ) -> None:
        self.scheduler = scheduler
        self.plan = plan
        self.storage = SimulatedStorage(scheduler, plan.faults.failed_write, self.point, self._may_fail)
        self.network = Network(scheduler, plan.faults, plan.settings, most_delayed(plan))
        self.crashes = 0
        self.attempts = 0
        self.run_number = 0
        self._settings = settings(self.storage.uri)
        self._running: _Actor = None
        self._points = {Victim.TASK_INSIDE: 0, Victim.COORDINATOR_INSIDE: 0}
        self._crashes = list(plan.faults.crashes)
        self._power_failures = list(plan.faults.power_failures)
        self._next_at = 0
        self._unplanned_crashes = _MOST_UNPLANNED_CRASHES
        self._jobs = 1
        self._job_id = JobId("job-1")
        copies = self._settings.local_snapshots_dir
        self.copies = None if copies is None else LocalCopies(scheduler, copies, plan.faults.damaged_copy)
        self.user = SimulatedUser(self)
        self._lost = LostManifests(self)
        self._graphs: dict[int, JobGraph] = {}
        self.event_loops: list[VirtualEventLoop] = []
        self._lives = 0
        self._alive: list[SimulatedCoordinator] = []
        self._triggered: dict[tuple[JobId, CheckpointId], int] = {}
        self._newest_id: dict[JobId, int] = {}
        self.past: list[SimulatedCoordinator] = []
        """Coordinators of jobs from whose checkpoint another one was started while they still ran."""
        self._actors: dict[JobId, SimulatedCoordinator] = {}
        self._replaced: set[int] = set()
        self.gone: set[JobId] = set()
        """The jobs whose coordinators have ended for good."""
        self.stalls = Stalls(self, plan.faults.stalls)
        self.client: SimulatedClient | None = None
        self.handed_over: set[JobId] = set()
        """The jobs that a coordinator would find that starts now."""
        self.current = self.new_life()

    # ------------------------------------------------------------ lives

    def _spec(self) -> JobSpec:
        user = self.user
        spec = self._spec_of(self._job_id, self.run_number, user.restore_path, user.claims_restored)
        return replace(spec, settings=replace(spec.settings, follows=user.follows))

    def _spec_of(self, job_id: JobId, run: int, restore_path: str | None, claims: bool) -> JobSpec:
        if run not in self._graphs:
            self._graphs[run] = self.new_graph(run)
        settings = replace(self._settings, restore_path=restore_path, claims_restored=claims)
        return JobSpec(job_id, self._graphs[run], settings)

    def next_spec(self, restore_path: str | None, claims: bool) -> JobSpec:
        """The job of the next run, with an id of its own for each driver that starts it."""
        self._jobs += 1
        return self._spec_of(JobId(f"job-{self._jobs}"), self.run_number + 1, restore_path, claims)

    def new_graph(self, run: int) -> JobGraph:
        """The job of a run of the plan."""
        return job_graph(self.plan, self.plan.runs[run])

    def new_life(self) -> SimulatedCoordinator:
        """Another life of the coordinator of the current run."""
        life = self._life_of(self._spec())
        self.network.current = life
        self.current = life
        self._alive = [*(each for each in self._alive if each.is_alive), life]
        return life

    def _life_of(self, spec: JobSpec) -> SimulatedCoordinator:
        self._lives += 1
        life = SimulatedCoordinator(self, self._lives, spec)
        if spec.job_id not in self._actors:
            self.handed_over.add(spec.job_id)
        self._actors[spec.job_id] = life
        self.stalls.claimed(life)
        return life

    def start(self) -> None:
        """Start the first run."""
        self.current.start()

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and no other run is to follow."""
        if self.client is not None:
            return self.client.is_done and self.stalls.is_quiet
        end = self.current.end
        return end is not None and not self.user.starts_another(end)

    def after_event(self) -> None:
        """Make happen what is planned for after so many events."""
        events = self.scheduler.events_run
        if self.stalls.is_used:
            self.stalls.at_event(events)
            if self.client is None and self.is_last_run:
                self.client = SimulatedClient(self, releases=self.scheduler.chance(0.5))
                self.client.start()
        if events < self._next_at:
            return
        for crash in [each for each in self._crashes if each.victim not in self._points]:
            if crash.at <= events:
                self._crashes.remove(crash)
                self._crash(crash.victim)
        if self._power_failures and self._power_failures[0] <= events:
            self._power_failures.pop(0)
            self._lose_power()
        self.user.act(events)
        crashes = (crash.at for crash in self._crashes if crash.victim not in self._points)
        self._next_at = min((*crashes, *self._power_failures[:1], self.user.next_at()))

    # ------------------------------------------------------------ from run to run

    def replace_coordinator(self) -> None:
        """The coordinator dies, and comes back with the graph of the next run."""
        self.run_number += 1
        self._crash(Victim.COORDINATOR)

    def start_next_job(self) -> None:
        """The job has ended, and the next one starts, with another id."""
        self.storage.watcher.ended(self.current.spec.job_id)
        if self.current.status is JobStatus.FINISHED and not self.stalls.is_used:
            # Coordinators that were stopped may write something after the end.
            self.check_files()
        user = self.user
        while True:
            spec = self.next_spec(user.restore_path, user.claims_restored)
            try:
                secured = secure_restored(spec)
                break
            except CheckpointStorageError as error:
                self.scheduler.note(f"the driver fails: {error}")
        if user.restore_path is not None:
            self.storage.watcher.is_restored(user.restore_path.removeprefix(f"{ROOT}/"), spec.job_id)
        self._start_next(secured)

    def start_while_running(self, spec: JobSpec) -> None:
        """The next job starts, from a checkpoint of the current one, whose processes may live on."""
        path = spec.settings.restore_path or "nothing"
        self.scheduler.note(f"{spec.job_id} starts from {path} while the job before may run")
        before, self.past = self.current, [*self.past, self.current]
        self.storage.watcher.abandoned(before.spec.job_id)
        self.user.restore_path, self.user.claims_restored = (
            spec.settings.restore_path,
            spec.settings.claims_restored,
        )
        self.user.follows = spec.settings.follows
        self._start_next(spec)
        if self.scheduler.chance(_ENDS_SOON):
            self.scheduler.soon(_LIVES_ON_NS, lambda: self._end_life(before))
        elif self.scheduler.chance(_ENDS_SOON):
            self.scheduler.soon(_LIVES_ON_NS, lambda: self.coordinator_died(before))

    def _start_next(self, spec: JobSpec) -> None:
        self.run_number += 1
        self._job_id = spec.job_id
        # The operating system has written everything by now.
        self.storage.disk.settle()
        self.new_life().start()

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
        if isinstance(actor, SimulatedCoordinator) and self.stalls.is_used:
            self.stalls.at_point(actor)
            if not actor.is_alive:
                raise ProcessDied
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
        if not isinstance(actor, SimulatedCoordinator):
            return True
        return actor.has_started and not actor.coordinator.status.is_globally_terminal_state()

    def may_crash_soon(self, probability: float, victims: tuple[Victim, ...]) -> None:
        """Something happened upon which somebody may die that has not been planned before."""
        if not self._unplanned_crashes or not self.scheduler.chance(probability):
            return
        self._unplanned_crashes -= 1
        at = self.scheduler.events_run + self.scheduler.random.randrange(_SOON_EVENTS)
        self._crashes.append(Crash(self.scheduler.random.choice(victims), at))
        self._next_at = min(self._next_at, at)

    def _crash(self, victim: Victim) -> None:
        life = self.current
        if life.end is not None or not life.is_alive:
            return
        self.crashes += 1
        if victim is Victim.TASK:
            alive = [process for process in life.processes.values() if process.is_alive]
            if alive:
                life.crash(self.scheduler.random.choice(sorted(alive, key=lambda each: each.subtask)))
        elif victim is Victim.PARTITIONED:
            self.scheduler.note("the coordinator counts as dead, but is not")
            self.scheduler.soon(_PARTITION_NS, lambda: self._end_life(life))
            self._restart(life)
        else:
            self.coordinator_died(life)

    def _lose_power(self) -> None:
        """Every machine stops at once; storage keeps what was synced, and perhaps more."""
        life = self.current
        if life.end is not None or not life.is_alive:
            return
        self.crashes += 1
        for each in self._alive:
            each.is_alive = False
            each.lose_processes()
        self._alive.clear()
        changed = self.storage.disk.fail(lambda: self.scheduler.chance(0.5))
        self.scheduler.note(f"all machines lose their power; {len(changed)} files are not what they were")
        self._restart(life)

    def coordinator_died(self, life: SimulatedCoordinator) -> None:
        """A coordinator dies; Ray kills what it owned, and starts it again."""
        self.scheduler.note("the coordinator crashes")
        self._end_life(life)
        if life is self.current or life in self.past:
            self._restart(life)

    def left(self, life: SimulatedCoordinator) -> None:
        """A coordinator ends its own process; if Ray has replaced it already, that changes nothing else."""
        self.scheduler.note(f"coordinator {life.number} leaves")
        if self.is_current(life):
            self.gone.add(life.spec.job_id)
        self._end_life(life)

    def kill_actor(self) -> None:
        """End the coordinator by its actor id, whichever process has that now, for good."""
        self.scheduler.note(f"coordinator {self.current.number} is killed")
        self.gone.add(self.current.spec.job_id)
        self._end_life(self.current)

    def is_current(self, life: SimulatedCoordinator) -> bool:
        """Whether Ray counts this process as the coordinator's: until it decides to start another one."""
        return life is self._actors[life.spec.job_id] and life.number not in self._replaced

    def replace(self, life: SimulatedCoordinator) -> None:
        """Ray counts a coordinator as dead, be it so or not, and starts another one."""
        self._restart(life)

    def job_ended(self, life: SimulatedCoordinator) -> None:
        """A coordinator says how its job ended."""
        if self.stalls.is_used:
            life.do(lambda: self.stalls.check_owner(life, "archives the job"))
            if self.is_last_run:
                life.linger(LINGER_MS * MILLISECOND)

    @property
    def is_last_run(self) -> bool:
        """Whether no other run follows."""
        return self.run_number == len(self.plan.runs) - 1

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """While this lasts, the coordinator that runs is stopped in the middle of a call."""
        before, self._running = self._running, None
        try:
            yield
        finally:
            self._running = before

    def _end_life(self, life: SimulatedCoordinator) -> None:
        if life.is_alive:
            life.is_alive = False
            life.stop_processes()

    def _restart(self, life: SimulatedCoordinator) -> None:
        self._replaced.add(life.number)

        def restart() -> None:
            if life.spec.job_id in self.gone:
                return
            self.scheduler.note(f"the coordinator of {life.spec.job_id} is back")
            if life.spec.job_id == self._job_id:
                if life.is_alive or self._lost.refuses_to_resume():
                    self.new_life().start()
            else:
                # Another job has started from its checkpoint meanwhile, of which Ray knows nothing.
                self.past.append(self._life_of(life.spec))
                self.past[-1].start()

        self.scheduler.soon(_RESTARTED_NS, restart)

    # ------------------------------------------------------------ watching

    def deployed(self, life: SimulatedCoordinator, deployment: TaskDeployment) -> None:
        """An attempt is deployed."""
        self.stalls.check_owner(life, "deploys")
        self.attempts += 1
        if self.attempts > 1:
            self.may_crash_soon(self.plan.faults.repeated_crash, (Victim.TASK,))
        if self.copies is not None:
            self.copies.suffer()
        self.scheduler.note(
            f"attempt {deployment.attempt} is deployed from checkpoint {deployment.restored_checkpoint_id}"
        )

    def triggered(self, life: SimulatedCoordinator, barrier: CheckpointBarrier) -> None:
        """A coordinator triggers a checkpoint, perhaps not for the first time."""
        job_id, checkpoint_id = life.spec.job_id, barrier.checkpoint_id
        is_new = (job_id, checkpoint_id) not in self._triggered
        giver = self._triggered.setdefault((job_id, checkpoint_id), life.number)
        assert giver == life.number, f"checkpoint id {checkpoint_id} is given twice"
        newest = self._newest_id.get(job_id, 0)
        if checkpoint_id > newest:
            self._newest_id[job_id] = checkpoint_id
        elif life is self.current and is_new:
            raise AssertionError(f"checkpoint id {checkpoint_id} is given after {newest}")
        if is_new:
            self.user.triggered(life, barrier)

    def completed(self, life: SimulatedCoordinator, checkpoint_id: CheckpointId) -> None:
        """A coordinator tells a task that a checkpoint is complete."""
        self._lost.announced.add((life.spec.job_id, checkpoint_id))
        known = (life.spec.job_id, checkpoint_id) in self.storage.watcher.completed
        assert known, f"checkpoint {checkpoint_id} is told to be complete, but has no manifest"
        if life is self.current:
            self.user.completed()

    @property
    def checkpoints(self) -> int:
        """How many checkpoints completed."""
        return len(self.storage.watcher.completed)

    def check_files(self) -> None:
        """Raise `AssertionError` if the job left files, unless it keeps its checkpoints."""
        if self._settings.keep_on_finish:
            return
        left = self.storage.retrying.list_files(self.current.spec.job_id)
        assert not left, f"files are left behind: {left}"

    def close_event_loops(self) -> None:
        """End what the async functions of dead processes left behind."""
        for loop in self.event_loops:
            loop.close()

    def stuck(self) -> str:
        """Who waits for what, for the report of a deadlock."""
        return self.current.stuck()
