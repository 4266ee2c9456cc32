"""The simulated shell: carries messages with random delays, and kills processes at random moments."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..actors.ports import TaskDeployment
from ..actors.task import StreamTask
from ..coordinator.job_coordinator import JobCoordinator
from ..coordinator.report_order import ReportOrder
from ..coordinator.spec import JobSpec
from ..protocol.elements import Batch, Message, StreamElement
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.plan import build_execution_graph
from ..protocol.task_events import (
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    CreditReturned,
    TaskEvent,
    TaskFailed,
    TaskMail,
    TaskStopped,
    TriggerCheckpoint,
)
from ..state.storage import CheckpointStorage
from ..telemetry import create_tracer
from .world import MILLISECOND, World

RECORD_BYTES = 64
OVERSHOOT_BYTES = 32 * RECORD_BYTES
"""What one step may send beyond the credit: one batch's results and some control elements."""


@dataclass(frozen=True)
class Faults:
    """How hostile the world is."""

    duplicate: float = 0.03
    lost_notification: float = 0.05
    zombie_work: float = 0.5
    delay_ns: int = 3 * MILLISECOND
    task_crashes: int = 2
    coordinator_crashes: int = 1
    crash_within_events: int = 900


@dataclass
class Process:
    """One task process. A dead one may have messages and background work left behind."""

    subtask: SubtaskId
    attempt: Attempt
    ports: _TaskPorts
    task: StreamTask
    is_alive: bool = True
    is_stepping: bool = False
    background: deque[Callable[[], None]] = field(default_factory=deque)
    reports: int = 0


class SimulatedShell:
    """Runs one job; implements `CoordinatorPorts`."""

    def __init__(self, world: World, spec: JobSpec, storage: CheckpointStorage, faults: Faults) -> None:
        self.world = world
        self._spec = spec
        self._storage = storage
        self._faults = faults
        self._graph = build_execution_graph(spec.graph)
        self._processes: dict[SubtaskId, Process] = {}
        self._order = ReportOrder()
        self._outstanding: dict[tuple[Attempt, ChannelId], int] = defaultdict(int)
        self._generation = 0
        self._newest_checkpoint = 0
        self.crashes = 0
        self.coordinator = self._new_coordinator()

    # ------------------------------------------------------------ the coordinator

    def _new_coordinator(self) -> JobCoordinator:
        tracer = create_tracer("simulation", {})
        return JobCoordinator(self._spec, self, tracer, self._storage)

    def start(self) -> None:
        """Start the job and plan the crashes."""
        self._on_coordinator(lambda: self.coordinator.start())
        self._tick(self._generation)
        random = self.world.random
        for _ in range(random.randint(0, self._faults.task_crashes)):
            self._plan_crash(random.randint(1, self._faults.crash_within_events), self._crash_task)
        for _ in range(random.randint(0, self._faults.coordinator_crashes)):
            when = random.randint(1, self._faults.crash_within_events)
            self._plan_crash(when, self._crash_coordinator)

    def _plan_crash(self, events: int, crash: Callable[[], None]) -> None:
        """Crash after so many events, so that any step may be the last one."""

        def wait() -> None:
            if self.world.events_run >= events:
                crash()
            elif not self.coordinator.status.is_globally_terminal_state():
                self.world.soon(MILLISECOND // 2, wait)

        wait()

    def _on_coordinator(self, work: Callable[[], None]) -> None:
        work()
        self.coordinator.validate()

    def _tick(self, generation: int) -> None:
        if generation != self._generation or self.coordinator.status.is_globally_terminal_state():
            return
        if self.coordinator.next_due_ms() <= self.now_ns() // MILLISECOND:
            self._on_coordinator(self.coordinator.tick)
        self.world.after(MILLISECOND, lambda: self._tick(generation))

    def _crash_coordinator(self) -> None:
        """The coordinator dies; Ray kills what it owned, and starts it again."""
        if self.coordinator.status.is_globally_terminal_state():
            return
        self.crashes += 1
        self.world.note("the coordinator crashes")
        self._generation += 1
        generation = self._generation
        for process in list(self._processes.values()):
            self.world.soon(20 * MILLISECOND, lambda process=process: self._kill(process))  # type: ignore[misc]
        self._processes = {}

        def restart() -> None:
            self.world.note("the coordinator is back")
            self._order = ReportOrder()
            self.coordinator = self._new_coordinator()
            self._on_coordinator(lambda: self.coordinator.start())
            self._tick(generation)

        self.world.soon(10 * MILLISECOND, restart)

    # ------------------------------------------------------------ CoordinatorPorts

    def now_ns(self) -> int:
        return self.world.now_ns

    def random_ms(self, bound_ms: int) -> int:
        return self.world.random.randrange(max(1, bound_ms))

    def run_in_background(self, work: Callable[[], None]) -> None:
        # Even when the coordinator has died since: deletions on their way are not called back.
        self.world.soon(2 * self._faults.delay_ns, work)

    def deploy(self, deployments: Sequence[TaskDeployment]) -> None:
        for deployment in deployments:
            ports = _TaskPorts(self, deployment)
            task = StreamTask(deployment, ports)
            process = Process(deployment.subtask_id, deployment.attempt, ports, task)
            ports.process = process
            self._processes[deployment.subtask_id] = process
            self.world.soon(self._faults.delay_ns, lambda process=process: self._initialize(process))  # type: ignore[misc]
        self.world.note(f"attempt {deployments[0].attempt} is deployed")

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        if isinstance(mail, TriggerCheckpoint):
            self._watch_ids(mail)
        elif isinstance(mail, (CheckpointCompleted, CheckpointAborted)) and self._may_be_lost(mail):
            return
        process = self._processes.get(subtask)
        if process is not None and process.attempt == attempt:
            self._mail(process, mail)

    def _may_be_lost(self, mail: CheckpointCompleted | CheckpointAborted) -> bool:
        store = self.coordinator.store
        newest = store.newest if store is not None else None
        is_final = newest is not None and newest.kind.value == "final"
        return not is_final and self.world.chance(self._faults.lost_notification)

    def _watch_ids(self, mail: TriggerCheckpoint) -> None:
        checkpoint_id = mail.barrier.checkpoint_id
        pending = self._newest_checkpoint
        assert checkpoint_id >= pending - 3, f"checkpoint id {checkpoint_id} after {pending}"
        self._newest_checkpoint = max(pending, checkpoint_id)

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        for subtask in subtasks:
            process = self._processes.get(subtask)
            if process is None or not process.is_alive:
                self.world.soon(
                    self._faults.delay_ns,
                    lambda subtask=subtask: self.report_to_coordinator(TaskStopped(attempt, subtask)),  # type: ignore[misc]
                )
            else:
                self._mail(process, CancelTask())

    # ------------------------------------------------------------ processes

    def _mail(self, process: Process, mail: Any) -> None:
        def arrive() -> None:
            if process.is_alive:
                process.task.put(mail)
                self._step_soon(process, MILLISECOND // 4)

        self.world.soon(self._faults.delay_ns, arrive)

    def _initialize(self, process: Process) -> None:
        if process.is_alive:
            process.task.initialize()
            self._step_soon(process, 0)

    def _step_soon(self, process: Process, at_most_ns: int) -> None:
        if process.is_stepping or not process.is_alive:
            return
        process.is_stepping = True
        self.world.soon(at_most_ns, lambda: self._step(process))

    def _step(self, process: Process) -> None:
        process.is_stepping = False
        if not process.is_alive:
            return
        outcome = process.task.step()
        process.task.validate()
        if outcome.is_over:
            return
        if outcome.wait_ms == 0:
            self._step_soon(process, MILLISECOND // 2)
        else:
            self.world.after(outcome.wait_ms * MILLISECOND, lambda: self._step_soon(process, MILLISECOND))

    def _crash_task(self) -> None:
        alive = [process for process in self._processes.values() if process.is_alive]
        if not alive or self.coordinator.status.is_globally_terminal_state():
            return
        process = self.world.random.choice(sorted(alive, key=lambda each: each.subtask))
        self.crashes += 1
        self.world.note(f"{process.subtask} of attempt {process.attempt} crashes")
        self._kill(process)
        failed = TaskFailed(process.attempt, process.subtask, "its process died (simulated)")
        self.world.soon(20 * MILLISECOND, lambda: self.report_to_coordinator(failed))

    def _kill(self, process: Process) -> None:
        process.is_alive = False
        if process.background and not self.world.chance(self._faults.zombie_work):
            process.background.clear()

    def report_to_coordinator(self, event: TaskEvent) -> None:
        """An event that arrives by itself, not from a live task."""
        if not self.coordinator.status.is_globally_terminal_state():
            self._on_coordinator(lambda: self.coordinator.handle(event))

    # ------------------------------------------------------------ for the tasks

    def route(self, sender: Process, message: Message) -> None:
        """Send a message, perhaps twice, to whoever is the receiver when it arrives."""
        key = (message.attempt, message.channel)
        self._outstanding[key] += message.size_bytes
        limit = self._spec.settings.channel_credit_bytes + OVERSHOOT_BYTES
        assert self._outstanding[key] <= limit, f"{message.channel} has too much under way"
        for _ in range(2 if self.world.chance(self._faults.duplicate) else 1):
            self.world.soon(self._faults.delay_ns, lambda: self._deliver(message))

    def _deliver(self, message: Message) -> None:
        process = self._processes.get(self._graph.receivers[message.channel])
        if process is not None and process.is_alive:
            process.task.put(message)
            self._step_soon(process, MILLISECOND // 4)

    def return_credit(self, attempt: Attempt, channel: ChannelId, size_bytes: int) -> None:
        """Give credit back to the sender."""
        process = self._processes.get(self._graph.senders[channel])

        def arrive() -> None:
            self._outstanding[attempt, channel] -= size_bytes
            if process is not None and process.is_alive and process.attempt == attempt:
                process.task.put(CreditReturned(channel, size_bytes))
                self._step_soon(process, MILLISECOND // 4)

        self.world.soon(self._faults.delay_ns, arrive)

    def report(self, process: Process, event: TaskEvent) -> None:
        """Send a report to the coordinator; it is put in order there, as in the Ray shell."""
        number, process.reports = process.reports, process.reports + 1
        sender = (process.attempt, process.subtask)

        def arrive() -> None:
            for ready in self._order.accept(sender, number, event):  # type: ignore[arg-type]
                self.world.note(f"{process.subtask} reports {type(ready).__name__}")
                self.report_to_coordinator(ready)  # type: ignore[arg-type]

        self.world.soon(self._faults.delay_ns, arrive)

    def run_for_task(self, process: Process, work: Callable[[], None]) -> None:
        """Run `work` later, after the work before it; it may outlive its process."""
        process.background.append(work)
        if len(process.background) == 1:
            self.world.soon(2 * self._faults.delay_ns, lambda: self._run_background(process))

    def _run_background(self, process: Process) -> None:
        if not process.background:
            return
        process.background[0]()
        process.background.popleft()
        self._step_soon(process, MILLISECOND // 4)
        if process.background:
            self.world.soon(2 * self._faults.delay_ns, lambda: self._run_background(process))

    def stuck(self) -> str:
        """Who waits for what, for the report of a deadlock."""
        tasks = ", ".join(
            f"{process.subtask} {process.task.phase.value if process.is_alive else 'dead'}"
            for process in self._processes.values()
        )
        return f"job {self.coordinator.status.name}, attempt {self.coordinator.attempt}: {tasks}"


class _TaskPorts:
    """The `TaskPorts` of one simulated process."""

    process: Process

    def __init__(self, shell: SimulatedShell, deployment: TaskDeployment) -> None:
        self._shell = shell
        self._attempt = deployment.attempt

    def now_ns(self) -> int:
        return self._shell.world.now_ns

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        records = sum(len(element) for element in elements if isinstance(element, Batch))
        return elements, max(1, records) * RECORD_BYTES

    def decode(self, payload: Any) -> list[StreamElement]:
        return payload  # type: ignore[no-any-return]

    def send(self, message: Message) -> None:
        self._shell.route(self.process, message)

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        self._shell.return_credit(self._attempt, channel, size_bytes)

    def report(self, event: TaskEvent) -> None:
        self._shell.report(self.process, event)

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._shell.run_for_task(self.process, work)
