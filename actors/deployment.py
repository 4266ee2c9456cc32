"""Brings jobs to Ray: the driver's side of a job."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError

from ..common.errors import ConfigurationError, JobExecutionError, ResourceError, SupersededError, first_line
from ..common.import_blocking import stubbed_import
from ..common.malloc_trim import trim_memory
from ..coordinator.control.control_requests import ControlRequest, GetDetails, GetReport, R, TakeSavepoint
from ..coordinator.control.terminated_job import TerminatedJob
from ..coordinator.deployment.slots import RAY_NAMES, ProcessResources, process_resources, start_order, total
from ..coordinator.spec import JobSpec
from ..protocol.scheduling.execution_graph import build_execution_graph
from ..telemetry import OtlpSettings
from .actor_state import ActorCondition, actor_state
from .cluster_address import HeadWatch
from .embedded_ray import SYSTEM_CONFIG, guarded
from .job_handover import HandedOverJob, forget, hand_over
from .ray_connection import connect, connect_driver, use_token
from .serializers import make_serializers

if TYPE_CHECKING:
    from ..coordinator.control.job_client import JobHandle

logger = logging.getLogger(__name__)

NAMESPACE = "tidegate"
"""Where coordinators are found by name. Drivers stay in an unnamed namespace each: RayDP allows one Spark
session per namespace."""
_PREFIX = "job-"
_HEAD = "node:__internal_head__"
_SHARE_OF_HEAD = 0.0001
"""Ray gives its head 1 of this resource, so it has room for ten thousand coordinators."""
_START_TIMEOUT_S = 60
_REMIND_S = 60
"""How often a driver logs that it waits for a lost coordinator. Ray restarts one in 1 to 3 seconds, or when
it counts a lost node as dead."""
_RETRY_S = 0.2
_LOOK_S = 5.0
"""How long an answer may take before the driver looks whether the cluster is there at all."""
_embedded = False
"""Whether the Ray that this process is connected to was started by `_connect`."""


class RayJobHandle:
    """The `JobHandle` of a job whose coordinator is a Ray actor."""

    def __init__(self, actor: Any, job_id: str) -> None:
        self._actor = actor
        self._job_id = job_id
        self._head: str = ray.get_runtime_context().gcs_address
        self._ended: TerminatedJob | None = None
        # Results with a key come again until they are confirmed, and after a restart of the coordinator.
        self._received: set[str] = set()
        self._unconfirmed: list[str] = []

    def ask(self, request: ControlRequest[R]) -> R:
        if self._ended is not None:
            kept: R = self._ended.ask(request)
            return kept
        if isinstance(request, TakeSavepoint):
            _check_shared(request.directory)
        data = pickle.dumps(request)
        answer: R = pickle.loads(self._answer_to(lambda: self._actor.ask.remote(data)))
        return answer

    def take_results(self, timeout_s: float = 0.0) -> list[Any]:
        if self._ended is not None:
            return []
        records: list[Any] = []
        confirmed, self._unconfirmed = self._unconfirmed, []
        for key, payload in self._answer_to(lambda: self._actor.take_results.remote(confirmed, timeout_s)):
            if key:
                self._unconfirmed.append(key)
                if key in self._received:
                    continue
                self._received.add(key)
            records.extend(record for batch in pickle.loads(payload) for record in batch.rows())
        return records

    def wait(self, timeout_s: float | None) -> bool:
        if self._ended is not None:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = 1.0 if deadline is None else min(1.0, max(0.0, deadline - time.monotonic()))
            if self._answer_to(lambda: self._actor.wait.remote(left)):  # noqa: B023 (called at once)
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def release(self) -> None:
        if self._ended is not None:
            return
        report, details = self.ask(GetReport()), self.ask(GetDetails())
        # One that is lost meanwhile may find that its job is forgotten, and end.
        with contextlib.suppress(JobExecutionError):
            self._answer_to(self._actor.forget.remote)
        self._ended = TerminatedJob(report, lambda: details)
        ray.kill(self._actor, no_restart=True)

    def _answer_to(self, question: Callable[[], Any]) -> Any:
        """The coordinator's answer.

        All questions may be asked twice: one that was lost is asked again, and so is one that reached a
        coordinator whose job another one runs by now. Only what Ray does not restart is gone.
        """
        remind_s = time.monotonic() + _REMIND_S
        head = HeadWatch(self._head)
        superseded = ""
        while True:
            try:
                return _answer(question(), head)
            except SupersededError as error:
                superseded = f" ({error.cause})"  # type: ignore[attr-defined]
            except ActorUnavailableError:
                head.check()
            except RayActorError as error:
                head.check()
                if _is_dead(self._actor):
                    raise self._gone(f"{first_line(error)}{superseded}") from error
            if time.monotonic() >= remind_s:
                remind_s += _REMIND_S
                logger.warning(
                    "The coordinator of job %s does not answer; waiting until Ray has restarted it",
                    self._job_id,
                )
            time.sleep(_RETRY_S)

    def _gone(self, cause: str) -> JobExecutionError:
        return JobExecutionError(
            f"the coordinator of job {self._job_id} is gone: {cause}. A job that ended long ago is forgotten "
            f"(tidegate.coordinator.linger), and without checkpoints a lost coordinator is a lost job; start "
            f"the job again, from its newest checkpoint if it kept one (execution.state-recovery.path)"
        )


def _check_shared(directory: str | None) -> None:
    if directory is not None and directory.startswith("memory://"):
        raise ConfigurationError(
            f"a savepoint in {directory} would be in the memory of one process, but the job runs in "
            f"many; give a directory that all of them share"
        )


def _is_dead(actor: Any) -> bool:
    """Whether Ray will not restart an actor; not while its head does not answer."""
    state = actor_state(actor._ray_actor_id.hex())
    return state is not None and state.condition is ActorCondition.DEAD


def _answer(reference: Any, head: HeadWatch) -> Any:
    """What Ray gives for a reference, however long that takes, as long as there is a cluster."""
    while True:
        try:
            return ray.get(reference, timeout=_LOOK_S)
        except GetTimeoutError:
            head.check()


def known_jobs(address: str | None) -> dict[str, JobHandle]:
    """The jobs whose coordinators a Ray cluster has, and those that failed within the last hour, by id.

    Args:
        address: Of the cluster; `None` for the one in `RAY_ADDRESS`, else the one on this machine.

    Raises:
        ClusterUnreachableError: There is no such cluster.
    """
    # Here and not above: drivers must not pay for importing what reads documents of jobs.
    from .failed_jobs import failed_jobs

    connect(address)
    found = ray.util.list_named_actors(all_namespaces=True)
    names = [each["name"] for each in found if each["namespace"] == NAMESPACE]
    ids = sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
    # A coordinator whose job has failed leaves soon, maybe before it answers.
    failed = failed_jobs(time.time_ns() // 1_000_000)
    running = [each for each in ids if each not in failed]
    handles: dict[str, JobHandle] = dict(failed)
    for each in running:
        handles[each] = RayJobHandle(ray.get_actor(coordinator_name(each), namespace=NAMESPACE), each)
    return handles


def coordinator_name(job_id: str) -> str:
    """The name of the actor of a job's coordinator."""
    return f"{_PREFIX}{job_id}"


def is_embedded() -> bool:
    """Whether the Ray of the next job ends with this process."""
    return _embedded if ray.is_initialized() else not os.environ.get("RAY_ADDRESS")


def submit(spec: JobSpec, otlp: OtlpSettings | None) -> RayJobHandle:
    """Start a job's coordinator on the connected Ray, the one in `RAY_ADDRESS`, or an embedded one.

    Raises:
        ResourceError: The coordinator could not be placed.
        ConfigurationError: The processes of a slot cannot share what it takes.
    """
    from .coordinator_actor import CoordinatorActor

    # Here and not only in the coordinator: what cannot be shared out is an error before anything starts.
    graph = build_execution_graph(spec.graph)
    resources = process_resources(graph, spec.graph.slots, spec.settings.slot_cpus)
    _connect(spec, resources)
    # In reactive mode the coordinator looks first for what there is room.
    is_fixed = spec.settings.reactive is None
    early = {key: resources[key].actor_options() for key in start_order(graph)} if is_fixed else {}
    # Without checkpoints there is nothing to resume from, so a lost coordinator is a lost job.
    is_resumable = spec.settings.takes_checkpoints
    name = coordinator_name(spec.job_id)
    hand_over(name, HandedOverJob(cloudpickle.dumps((spec, otlp)), early, is_resumable))
    actor = (
        ray.remote(concurrency_groups={"events": 1})(CoordinatorActor)  # type: ignore[call-overload]
        .options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            **_placement(spec.settings.coordinator_placement),
            max_restarts=-1 if is_resumable else 0,
            max_task_retries=0,
            max_concurrency=16,
            enable_task_events=False,
        )
        .remote()
    )
    # What its answers are made of, imported while its processes start.
    from ..coordinator.monitoring import job_details  # noqa: F401

    _await_start(actor, name, spec.settings.coordinator_placement)
    trim_memory()
    return RayJobHandle(actor, spec.job_id)


def _placement(where: str) -> dict[str, Any]:
    """Options of the coordinator's actor, also for its restarts.

    Not the id of a node: a head that was restarted has another one.
    """
    if where == "any":
        return {}
    if where == "head":
        return {"resources": {_HEAD: _SHARE_OF_HEAD}}
    name, _, value = where.partition("=")
    return {"label_selector": {name: value}}


def _await_start(actor: Any, name: str, placement: str) -> None:
    is_started = False
    try:
        ray.get(actor.started.remote(), timeout=_START_TIMEOUT_S)
        is_started = True
    except RayError as error:
        raise ResourceError(
            f"the job's coordinator could not be started on Ray (tidegate.coordinator.placement: "
            f"{placement}): {error}. Look at the cluster with `ray status`; its nodes need the same Python "
            f"and tidegate as the driver"
        ) from error
    finally:
        # Also when the driver is told to end before it knows its job: nobody would ever ask for it.
        if not is_started:
            ray.kill(actor, no_restart=True)
            forget(name)


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
        connect_driver(address, runtime_env)
        return
    global _embedded
    _embedded = True
    wanted = total(resources)
    cpus = (
        wanted.pop("CPU") + max(each.cpus for each in resources.values()) * spec.settings.redundant_processes
    )
    use_token(is_created=True)
    # Ray imports a web server, gRPC and clients of Prometheus to see whether `ray[default]` is installed.
    with stubbed_import("ray.dashboard.optional_deps"), guarded():
        ray.init(
            address="local",
            # An embedded Ray is made for this job, so it is made to fit.
            num_cpus=max(os.cpu_count() or 1, -(-int(cpus * 100) // 100)),
            resources={name: amount for name, amount in wanted.items() if name not in RAY_NAMES},
            include_dashboard=False,
            runtime_env=runtime_env,
            logging_level=logging.WARNING,
            _system_config=SYSTEM_CONFIG,
        )
    make_serializers()
