"""Places the tasks of a job in Ray actors, and notices those that die or hang."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import cloudpickle
import ray
from ray.exceptions import RayActorError

from ..common.clock import SteadyClock
from ..common.errors import ConfigurationError, first_line
from ..coordinator.deployment.slots import (
    ProcessResources,
    process_key,
    process_resources,
    resource_problem,
    slots_that_fit,
    start_order,
    subtasks_by_process,
    total,
)
from ..coordinator.monitoring.local_state import local_state_hint
from ..coordinator.spec import JobSpec
from ..protocol.channels.network_failure import without_connections
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.scheduling.execution_graph import ExecutionGraph, Subtask, build_execution_graph
from ..protocol.scheduling.heartbeats import Heartbeats, Silent
from ..protocol.scheduling.plan import JobGraph
from ..protocol.task_events import (
    Numbered,
    ResultsCollected,
    ResultsTaken,
    TaskEvent,
    TaskFailed,
    TaskMail,
    TaskStopped,
)
from ..protocol.task_metrics import Heartbeat
from ..runtime.ports import TaskDeployment
from .cluster_view import ClusterView, look_at_nodes
from .ping_pacing import PingPacing
from .record_routes import Answered, RayRoutes
from .spare_processes import SpareProcesses
from .task_actor import start_task_actor
from .task_processes import PendingProcesses, TaskProcess

_CLEAN_UP_S = 2.0


class RayTaskGateway:
    """Places subtasks in task actors, reuses those that live, and notices those that die or hang.

    Implements `CoordinatorPorts`. All methods run on the coordinator's thread; answers of actors are
    brought there by `post`.

    Args:
        spec: The job.
        coordinator: Handle of the coordinator's own actor, for the tasks to report to.
        early: Task actors that were started already, by the keys of their processes.
        post: Runs a callable on the coordinator's thread.
        on_event: Takes events about tasks, on the coordinator's thread.
        on_heartbeat: Takes the heartbeat of a process and the time it came at, likewise.
    """

    def __init__(
        self,
        spec: JobSpec,
        coordinator: Any,
        early: Mapping[str, Any],
        post: Callable[[Callable[[], None]], None],
        on_event: Callable[[TaskEvent], None],
        on_heartbeat: Callable[[Heartbeat, int], None],
    ) -> None:
        self._settings = spec.settings
        self._clock = SteadyClock()
        self._graph = build_execution_graph(spec.graph)
        self._slots = spec.graph.slots
        self._pending_processes: PendingProcesses | None = None
        self._coordinator = coordinator
        self.post = post
        self._on_event = on_event
        self._on_heartbeat = on_heartbeat
        self._attempt = Attempt(0)
        self._processes: dict[str, TaskProcess] = {}
        self._spares = SpareProcesses(
            spec.settings.redundant_processes,
            self._create_spare,
            lambda spare, answered: self._when_done(spare.actor.warm_up.remote(), answered),
        )
        self._resources = process_resources(self._graph, spec.graph.slots, spec.settings.slot_cpus)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-deletion")
        self._cluster = ClusterView(post)
        self._slots_seen: tuple[dict[str, float], int] | None = None
        self._heartbeats = Heartbeats(spec.settings.heartbeat_timeout_ms, self.tick_interval_ms)
        self._pings = PingPacing(spec.settings.heartbeat_timeout_ms, spec.settings.metrics_interval_ms)
        for key, actor in early.items():
            self._processes[key] = self._watched(key, actor, self._resources[key])

    # ------------------------------------------------------------ CoordinatorPorts

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def random_ms(self, bound_ms: int) -> int:
        return random.randrange(max(1, bound_ms))

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        self.release()
        try:
            wanted = process_resources(graph, self._slots, self._settings.slot_cpus)
        except ConfigurationError as error:
            return str(error)
        problem = resource_problem(wanted, ray.cluster_resources())
        if problem is not None:
            return problem
        draining = self._cluster.draining
        kept = [
            key
            for key, each in self._processes.items()
            if key in wanted and _suits(each, wanted[key]) and each.node_id not in draining
        ]
        released = {
            key: each.resources
            for key, each in self._processes.items()
            if key not in kept and each.node_id not in draining
        }
        missing = {key: resources for key, resources in wanted.items() if key not in kept}
        members = subtasks_by_process(graph)
        self._pending_processes = PendingProcesses(
            missing,
            total(released),
            lambda key, resources: self._create_warm(key, resources, _operators(members[key])),
            lambda problem: self.post(lambda: ready(problem)),
            self._now_ms(),
            self._settings.slot_request_timeout_ms,
        )
        self._advance_pending()
        return ""

    def _create_warm(self, key: str, resources: ProcessResources, operators: list[bytes]) -> TaskProcess:
        process = self._create(key, resources)

        def answered(place: Any, error: BaseException | None) -> None:
            process.pid, process.node_id = place or (0, "")
            if error is not None and self._pending_processes is not None:
                self._pending_processes.lost(process, first_line(error))
            self._advance_pending()

        self._when_done(process.actor.warm_up.remote(operators), answered)
        return process

    def _advance_pending(self) -> None:
        if self._pending_processes is not None:
            self._pending_processes.advance(look_at_nodes().free, self._now_ms())

    def release(self) -> None:
        for process in self._take_prepared().values():
            ray.kill(process.actor, no_restart=True)

    def _take_prepared(self) -> dict[str, TaskProcess]:
        pending, self._pending_processes = self._pending_processes, None
        return {} if pending is None else pending.processes

    def _adopt(self, graph: ExecutionGraph) -> None:
        """From now on the processes are those of this graph: others end, prepared ones take their places."""
        self._graph = graph
        self._resources = process_resources(graph, self._slots, self._settings.slot_cpus)
        prepared = self._take_prepared()
        for key, process in list(self._processes.items()):
            is_of_use = key in self._resources and _suits(process, self._resources[key])
            if key in prepared or not is_of_use:
                del self._processes[key]
                ray.kill(process.actor, no_restart=True)
        for key, process in prepared.items():
            if key in self._processes or key not in self._resources:
                ray.kill(process.actor, no_restart=True)
            else:
                process.created_ms = self._now_ms()
                self._heartbeats.heard(key)
                self._processes[key] = process

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        self._attempt = deployments[0].attempt
        self._adopt(graph)
        # Later on a node may be missing for a while: then the processes wait for a place.
        problem = self._resource_problem() if self._is_first_attempt else None
        if problem is not None:
            self._fail(deployments[0].subtask_id, problem, is_recoverable=False)
            return
        groups: dict[str, list[TaskDeployment]] = {}
        for deployment in deployments:
            groups.setdefault(process_key(deployment.subtask), []).append(deployment)
        for key in filter(groups.__contains__, start_order(graph)):
            members = groups[key]
            process = self._processes.get(key) or self._place(key)
            process.subtasks, process.numbered = [member.subtask_id for member in members], {}
            process.stopping, process.stop_deadline_ms = {}, None
        processes = {key: self._processes[key] for key in groups}
        routes = RayRoutes(self._attempt, graph, processes, self._settings, self._when_done)
        for key, members in groups.items():
            self._deploy_to(self._processes[key], members, routes)

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        process = self._process_of(subtask)
        if process is not None:
            if isinstance(mail, Numbered):
                process.numbered[subtask] = mail.number + 1
            process.actor.mail.remote(subtask, attempt, mail)

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        deadline_ms = self._now_ms() + self._settings.stop_timeout_ms
        for subtask in subtasks:
            process = self._process_of(subtask)
            if process is None:
                self._on_event_later(TaskStopped(attempt, subtask))
                continue
            process.stopping[subtask] = None
            if process.stop_deadline_ms is None:
                process.stop_deadline_ms = deadline_ms
                self._when_done(process.actor.stop.remote(attempt), self._stop_answered(process, attempt))

    # ------------------------------------------------------------ actors

    def _place(self, key: str) -> TaskProcess:
        """A process for some subtasks: one that waits for that, else a new one."""
        wanted, avoided = self._resources[key], self._cluster.avoided(self._now_ms())
        process = self._spares.take(wanted, avoided)
        if process is None:
            process = self._create(key, wanted)
        else:
            process.key, process.created_ms = key, self._now_ms()
        self._processes[key] = process
        return process

    def _keep_spares(self) -> None:
        """Start the processes that are to wait for a failure, once the job's own are placed."""
        if not self._processes or not all(process.pid for process in self._processes.values()):
            return
        self._spares.fill()

    def _create_spare(self) -> TaskProcess:
        return self._create("spare", max(self._resources.values(), key=lambda each: each.cpus))

    def _create(self, key: str, resources: ProcessResources) -> TaskProcess:
        options = self._cluster.options(resources, self._now_ms())
        return self._watched(key, start_task_actor(options), resources)

    def _watched(self, key: str, actor: Any, resources: ProcessResources) -> TaskProcess:
        process = TaskProcess(key, actor, resources, [], self._now_ms())
        self._heartbeats.heard(key)

        def ended(future: Future[Any]) -> None:
            self.post(lambda: self._process_lost(process, future.exception()))

        actor.watch.remote().future().add_done_callback(ended)
        return process

    def _deploy_to(self, process: TaskProcess, members: list[TaskDeployment], routes: RayRoutes) -> None:
        attempt, first, key = self._attempt, members[0].subtask_id, process.key
        mine = routes.of(key, [member.subtask for member in members])
        reference = process.actor.deploy.remote(mine, cloudpickle.dumps(members), self._coordinator)

        def failed(key: str, problem: str) -> None:
            # The answer may be late: the job may have ended meanwhile, or the process.
            if key in self._processes:
                cause = f"the process of {self._names(self._processes[key])} {problem}"
                self._on_event(TaskFailed(attempt, first, cause))

        def answered(place: Any, error: BaseException | None) -> None:
            self._heartbeats.heard(process.key)
            if place is not None:
                process.pid, process.node_id = place[0], place[1].node_id
                routes.deployed(key, place[1], failed)
            elif not isinstance(error, RayActorError):
                cause = f"task {first} could not be deployed: {error}"
                self._on_event(TaskFailed(attempt, first, cause, is_recoverable=False))

        self._when_done(reference, answered)

    def _process_of(self, subtask: SubtaskId) -> TaskProcess | None:
        return self._processes.get(process_key(self._graph.subtasks[subtask]))

    def _stop_answered(self, process: TaskProcess, attempt: Attempt) -> Answered:
        def answered(_: Any, error: BaseException | None) -> None:
            # If the process died, `_process_ended` says so for all its subtasks.
            if error is None and process.stop_deadline_ms is not None:
                process.stop_deadline_ms = None
                stopped, process.stopping = list(process.stopping), {}
                for subtask in stopped:
                    self._on_event(TaskStopped(attempt, subtask))

        return answered

    def _process_lost(self, process: TaskProcess, error: BaseException | None) -> None:
        """Its watch broke: it died, or cannot be reached and must not come back."""
        if self._pending_processes is not None:
            self._pending_processes.lost(process, first_line(error))
        if process in self._spares:
            self._spares.remove(process)
        elif self._processes.get(process.key) is process:
            cause = f"the process of {self._names(process)} died: {first_line(error)}"
            self._kill(process, cause + local_state_hint(self._settings))

    def _kill(self, process: TaskProcess, cause: str, is_recoverable: bool = True) -> None:
        self._kill_all([process], cause, is_recoverable)

    def _kill_all(self, ended: Sequence[TaskProcess], cause: str, is_recoverable: bool = True) -> None:
        for process in ended:
            ray.kill(process.actor, no_restart=True)
            del self._processes[process.key]
            self._cluster.released(process.node_id, process.resources)
        # The next attempt may begin with the failure of the last subtask that still ran.
        attempt = self._attempt
        for subtask in [subtask for process in ended for subtask in process.subtasks]:
            self._on_event(TaskFailed(attempt, subtask, cause, is_recoverable=is_recoverable))

    def end_process_of(self, failed: TaskFailed) -> None:
        """End the process of a subtask whose state or whose connections cannot be relied on."""
        process = self._process_of(failed.subtask)
        if process is not None and failed.attempt == self._attempt:
            ended = [process.key]
            if failed.is_network_error:
                nodes = {key: each.node_id for key, each in self._processes.items()}
                ended = without_connections(process.key, nodes)
            self._kill_all([self._processes[key] for key in ended], failed.cause)

    def _names(self, process: TaskProcess) -> str:
        return ", ".join(self._graph.subtasks[subtask].name for subtask in process.subtasks)

    # ------------------------------------------------------------ nodes

    def slots(self, graph: JobGraph) -> int | None:
        """For how many slots of a job there is room on nodes that stay, `None` where that is not known."""
        nodes = self._cluster.nodes or look_at_nodes()
        room = dict(nodes.free)
        for process in [*self._processes.values(), *self._spares]:
            if process.pid and process.node_id in nodes.staying:
                for name, amount in process.resources.by_ray_name().items():
                    room[name] = room.get(name, 0.0) + amount
        if self._slots_seen is None or self._slots_seen[0] != room:
            self._slots_seen = room, slots_that_fit(graph, self._settings.slot_cpus, room)
        return self._slots_seen[1]

    def must_leave(self, node_id: str) -> bool:
        """Whether the coordinator, on this node, has to go to another one."""
        nodes, placement = self._cluster.nodes, self._settings.coordinator_placement
        return nodes is not None and nodes.must_leave(node_id, placement)

    def leaving(self) -> list[str]:
        """Names of what runs on nodes that are about to go."""
        draining = self._cluster.draining
        return [self._names(each) for each in self._processes.values() if each.node_id in draining]

    # ------------------------------------------------------------ time

    def tick(self) -> None:
        """Ask every process whether it is alive; kill those that hang or do not stop."""
        self._keep_spares()
        self._advance_pending()
        self._cluster.look(self._now_ms())
        now_ms = self._now_ms()
        silent = self._find_silent(now_ms)
        for process in list(self._processes.values()):
            names = self._names(process)
            if process.stop_deadline_ms is not None and process.stop_deadline_ms <= now_ms:
                limit = self._settings.stop_timeout_ms
                cause = f"{names} did not stop within {limit} ms (task.cancellation.timeout)"
                self._kill(process, f"{cause}, so its process was killed")
            elif not process.pid:
                if now_ms - process.created_ms > self._settings.slot_request_timeout_ms:
                    self._kill(process, self._placing_problem(names), not self._is_first_attempt)
            elif process.key in silent.processes:
                limit = self._settings.heartbeat_timeout_ms
                all_of = f", nor did node {process.node_id}" if process.node_id in silent.nodes else ""
                self._kill(process, f"{names} gave no heartbeat for {limit} ms (heartbeat.timeout){all_of}")
            elif self._pings.is_due(process, now_ms):
                with_metrics = self._pings.pinged(process, now_ms)
                self._when_done(
                    process.actor.ping.remote(self._attempt, process.numbered, with_metrics),
                    self._pinged(process),
                )

    def _find_silent(self, now_ms: int) -> Silent:
        """The processes that do not answer; from now on nothing is placed on nodes that do not."""
        asked = {each.key: each.node_id for each in self._processes.values() if each.pid}
        silent = self._heartbeats.look(asked, now_ms)
        if silent.nodes:
            self._cluster.silent(silent.nodes, now_ms)
            for spare in self._spares.take_from(silent.nodes):
                ray.kill(spare.actor, no_restart=True)
        return silent

    def _pinged(self, process: TaskProcess) -> Answered:
        def answered(heartbeat: Heartbeat | None, error: BaseException | None) -> None:
            self._pings.answered(process, heartbeat)
            if heartbeat is not None:
                if self._processes.get(process.key) is process:
                    self._heartbeats.heard(process.key)
                self._on_heartbeat(heartbeat, self._now_ms())

        return answered

    def return_result_credit(self, event: ResultsCollected) -> None:
        """The driver took collected results: their subtask may offer more."""
        if event.attempt == self._attempt:
            self.send(event.attempt, event.subtask, ResultsTaken(event.size_bytes))

    def process_ids(self) -> dict[str, int]:
        """Process ids of the live task actors by the names of what runs in them, or `redundant 1`…"""
        spares = {f"redundant {number}": spare for number, spare in enumerate(self._spares, 1)}
        used = {self._names(process): process for process in self._processes.values()}
        return {name: process.pid for name, process in {**used, **spares}.items() if process.pid}

    @property
    def tick_interval_ms(self) -> int:
        """How often `tick` is to be called."""
        settings = self._settings
        intervals_ms = (settings.heartbeat_timeout_ms // 5, settings.metrics_interval_ms or 2_000, 2_000)
        return max(20, min(intervals_ms))

    def close(self) -> None:
        """Kill every task actor: the job is over."""
        self.release()
        processes, self._processes = [*self._processes.values(), *self._spares.take_all()], {}
        ended = [process.actor.job_ended.remote() for process in processes if process.subtasks]
        # What does not answer leaves its local files to whoever starts next on its machine.
        if ended:
            ray.wait(ended, num_returns=len(ended), timeout=_CLEAN_UP_S)
        for process in processes:
            ray.kill(process.actor, no_restart=True)
        self._background.shutdown(wait=True)
        self._cluster.close()

    # ------------------------------------------------------------ small things

    def _when_done(self, reference: Any, answered: Answered) -> None:
        def done(future: Future[Any]) -> None:
            error = future.exception()
            result = future.result() if error is None else None
            self.post(lambda: answered(result, error))

        reference.future().add_done_callback(done)

    def _on_event_later(self, event: TaskEvent) -> None:
        self.post(lambda: self._on_event(event))

    def _fail(self, subtask: SubtaskId, cause: str, is_recoverable: bool) -> None:
        attempt = self._attempt
        self._on_event_later(TaskFailed(attempt, subtask, cause, is_recoverable=is_recoverable))
        for other in self._graph.subtasks:
            if other != subtask:
                self._on_event_later(TaskStopped(attempt, other))

    @property
    def _is_first_attempt(self) -> bool:
        return self._attempt == 1

    def _resource_problem(self) -> str | None:
        return resource_problem(self._resources, ray.cluster_resources())

    def _placing_problem(self, names: str) -> str:
        wanted = total(self._resources)["CPU"]
        there = float(ray.cluster_resources().get("CPU", 0.0))
        free = float(ray.available_resources().get("CPU", 0.0))
        return (
            f"Ray found no place for the process of {names} within "
            f"{self._settings.slot_request_timeout_ms} ms (slot.request.timeout): the job asks for "
            f"{wanted:g} CPUs ({len(self._resources)} task processes), and of the cluster's {there:g} only "
            f"{free:g} are free now. End what holds the others, lower the parallelism or "
            f"tidegate.slot.cpus, or add nodes"
        )

    def _now_ms(self) -> int:
        return self.now_ns() // 1_000_000


def _operators(subtasks: Sequence[Subtask]) -> list[bytes]:
    """What is to run in a process with these subtasks."""
    return [node.operator for subtask in subtasks for node in subtask.task.nodes]


def _suits(process: TaskProcess, wanted: ProcessResources) -> bool:
    """Whether subtasks can stay in a process when their slot is shared otherwise.

    CPUs do not count: Ray only keeps books of them, and a process that is there saves a second of pause.
    """
    return replace(wanted, cpus=0.0).fits_in(process.resources)
