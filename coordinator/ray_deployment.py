"""Brings jobs to Ray: the driver's side of a job, and the placing of task actors."""

from __future__ import annotations

import logging
import os
import pickle
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import ray
from ray.exceptions import RayActorError, RayError

from ..actors.ports import TaskDeployment
from ..actors.ray_task_actor import TaskActor
from ..common.errors import JobExecutionError, ResourceError
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.plan import ExecutionGraph, Subtask, build_execution_graph
from ..protocol.task_events import (
    ResultsCollected,
    ResultsTaken,
    TaskEvent,
    TaskFailed,
    TaskMail,
    TaskStopped,
)
from ..telemetry import OtlpSettings
from .job_client import JobReport
from .spec import JobSpec

NAMESPACE = "tidegate"
Answered = Callable[[Any, "BaseException | None"], None]
_START_TIMEOUT_S = 60


# ---------------------------------------------------------------- placing tasks


@dataclass(slots=True)
class _Process:
    """One task actor and what runs in it."""

    key: str
    actor: Any
    subtasks: list[SubtaskId]
    last_seen_ms: int
    pid: int = 0
    is_pinged: bool = False
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
    """

    def __init__(
        self,
        spec: JobSpec,
        coordinator: Any,
        post: Callable[[Callable[[], None]], None],
        on_event: Callable[[TaskEvent], None],
    ) -> None:
        self._settings = spec.settings
        self._graph = build_execution_graph(spec.graph)
        self._coordinator = coordinator
        self._post = post
        self._on_event = on_event
        self._attempt = Attempt(0)
        self._processes: dict[str, _Process] = {}
        self._shares = cpu_shares(self._graph, spec.settings.slot_cpus)

    # ------------------------------------------------------------ CoordinatorPorts

    def now_ns(self) -> int:
        return time.time_ns()

    def random_ms(self, bound_ms: int) -> int:
        return random.randrange(max(1, bound_ms))

    def deploy(self, deployments: Sequence[TaskDeployment]) -> None:
        self._attempt = deployments[0].attempt
        problem = self._resource_problem()
        if problem is not None:
            self._fail(deployments[0].subtask_id, problem, is_recoverable=False)
            return
        groups: dict[str, list[TaskDeployment]] = {}
        for deployment in deployments:
            groups.setdefault(process_key(deployment.subtask), []).append(deployment)
        for key, members in groups.items():
            process = self._processes.get(key) or self._create(key)
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

    def _create(self, key: str) -> _Process:
        actor = (
            ray.remote(concurrency_groups={"control": 1_000})(TaskActor)  # type: ignore[call-overload]
            .options(
                num_cpus=self._shares[key],
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=10_000,
            )
            .remote()
        )
        process = _Process(key, actor, [], self._now_ms())
        self._processes[key] = process

        def ended(future: Future[Any]) -> None:
            self._post(lambda: self._process_ended(process, future.exception()))

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

    def _process_ended(self, process: _Process, error: BaseException | None) -> None:
        if self._processes.get(process.key) is not process:
            return
        del self._processes[process.key]
        cause = f"the process of {', '.join(map(str, process.subtasks))} died: {_first_line(error)}"
        for subtask in process.subtasks:
            self._on_event(TaskFailed(self._attempt, subtask, cause))

    def _kill(self, process: _Process, cause: str) -> None:
        ray.kill(process.actor, no_restart=True)
        self._process_ended(process, RuntimeError(cause))

    # ------------------------------------------------------------ time

    def tick(self) -> None:
        """Ask every process whether it is alive; kill those that hang or do not stop."""
        now_ms = self._now_ms()
        for process in list(self._processes.values()):
            if process.stop_deadline_ms is not None and process.stop_deadline_ms <= now_ms:
                limit = self._settings.stop_timeout_ms
                self._kill(process, f"it did not stop within {limit} ms (task.cancellation.timeout)")
            elif now_ms - process.last_seen_ms > self._settings.heartbeat_timeout_ms:
                limit = self._settings.heartbeat_timeout_ms
                self._kill(process, f"no heartbeat for {limit} ms (heartbeat.timeout)")
            elif not process.is_pinged:
                process.is_pinged = True
                self._when_done(process.actor.ping.remote(), self._pinged(process))

    def _pinged(self, process: _Process) -> Answered:
        def answered(_: Any, error: BaseException | None) -> None:
            process.is_pinged = False
            if error is None:
                process.last_seen_ms = self._now_ms()

        return answered

    def return_result_credit(self, event: ResultsCollected) -> None:
        """The driver took collected results: their subtask may offer more."""
        if event.attempt == self._attempt:
            self.send(event.attempt, event.subtask, ResultsTaken(event.size_bytes))

    def process_ids(self) -> dict[str, int]:
        """Process ids of the live task actors by the names of what runs in them."""
        return {
            ", ".join(self._graph.subtasks[subtask].name for subtask in process.subtasks): process.pid
            for process in self._processes.values()
            if process.pid
        }

    @property
    def tick_interval_ms(self) -> int:
        """How often `tick` is to be called."""
        return max(20, min(self._settings.heartbeat_timeout_ms // 5, 2_000))

    def close(self) -> None:
        """Kill every task actor: the job is over."""
        processes, self._processes = list(self._processes.values()), {}
        for process in processes:
            ray.kill(process.actor, no_restart=True)

    # ------------------------------------------------------------ small things

    def _when_done(self, reference: Any, answered: Answered) -> None:
        def done(future: Future[Any]) -> None:
            error = future.exception()
            result = future.result() if error is None else None
            self._post(lambda: answered(result, error))

        reference.future().add_done_callback(done)

    def _on_event_later(self, event: TaskEvent) -> None:
        self._post(lambda: self._on_event(event))

    def _fail(self, subtask: SubtaskId, cause: str, is_recoverable: bool) -> None:
        attempt = self._attempt
        self._on_event_later(TaskFailed(attempt, subtask, cause, is_recoverable=is_recoverable))
        for other in self._graph.subtasks:
            if other != subtask:
                self._on_event_later(TaskStopped(attempt, other))

    def _resource_problem(self) -> str | None:
        wanted = sum(self._shares.values())
        there = float(ray.cluster_resources().get("CPU", 0.0))  # type: ignore[no-untyped-call]
        if wanted <= there + 1e-6:
            return None
        return (
            f"the job asks for {wanted:g} CPUs ({len(self._shares)} task processes), but the Ray "
            f"cluster has {there:g} in all. Lower the parallelism or tidegate.slot.cpus, or add nodes"
        )

    def _now_ms(self) -> int:
        return self.now_ns() // 1_000_000


def process_key(subtask: Subtask) -> str:
    """Name of the process a subtask runs in: its own, or that of its colocation group."""
    group = subtask.task.colocation_group
    if group is None:
        return str(subtask.subtask_id)
    return f"group {group}#{subtask.subtask_id.index}"


def cpu_shares(graph: ExecutionGraph, slot_cpus: float) -> dict[str, float]:
    """CPUs that each process asks for: the subtasks with one index share one slot's CPUs."""
    slots: dict[int, list[str]] = {}
    for subtask_id, subtask in graph.subtasks.items():
        keys = slots.setdefault(subtask_id.index, [])
        if process_key(subtask) not in keys:
            keys.append(process_key(subtask))
    # Ray counts CPUs in ten-thousandths; rounding down keeps the sum within the slot.
    return {key: int(slot_cpus / len(keys) * 10_000) / 10_000 for keys in slots.values() for key in keys}


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
        self._is_released = False

    def report(self) -> JobReport:
        if self._is_released and self._last_report is not None:
            return self._last_report
        report: JobReport = pickle.loads(self._ask(self._actor.report.remote()))
        self._last_report = report
        return report

    def cancel(self) -> None:
        self._ask(self._actor.cancel.remote())

    def trigger_checkpoint(self) -> None:
        self._ask(self._actor.trigger_checkpoint.remote())

    def processes(self) -> dict[str, int]:
        processes: dict[str, int] = self._ask(self._actor.processes.remote())
        return processes

    def take_results(self) -> list[Any]:
        if self._is_released:
            return []
        records: list[Any] = []
        for payload in self._ask(self._actor.take_results.remote()):
            records.extend(record for batch in pickle.loads(payload) for record in batch.values)
        return records

    def wait(self, timeout_s: float | None) -> bool:
        if self._is_released:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = 1.0 if deadline is None else min(1.0, max(0.0, deadline - time.monotonic()))
            if self._ask(self._actor.wait.remote(left)):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def release(self) -> None:
        if self._is_released:
            return
        self.report()
        self._is_released = True
        ray.kill(self._actor, no_restart=True)

    def _ask(self, reference: Any) -> Any:
        try:
            return ray.get(reference)
        except RayActorError as error:
            raise JobExecutionError(
                f"the coordinator of job {self._job_id} is gone: {_first_line(error)}. If it was "
                f"killed, Ray restarts it: ask again shortly; a job that ended long ago is forgotten"
            ) from error


def submit(spec: JobSpec, otlp: OtlpSettings | None) -> RayJobHandle:
    """Start a job's coordinator on the connected Ray, the one in `RAY_ADDRESS`, or an embedded one.

    Raises:
        ResourceError: The coordinator could not be placed.
    """
    from .ray_coordinator_actor import CoordinatorActor

    _connect(spec)
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
        raise ResourceError(f"the job's coordinator could not be started: {error}") from error
    return RayJobHandle(actor, spec.job_id)


def _connect(spec: JobSpec) -> None:
    if ray.is_initialized():
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(namespace=NAMESPACE)
        return
    shares = cpu_shares(build_execution_graph(spec.graph), spec.settings.slot_cpus)
    ray.init(
        address="local",
        namespace=NAMESPACE,
        # An embedded Ray is made for this job, so it is made to fit.
        num_cpus=max(os.cpu_count() or 1, -(-int(sum(shares.values()) * 100) // 100)),
        include_dashboard=False,
        logging_level=logging.WARNING,
    )
