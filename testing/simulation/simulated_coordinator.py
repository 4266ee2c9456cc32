"""One life of a job's coordinator with the task processes it owns; implements `CoordinatorPorts`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...common.errors import CheckpointStorageError
from ...common.job_status import JobStatus
from ...coordinator.coordinator_life import CoordinatorLife
from ...coordinator.deployment.report_order import ReportOrder
from ...coordinator.job_coordinator import JobCoordinator
from ...coordinator.monitoring.checkpoint_observer import CheckpointDecision
from ...coordinator.monitoring.job_report import JobReport
from ...coordinator.spec import JobSpec
from ...protocol.checkpoints.trigger import NEVER_MS
from ...protocol.elements import CheckpointingMode, Message, SnapshotKind
from ...protocol.ids import Attempt, ChannelId, CheckpointId, SubtaskId
from ...protocol.scheduling.execution_graph import ExecutionGraph, build_execution_graph
from ...protocol.task_events import (
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    Numbered,
    NumberedSent,
    TaskEvent,
    TaskFailed,
    TaskMail,
    TaskStopped,
    TriggerCheckpoint,
)
from ...runtime.ports import TaskDeployment
from ...telemetry import create_tracer
from .external_system import external_system
from .network import DELAY_NS
from .plan import MILLISECOND
from .process_steps import ProcessSteps
from .simulated_process import Process

if TYPE_CHECKING:
    from .simulated_shell import SimulatedShell

_NOTICED_NS = 20 * MILLISECOND
_HEARTBEAT_NS = 50 * MILLISECOND
_PREPARED_NS = 10 * MILLISECOND
_SLOWNESS = 60
_LOST = "tidegate.network.gap-timeout"
"""In the cause of a failure, what says that something was lost."""
_VALIDATED_EVERY = 3
"""Of so many steps of a coordinator one is followed by a look at its books, which are long."""


class SimulatedCoordinator:
    """A coordinator from its start to its death, and its tasks, which do not outlive it for long.

    Args:
        number: Counts the lives of the coordinators of one simulation.
    """

    def __init__(self, shell: SimulatedShell, number: int, spec: JobSpec) -> None:
        self.shell = shell
        self.number = number
        self.spec = spec
        self.is_alive = True
        self.is_stopped = False
        """Whether it does nothing for a while, without having ended."""
        self.has_started = False
        self._inbox: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._is_sure = True
        self.processes: dict[SubtaskId, Process] = {}
        self._scheduler = shell.scheduler
        self._faults = shell.plan.faults
        self.steps = ProcessSteps(shell)
        self._graph = build_execution_graph(spec.graph)
        self._order: ReportOrder[TaskEvent] = ReportOrder(spec.settings.gap_timeout_ms)
        self._ready: Callable[[str], None] | None = None
        self._stops: set[CheckpointId] = set()
        self._failed: set[Attempt] = set()
        self._alarm_ms = NEVER_MS
        self._performed = 0
        self.triggered_mode: CheckpointingMode | None = None
        """Of the newest checkpoint."""
        tracer = create_tracer("simulation", {})
        self.life = CoordinatorLife(
            spec,
            self,
            lambda ended: JobCoordinator(spec, self, tracer, shell.storage.retrying, ended, self.is_current),
            lambda: self.now_ns() // MILLISECOND,
        )
        self.coordinator = self.life.coordinator
        if shell.scheduler.log is not None:
            self.coordinator.observer.on_decision = self._note_decision

    def _note_decision(self, decision: CheckpointDecision) -> None:
        for line in decision.lines():
            self._scheduler.note(f"coordinator {self.number}: {line}")

    # ------------------------------------------------------------ the coordinator

    @property
    def end(self) -> JobReport | None:
        """How the job ended, once it has."""
        return self.life.end

    @property
    def status(self) -> JobStatus:
        """Where the job is in its life."""
        return self.coordinator.status if self.end is None else self.end.status

    def start(self) -> None:
        """Start the job, or resume it, or only report how it ended: as the coordinator's actor does."""
        self.perform(self._start)

    def _start(self) -> None:
        self.life.start()
        self.has_started = True
        if self.life.is_forgotten:
            self.life.lingered()
        elif self.end is not None:
            self.shell.job_ended(self)
        if self._faults.losses:
            self._listen()

    def _listen(self) -> None:
        """Each process says how many reports it sent, again and again; then look for those that were lost."""
        if not self.is_alive or self.end is not None:
            return
        job = self.coordinator
        for process in self.processes.values():
            if process.is_alive:
                self._order.counted(process.attempt, {process.subtask: process.reports})
                self._mail(process, NumberedSent(process.numbered))
        for lost in self._order.look(job.attempt, job.subtasks, job.now_ms):
            self._scheduler.note(lost.cause)
            for process in self._in_process_of(self.processes[lost.subtask]):
                self.kill(process)
                self._heard(TaskFailed(process.attempt, process.subtask, lost.cause))
        self._scheduler.after(_HEARTBEAT_NS, self._listen)

    def perform(self, work: Callable[[], None]) -> None:
        """Let the coordinator do something for its job, if it is still alive and the job runs."""
        if self.is_alive and self.end is None:
            self.do(lambda: None if self.end is not None else work())

    def do(self, work: Callable[[], None]) -> None:
        """Let the coordinator do something in its turn, if it owns the job or its end then."""
        self._inbox.append(work)
        self.work_off()

    def work_off(self) -> None:
        """Do what waits, unless it is stopped or in the middle of something."""
        while self._inbox and self.is_alive and not (self.is_stopped or self._is_busy):
            self._is_busy = True
            self.shell.run_as(self, self._act)
            self._is_busy = False
            if not self.is_alive:
                return
            if not self._is_sure:
                self._scheduler.after(_NOTICED_NS, self.work_off)
                return
            self._after_step()

    def _after_step(self) -> None:
        self._performed += 1
        is_over = self.coordinator.status.is_globally_terminal_state()
        if is_over or self._performed % _VALIDATED_EVERY == 0:
            self.coordinator.validate()
        self.shell.user.hear(self)
        if is_over and self.end is None:
            self.life.ended()
            self.shell.job_ended(self)
        self._set_alarm()

    def _act(self) -> None:
        may_act = self.life.may_act()
        # Where storage does not answer, everything waits.
        self._is_sure = may_act or self.life.is_superseded
        if self._is_sure:
            work = self._inbox.popleft()
            if may_act:
                work()
        if self.life.is_superseded:
            self.life.lingered()

    def linger(self, linger_ns: int) -> None:
        """Stay for that long, then leave nothing of the job."""
        self._scheduler.after(linger_ns, lambda: self.do(self._leave_or_retry))

    def _leave_or_retry(self) -> None:
        try:
            has_left = self.life.lingered()
        except CheckpointStorageError as error:
            self._scheduler.note(str(error))
            has_left = False
        if not has_left:
            self.linger(_NOTICED_NS)

    def forget_end(self) -> None:
        """The driver knows how the job ended, and says so until it is heard."""
        while True:
            try:
                self.life.forget()
                return
            except CheckpointStorageError as error:
                self._scheduler.note(str(error))

    def die(self) -> None:
        """The coordinator dies in what it is doing; the shell starts its successor."""
        if self.is_alive:
            self.shell.coordinator_died(self)

    def stop_processes(self) -> None:
        """The processes die soon after their owner."""
        for process in list(self.processes.values()):
            self._scheduler.soon(_NOTICED_NS, partial(self.kill, process))

    def _set_alarm(self) -> None:
        """Have the coordinator look at the clock when it wants to, at most once a millisecond."""
        due_ms = self.coordinator.next_due_ms()
        if self.end is None and due_ms < self._alarm_ms:
            self._alarm_ms = due_ms
            delay_ns = max(MILLISECOND, due_ms * MILLISECOND - self.now_ns())
            self._scheduler.after(delay_ns, lambda: self._tick(due_ms))

    def _tick(self, due_ms: int) -> None:
        if self._alarm_ms != due_ms:
            return
        self._alarm_ms = NEVER_MS
        if self.coordinator.next_due_ms() <= self.now_ns() // MILLISECOND:
            self.perform(self.coordinator.tick)
        elif self.is_alive:
            self._set_alarm()

    def reported(self, process: Process, number: int, event: TaskEvent) -> None:
        """A report of a task arrived."""
        sender = (process.attempt, process.subtask)
        for ready in self._order.accept(sender, number, event):
            self._scheduler.note(f"{process.subtask} reports {type(ready).__name__}")
            self._heard(ready)

    def _heard(self, event: TaskEvent) -> None:
        if isinstance(event, TaskFailed) and _LOST in event.cause:
            is_right = event.attempt in self.shell.network.lost
            assert is_right, f"nothing was lost in attempt {event.attempt}, but {event.cause}"
        if isinstance(event, TaskFailed):
            self.perform(lambda: self._fail(event))
        else:
            self.perform(lambda: self.coordinator.handle(event))

    def _fail(self, event: TaskFailed) -> None:
        """The coordinator hears of a failure. However many subtasks fail, an attempt is restarted once."""
        before = self.coordinator.failure
        self.coordinator.handle(event)
        after = self.coordinator.failure
        if after is not None and after is not before and after.cause == event.cause:
            assert event.attempt not in self._failed, f"two failures of attempt {event.attempt} were counted"
            self._failed.add(event.attempt)

    # ------------------------------------------------------------ LifePorts

    def is_current(self) -> bool | None:
        return self.shell.is_current(self)

    def is_handed_over(self) -> bool:
        return self.spec.job_id in self.shell.handed_over

    def forget_job(self) -> None:
        self.shell.stalls.check_owner(self, "forgets the job")
        self.shell.handed_over.discard(self.spec.job_id)

    def restart(self) -> None:
        self.die()

    def leave(self) -> None:
        self.shell.left(self)

    # ------------------------------------------------------------ CoordinatorPorts

    def now_ns(self) -> int:
        return self._scheduler.now_ns

    def random_ms(self, bound_ms: int) -> int:
        return self._scheduler.random.randrange(max(1, bound_ms))

    def run_in_background(self, work: Callable[[], None]) -> None:
        # Even when the coordinator has died since: deletions on their way are not called back.
        self.shell.point()
        self._scheduler.soon(2 * DELAY_NS, lambda: self.shell.run_as(None, work))

    def post(self, action: Callable[[], None]) -> None:
        self._scheduler.soon(DELAY_NS, lambda: self.perform(action))

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        self.shell.point()
        self._ready = ready
        problem = "no node came up (simulated)" if self._scheduler.chance(self._faults.no_room) else ""

        def tell() -> None:
            if self._ready is ready:
                self._ready = None
                self.perform(lambda: ready(problem))

        self._scheduler.soon(_PREPARED_NS, tell)
        return ""

    def release(self) -> None:
        self._ready = None

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        for subtask in self.processes.keys() - graph.subtasks.keys():
            self.kill(self.processes.pop(subtask))
        self._graph = graph
        self.shell.user.rescales.deployed(self, graph)
        self.shell.deployed(self, deployments[0])
        for deployment in deployments:
            self.shell.point()
            if self.shell.copies is not None:
                deployment = self.shell.copies.placed(deployment)
            slowness = _SLOWNESS if self._scheduler.chance(self._faults.slow_task) else 1
            process = Process.of(self, deployment, slowness)
            self.processes[deployment.subtask_id] = process
            self._scheduler.soon(DELAY_NS, partial(self.steps.initialize, process))

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        self.shell.point()
        said = mail.mail if isinstance(mail, Numbered) else mail
        if isinstance(said, TriggerCheckpoint):
            self.shell.triggered(self, said.barrier)
            if said.barrier.kind is SnapshotKind.STOP:
                self._stops.add(said.barrier.checkpoint_id)
            # One with a number is lost only on purpose: the gap ends the attempt.
            if said is mail and self._scheduler.chance(self._faults.lost_trigger):
                return
        elif isinstance(mail, CheckpointAborted):
            external_system().stop_failed(self.spec.job_id, mail.checkpoint_id)
        elif isinstance(mail, CheckpointCompleted):
            self.shell.completed(self, mail.checkpoint_id)
        if isinstance(mail, (CheckpointCompleted, CheckpointAborted)) and self._is_lost(mail):
            return
        process = self.processes.get(subtask)
        if process is not None and process.attempt == attempt:
            if isinstance(mail, Numbered):
                process.numbered = mail.number + 1
                if self.shell.network.loses(attempt, f"mail {mail.number} to {subtask}"):
                    return
            self._mail(process, mail)

    def _is_lost(self, mail: CheckpointCompleted | CheckpointAborted) -> bool:
        """Notifications get lost, but not those that tasks wait for: of the end, and of a failed stop."""
        store = self.coordinator.store
        newest = store.newest if store is not None else None
        is_last = newest is not None and newest.kind.ends_job
        is_awaited = is_last or mail.checkpoint_id in self._stops
        return not is_awaited and self._scheduler.chance(self._faults.lost_notification)

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        self.shell.point()
        for subtask in subtasks:
            process = self.processes.get(subtask)
            if process is None or not process.is_alive:
                stopped = TaskStopped(attempt, subtask)
                self._scheduler.soon(DELAY_NS, partial(self._heard, stopped))
            else:
                self._mail(process, CancelTask())

    # ------------------------------------------------------------ processes

    def _mail(self, process: Process, mail: Any) -> None:
        def arrive() -> None:
            if process.is_alive:
                process.task.put(mail)
                if isinstance(mail, CheckpointAborted):
                    process.given_up = max(process.given_up, mail.checkpoint_id)
                self.steps.step_soon(process)

        self._scheduler.soon(DELAY_NS, arrive)

    def deliver(self, message: Message) -> None:
        """A message arrived at the process that has the receiver's name."""
        process = self.processes.get(self._graph.receiver_of(message.channel))
        if process is not None and process.is_alive:
            process.gets(message)
            process.task.put(message)
            self.steps.step_soon(process)

    def stays_in_process(self, sender: Process, message: Message) -> bool:
        """Whether the receiver of a message runs in the process of its sender."""
        receiver = self.processes.get(self._graph.receiver_of(message.channel))
        # The graph of another attempt may have another receiver of the channel.
        return receiver is not None and (receiver.key, receiver.attempt) == (sender.key, sender.attempt)

    def sender_of(self, channel: ChannelId) -> Process | None:
        """The process that sends on a channel."""
        return self.processes.get(self._graph.sender_of(channel))

    def crash(self, process: Process) -> None:
        """A process dies, and its coordinator hears of it for each subtask."""
        members = self._in_process_of(process)
        failures = [
            TaskFailed(each.attempt, each.subtask, "its process died (simulated)") for each in members
        ]
        for each in members:
            self._scheduler.note(f"{each.subtask} of attempt {each.attempt} crashes")
            self.kill(each)

        def notice() -> None:
            for failed in failures:
                self._heard(failed)

        self._scheduler.soon(_NOTICED_NS, notice)

    def _in_process_of(self, process: Process) -> list[Process]:
        """The subtasks that run in one process with this one, which is the first."""
        others = [each for each in self.processes.values() if each.key == process.key and each is not process]
        return [process, *others]

    def kill(self, process: Process) -> None:
        """A subtask ends without a word; what it does in the background may go on, as a zombie's would."""
        process.is_alive = False
        if process.background and not self._scheduler.chance(self._faults.zombie_work):
            process.background.clear()

    def lose_processes(self) -> None:
        """The processes end, and nothing of what they did in the background goes on."""
        for process in self.processes.values():
            process.is_alive = False
            process.background.clear()

    def process_died(self, process: Process) -> None:
        """A process died in the middle of what it was doing."""
        if process.is_alive:
            self.crash(process)

    def stuck(self) -> str:
        """Who waits for what, for the report of a deadlock."""
        tasks = ", ".join(
            f"{process.subtask} {process.task.phase.value if process.is_alive else 'dead'}"
            for process in self.processes.values()
        )
        failure = self.coordinator.failure
        cause = "" if failure is None else f"; last failure: {failure.cause}"
        return f"job {self.status.name}, attempt {self.coordinator.attempt}: {tasks}{cause}"
