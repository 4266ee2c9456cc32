"""Brings jobs to Ray: the driver's side of a job, and the placing of task actors."""

from __future__ import annotations

import logging
import os
import pickle
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError

from ..actors.ports import TaskDeployment
from ..actors.ray_task_actor import TaskActor
from ..common.clock import SteadyClock
from ..common.errors import ClusterUnreachableError, ConfigurationError, JobExecutionError, ResourceError
from ..protocol.checkpoint_events import RequestId
from ..protocol.elements import SavepointFormatType, SnapshotKind
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.plan import build_execution_graph
from ..protocol.task_events import (
    ResultsCollected,
    ResultsTaken,
    TaskEvent,
    TaskFailed,
    TaskMail,
    TaskStopped,
)
from ..protocol.task_metrics import ProcessMetrics
from ..telemetry import OtlpSettings
from .barrier_mode import BarrierMode
from .job_client import JobReport
from .job_details import JobDetails
from .slots import RAY_NAMES, ProcessResources, process_key, process_resources, resource_problem, total
from .spec import JobSpec
from .state_queries import StateAnswer, StateQuery

NAMESPACE = "tidegate"
"""Where coordinators are found by name. Drivers stay in an unnamed namespace each: RayDP allows one Spark
session per namespace."""
Answered = Callable[[Any, "BaseException | None"], None]
_START_TIMEOUT_S = 60
_CONNECT_TIMEOUT_S = 10
_RETURN_TIMEOUT_S = 60
"""How long a driver waits for a coordinator that was lost; Ray restarts one in 1 to 3 seconds."""
_RETRY_S = 0.2
_CLEAN_UP_S = 2.0
_embedded = False
"""Whether the Ray that this process is connected to was started by `_connect`."""


# ---------------------------------------------------------------- placing tasks


@dataclass(slots=True, eq=False)
class _Process:
    """One task actor and what runs in it."""

    key: str
    actor: Any
    resources: ProcessResources
    subtasks: list[SubtaskId]
    last_seen_ms: int
    pid: int = 0
    """0 until it has answered for the first time: Ray may still look for a place for it."""
    is_pinged: bool = False
    metrics_asked_ms: int = 0
    stopping: dict[SubtaskId, None] = field(default_factory=dict)
    stop_deadline_ms: int | None = None


class RayTaskGateway:
    """Places subtasks in task actors, reuses those that live, and notices those that die or hang.

    Implements `CoordinatorPorts`. All methods run on the coordinator's thread; answers of actors are
    brought there by `post`.

    Args:
        spec: The job.
        coordinator: Handle of the coordinator's own actor, for the tasks to report to.
        post: Runs a callable on the coordinator's thread.
        on_event: Takes events about tasks, on the coordinator's thread.
        on_metrics: Takes the metrics of a process and the time they came at, likewise.
    """

    def __init__(
        self,
        spec: JobSpec,
        coordinator: Any,
        post: Callable[[Callable[[], None]], None],
        on_event: Callable[[TaskEvent], None],
        on_metrics: Callable[[ProcessMetrics, int], None],
    ) -> None:
        self._settings = spec.settings
        self._clock = SteadyClock()
        self._graph = build_execution_graph(spec.graph)
        self._coordinator = coordinator
        self.post = post
        self._on_event = on_event
        self._on_metrics = on_metrics
        self._attempt = Attempt(0)
        self._processes: dict[str, _Process] = {}
        self._spares: list[_Process] = []
        self._resources = process_resources(self._graph, spec.graph.slots, spec.settings.slot_cpus)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-deletion")

    # ------------------------------------------------------------ CoordinatorPorts

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def random_ms(self, bound_ms: int) -> int:
        return random.randrange(max(1, bound_ms))

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def deploy(self, deployments: Sequence[TaskDeployment]) -> None:
        self._attempt = deployments[0].attempt
        # Later on a node may be missing for a while: then the processes wait for a place.
        problem = self._resource_problem() if self._is_first_attempt else None
        if problem is not None:
            self._fail(deployments[0].subtask_id, problem, is_recoverable=False)
            return
        groups: dict[str, list[TaskDeployment]] = {}
        for deployment in deployments:
            groups.setdefault(process_key(deployment.subtask), []).append(deployment)
        for key, members in groups.items():
            process = self._processes.get(key) or self._place(key)
            process.subtasks = [member.subtask_id for member in members]
            process.stopping, process.stop_deadline_ms = {}, None
        for key, members in groups.items():
            self._deploy_to(self._processes[key], members)

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        process = self._process_of(subtask)
        if process is not None:
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

    def _place(self, key: str) -> _Process:
        """A process for some subtasks: one that waits for that, else a new one."""
        wanted = self._resources[key]
        spare = next((each for each in self._spares if each.pid and wanted.fits_in(each.resources)), None)
        if spare is None:
            process = self._create(key, wanted)
        else:
            self._spares.remove(spare)
            process = spare
            process.key, process.last_seen_ms = key, self._now_ms()
        self._processes[key] = process
        return process

    def _keep_spares(self) -> None:
        """Start the processes that are to wait for a failure, once the job's own are placed."""
        if not self._processes or not all(process.pid for process in self._processes.values()):
            return
        while len(self._spares) < self._settings.redundant_processes:
            spare = self._create("spare", max(self._resources.values(), key=lambda each: each.cpus))
            self._spares.append(spare)
            self._when_done(spare.actor.warm_up.remote(), self._warmed_up(spare))

    @staticmethod
    def _warmed_up(spare: _Process) -> Answered:
        def answered(pid: Any, error: BaseException | None) -> None:
            # One that died has a broken watch.
            spare.pid = pid or 0

        return answered

    def _create(self, key: str, resources: ProcessResources) -> _Process:
        actor = (
            ray.remote(concurrency_groups={"control": 1_000})(TaskActor)  # type: ignore[call-overload]
            .options(
                num_cpus=resources.cpus,
                num_gpus=resources.gpus,
                memory=resources.memory_bytes or None,
                resources=dict(resources.custom),
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=10_000,
            )
            .remote()
        )
        process = _Process(key, actor, resources, [], self._now_ms())

        def ended(future: Future[Any]) -> None:
            self.post(lambda: self._process_lost(process, future.exception()))

        actor.watch.remote().future().add_done_callback(ended)
        return process

    def _deploy_to(self, process: _Process, members: list[TaskDeployment]) -> None:
        receivers = {
            channel: self._receiver(channel)
            for member in members
            for out in member.subtask.outputs
            for channel in out.channels
        }
        attempt, first = self._attempt, members[0].subtask_id
        reference = process.actor.deploy.remote(
            attempt, cloudpickle.dumps(members), receivers, self._coordinator
        )

        def answered(pid: Any, error: BaseException | None) -> None:
            process.last_seen_ms, process.pid = self._now_ms(), pid or process.pid
            if error is not None and not isinstance(error, RayActorError):
                cause = f"task {first} could not be deployed: {error}"
                self._on_event(TaskFailed(attempt, first, cause, is_recoverable=False))

        self._when_done(reference, answered)

    def _receiver(self, channel: ChannelId) -> tuple[Any, SubtaskId]:
        subtask = self._graph.receivers[channel]
        process = self._processes[process_key(self._graph.subtasks[subtask])]
        return process.actor, subtask

    def _process_of(self, subtask: SubtaskId) -> _Process | None:
        return self._processes.get(process_key(self._graph.subtasks[subtask]))

    def _stop_answered(self, process: _Process, attempt: Attempt) -> Answered:
        def answered(_: Any, error: BaseException | None) -> None:
            # If the process died, `_process_ended` says so for all its subtasks.
            if error is None and process.stop_deadline_ms is not None:
                process.stop_deadline_ms = None
                stopped, process.stopping = list(process.stopping), {}
                for subtask in stopped:
                    self._on_event(TaskStopped(attempt, subtask))

        return answered

    def _process_lost(self, process: _Process, error: BaseException | None) -> None:
        """Its watch broke: it died, or cannot be reached and must not come back."""
        if process in self._spares:
            self._spares.remove(process)
        elif self._processes.get(process.key) is process:
            self._kill(process, f"the process of {self._names(process)} died: {_first_line(error)}")

    def _kill(self, process: _Process, cause: str, is_recoverable: bool = True) -> None:
        ray.kill(process.actor, no_restart=True)
        del self._processes[process.key]
        for subtask in process.subtasks:
            self._on_event(TaskFailed(self._attempt, subtask, cause, is_recoverable=is_recoverable))

    def _names(self, process: _Process) -> str:
        return ", ".join(self._graph.subtasks[subtask].name for subtask in process.subtasks)

    # ------------------------------------------------------------ time

    def tick(self) -> None:
        """Ask every process whether it is alive; kill those that hang or do not stop."""
        self._keep_spares()
        now_ms = self._now_ms()
        for process in list(self._processes.values()):
            names, silent_ms = self._names(process), now_ms - process.last_seen_ms
            if process.stop_deadline_ms is not None and process.stop_deadline_ms <= now_ms:
                limit = self._settings.stop_timeout_ms
                cause = f"{names} did not stop within {limit} ms (task.cancellation.timeout)"
                self._kill(process, f"{cause}, so its process was killed")
            elif not process.pid:
                if silent_ms > self._settings.slot_request_timeout_ms:
                    self._kill(process, self._placing_problem(names), not self._is_first_attempt)
            elif silent_ms > self._settings.heartbeat_timeout_ms:
                limit = self._settings.heartbeat_timeout_ms
                self._kill(process, f"{names} gave no heartbeat for {limit} ms (heartbeat.timeout)")
            elif not process.is_pinged:
                process.is_pinged = True
                with_metrics = self._are_metrics_due(process, now_ms)
                self._when_done(process.actor.ping.remote(with_metrics), self._pinged(process))

    def _are_metrics_due(self, process: _Process, now_ms: int) -> bool:
        interval_ms = self._settings.metrics_interval_ms
        is_due = interval_ms > 0 and now_ms - process.metrics_asked_ms >= interval_ms
        if is_due:
            process.metrics_asked_ms = now_ms
        return is_due

    def _pinged(self, process: _Process) -> Answered:
        def answered(metrics: ProcessMetrics | None, error: BaseException | None) -> None:
            process.is_pinged = False
            if error is None:
                process.last_seen_ms = self._now_ms()
                if metrics is not None:
                    self._on_metrics(metrics, process.last_seen_ms)

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
        processes, self._processes = [*self._processes.values(), *self._spares], {}
        self._spares.clear()
        ended = [process.actor.job_ended.remote() for process in processes]
        # What does not answer leaves its local files to whoever starts next on its machine.
        if ended:
            ray.wait(ended, num_returns=len(ended), timeout=_CLEAN_UP_S)
        for process in processes:
            ray.kill(process.actor, no_restart=True)
        self._background.shutdown(wait=True)

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
        return resource_problem(self._resources, ray.cluster_resources())  # type: ignore[no-untyped-call]

    def _placing_problem(self, names: str) -> str:
        wanted = total(self._resources)["CPU"]
        there = float(ray.cluster_resources().get("CPU", 0.0))  # type: ignore[no-untyped-call]
        free = float(ray.available_resources().get("CPU", 0.0))  # type: ignore[no-untyped-call]
        return (
            f"Ray found no place for the process of {names} within "
            f"{self._settings.slot_request_timeout_ms} ms (slot.request.timeout): the job asks for "
            f"{wanted:g} CPUs ({len(self._resources)} task processes), and of the cluster's {there:g} only "
            f"{free:g} are free now. End what holds the others, lower the parallelism or "
            f"tidegate.slot.cpus, or add nodes"
        )

    def _now_ms(self) -> int:
        return self.now_ns() // 1_000_000


def _first_line(error: BaseException | None) -> str:
    text = str(error).strip() if error is not None else "it ended"
    return text.splitlines()[0] if text else type(error).__name__


# ---------------------------------------------------------------- the driver's side


class RayJobHandle:
    """The `JobHandle` of a job whose coordinator is a Ray actor."""

    def __init__(self, actor: Any, job_id: str) -> None:
        self._actor = actor
        self._job_id = job_id
        self._last_report: JobReport | None = None
        self._last_details: JobDetails | None = None
        self._is_released = False
        # Results with a key come again until they are confirmed, and after a restart of the coordinator.
        self._received: set[str] = set()
        self._unconfirmed: list[str] = []

    def report(self) -> JobReport:
        if self._is_released and self._last_report is not None:
            return self._last_report
        report: JobReport = pickle.loads(self._ask(self._actor.report.remote))
        self._last_report = report
        return report

    def details(self) -> JobDetails:
        if self._is_released and self._last_details is not None:
            return self._last_details
        details: JobDetails = pickle.loads(self._ask(self._actor.details.remote))
        self._last_details = details
        return details

    def cancel(self) -> None:
        if not self._is_released:
            self._ask(self._actor.cancel.remote)

    def trigger_checkpoint(self) -> RequestId | None:
        answer: RequestId | None = self._ask(self._actor.trigger_checkpoint.remote)
        return answer

    def trigger_savepoint(
        self, kind: SnapshotKind, directory: str | None, format_type: SavepointFormatType
    ) -> RequestId | None:
        if directory is not None and directory.startswith("memory://"):
            raise ConfigurationError(
                f"a savepoint in {directory} would be in the memory of one process, but the job runs in "
                f"many; give a directory that all of them share"
            )
        answer: RequestId | None = self._ask(
            lambda: self._actor.trigger_savepoint.remote(kind, directory, format_type)
        )
        return answer

    def set_barrier_mode(self, mode: BarrierMode) -> str:
        problem: str = self._ask(lambda: self._actor.set_barrier_mode.remote(mode))
        return problem

    def query_state(self, query: StateQuery, timeout_s: float) -> StateAnswer:
        if self._is_released:
            return StateAnswer(b"", "the job is over")
        data = pickle.dumps(query)
        answer: StateAnswer = self._ask(lambda: self._actor.query_state.remote(data, timeout_s))
        return answer

    def processes(self) -> dict[str, int]:
        processes: dict[str, int] = {} if self._is_released else self._ask(self._actor.processes.remote)
        return processes

    def take_results(self) -> list[Any]:
        if self._is_released:
            return []
        records: list[Any] = []
        confirmed, self._unconfirmed = self._unconfirmed, []
        for key, payload in self._ask(lambda: self._actor.take_results.remote(confirmed)):
            if key:
                self._unconfirmed.append(key)
                if key in self._received:
                    continue
                self._received.add(key)
            records.extend(record for batch in pickle.loads(payload) for record in batch.values)
        return records

    def wait(self, timeout_s: float | None) -> bool:
        if self._is_released:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = 1.0 if deadline is None else min(1.0, max(0.0, deadline - time.monotonic()))
            if self._ask(lambda: self._actor.wait.remote(left)):  # noqa: B023 (called at once)
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def release(self) -> None:
        if self._is_released:
            return
        self.report()
        self.details()
        self._ask(self._actor.forget.remote)
        self._is_released = True
        ray.kill(self._actor, no_restart=True)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The coordinator's answer. All questions may be asked twice: a lost one is asked again."""
        give_up_s = time.monotonic() + _RETURN_TIMEOUT_S
        while True:
            try:
                return ray.get(question())
            except ActorUnavailableError as error:
                if time.monotonic() >= give_up_s:
                    raise self._gone(error, f"It did not come back within {_RETURN_TIMEOUT_S} s") from error
                time.sleep(_RETRY_S)
            except RayActorError as error:
                raise self._gone(
                    error,
                    "A job that ended long ago is forgotten (tidegate.coordinator.linger), and without "
                    "checkpoints a lost coordinator is a lost job",
                ) from error

    def _gone(self, error: BaseException, remark: str) -> JobExecutionError:
        return JobExecutionError(
            f"the coordinator of job {self._job_id} is gone: {_first_line(error)}. {remark}; start the "
            f"job again, from its newest checkpoint if it kept one (execution.state-recovery.path)"
        )


def running_jobs(address: str | None) -> dict[str, RayJobHandle]:
    """The jobs whose coordinators a Ray cluster has, by id.

    Args:
        address: Of the cluster; `None` for the one in `RAY_ADDRESS`, else the one on this machine.

    Raises:
        ClusterUnreachableError: There is no such cluster.
    """
    if not ray.is_initialized():
        wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            _check_reachable(wanted)
            ray.init(address=wanted, logging_level=logging.WARNING, log_to_driver=False)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise ClusterUnreachableError(
                f"there is no way to a Ray cluster at {wanted}: {error}. Give its address with --address or "
                f"RAY_ADDRESS, and the token (RAY_AUTH_TOKEN)"
            ) from error
    found = ray.util.list_named_actors(all_namespaces=True)
    names = [each["name"] for each in found if each["namespace"] == NAMESPACE]
    ids = sorted(name.removeprefix("job-") for name in names if name.startswith("job-"))
    return {each: RayJobHandle(ray.get_actor(f"job-{each}", namespace=NAMESPACE), each) for each in ids}


def is_embedded() -> bool:
    """Whether the Ray of the next job ends with this process."""
    return _embedded if ray.is_initialized() else not os.environ.get("RAY_ADDRESS")


def submit(spec: JobSpec, otlp: OtlpSettings | None) -> RayJobHandle:
    """Start a job's coordinator on the connected Ray, the one in `RAY_ADDRESS`, or an embedded one.

    Raises:
        ResourceError: The coordinator could not be placed.
        ConfigurationError: The processes of a slot cannot share what it takes.
    """
    from .ray_coordinator_actor import CoordinatorActor

    # Here and not only in the coordinator: what cannot be shared out is an error before anything starts.
    resources = process_resources(
        build_execution_graph(spec.graph), spec.graph.slots, spec.settings.slot_cpus
    )
    _connect(spec, resources)
    actor = (
        ray.remote(concurrency_groups={"events": 1})(CoordinatorActor)  # type: ignore[call-overload]
        .options(
            name=f"job-{spec.job_id}",
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            # Without checkpoints there is nothing to resume from, so a lost coordinator is a lost job.
            max_restarts=-1 if spec.settings.trigger is not None else 0,
            max_task_retries=0,
            max_concurrency=16,
        )
        .remote(cloudpickle.dumps(spec), otlp)
    )
    try:
        ray.get(actor.started.remote(), timeout=_START_TIMEOUT_S)
    except RayError as error:
        ray.kill(actor, no_restart=True)
        raise ResourceError(
            f"the job's coordinator could not be started on Ray: {error}. Look at the cluster with "
            f"`ray status`; its nodes need the same Python and tidegate as the driver"
        ) from error
    except BaseException:
        # The driver is told to end before it knows its job: nobody would ever ask for it.
        ray.kill(actor, no_restart=True)
        raise
    return RayJobHandle(actor, spec.job_id)


def _check_reachable(address: str) -> None:
    """Raise `OSError` at once where nobody listens; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()


def _connect(spec: JobSpec, resources: Mapping[str, ProcessResources]) -> None:
    runtime_env = spec.settings.python.runtime_env() or None
    if ray.is_initialized():
        if runtime_env is not None:
            raise ConfigurationError(
                f"requirements and Python of a job are chosen when the driver connects to Ray, which it has "
                f"done; give ray.init(), or ray job submit, runtime_env={runtime_env} instead"
            )
        return
    address = os.environ.get("RAY_ADDRESS")
    if address:
        try:
            _check_reachable(address)
            ray.init(runtime_env=runtime_env)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise ClusterUnreachableError(
                f"there is no way to the Ray cluster at RAY_ADDRESS={address}: {error}. Check the address "
                f"and the token (RAY_AUTH_TOKEN), or unset RAY_ADDRESS for an embedded Ray"
            ) from error
        return
    global _embedded
    _embedded = True
    wanted = total(resources)
    cpus = (
        wanted.pop("CPU") + max(each.cpus for each in resources.values()) * spec.settings.redundant_processes
    )
    ray.init(
        address="local",
        # An embedded Ray is made for this job, so it is made to fit.
        num_cpus=max(os.cpu_count() or 1, -(-int(cpus * 100) // 100)),
        resources={name: amount for name, amount in wanted.items() if name not in RAY_NAMES},
        include_dashboard=False,
        runtime_env=runtime_env,
        logging_level=logging.WARNING,
        # By default Ray's workers yield to everything else on the machine, and a barrier waits for them.
        _system_config={"worker_niceness": 0},
    )
