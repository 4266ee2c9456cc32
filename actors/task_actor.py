"""The Ray actor that hosts subtasks: a thin shell, one thread per subtask.

Whoever holds the handle of an actor imports the module of its class, the coordinator too. So what runs tasks
is not imported here before there is an actor.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ray

from ..runtime.malloc_options import keep_freed_memory
from .serializers import make_serializers

if TYPE_CHECKING:
    from ..protocol.channels.listening import ListenRule
    from ..protocol.elements import Message
    from ..protocol.ids import Attempt, SubtaskId
    from ..protocol.task_events import TaskMail
    from ..protocol.task_metrics import Heartbeat, ProcessMetrics
    from ..runtime.local_dirs import JobDirectories
    from ..runtime.network.listeners import Address
    from ..runtime.network.records_network import AttemptRoutes
    from .task_runner import TaskRunner

GC_THRESHOLDS = (200_000, 50, 100)
"""A million live state values make every full collection dear: 1.45 against 1.9 million records/s."""

SWITCH_INTERVAL_S = 0.001
"""LMDB releases the interpreter lock for every entry it writes; the snapshot thread should get it back
sooner than after Python's 5 ms, or a checkpoint takes several times as long."""

METRICS_TIMEOUT_S = 0.5
"""How long an answer to `ping` waits for metrics: a gauge of a user's that hangs must not look like a process
that does."""


class TaskActor:
    """Hosts the subtasks of one process.

    `markers` runs in the default concurrency group, everything else in `control`, so that the markers of
    many tasks do not delay the coordinator.
    """

    def __init__(self) -> None:
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        # Before anything imports pyarrow, as Ray's serializers do.
        keep_freed_memory()
        make_serializers()
        from . import task_runner as ray_task_runner

        self._parts = ray_task_runner
        self._parts.defer_pandas()
        self._runners: dict[SubtaskId, TaskRunner] = {}
        self._network = ray_task_runner.RecordsNetwork()
        self._directories: JobDirectories | None = None
        self._attempt: Attempt = self._parts.Attempt(-1)
        self._stopped = self._attempt
        self._place = (os.getpid(), ray.get_runtime_context().get_node_id())
        self._metrics_thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-metrics")
        self._metrics: asyncio.Future[ProcessMetrics] | None = None

    async def markers(self, data: bytes) -> None:
        """Take markers of another process: pickled, each with its subtask."""
        marked: list[tuple[SubtaskId, Message]] = pickle.loads(data)
        for subtask, message in marked:
            runner = self._runners.get(subtask)
            if runner is not None and message.attempt == self._attempt:
                runner.task.put(message)

    @ray.method(concurrency_group="control")
    async def warm_up(self, operators: Sequence[bytes] = ()) -> tuple[int, str]:
        """Import what most tasks need, before there is one; returns the ids of process and node.

        Args:
            operators: Pickled, those that will run here: what they import is imported too.
        """
        from ..state.keyed import keyed_backend  # noqa: F401 (imported for the tasks that will need it)
        from ..state.lmdb import store  # noqa: F401

        for operator in operators:
            pickle.loads(operator)
        return self._place

    @ray.method(concurrency_group="control")
    async def deploy(
        self, routes: AttemptRoutes, deployments: bytes, coordinator: Any
    ) -> tuple[int, Address]:
        """Start subtasks of a new attempt.

        Args:
            routes: Where their messages go.
            deployments: The subtasks, pickled.
            coordinator: The coordinator's actor.

        Returns:
            The id of this process, and where the others of the attempt reach it.
        """
        attempt, place = routes.attempt, (self._place[0], self._network.address(self._place[1]))
        if attempt <= self._stopped:
            # Its `stop` overtook it, and was answered: nobody would stop these subtasks any more.
            return place
        network = self._network.begin(routes)
        # Built before any is known: after an error here there must be none that was never started.
        runners: dict[SubtaskId, TaskRunner] = {}
        for deployment in pickle.loads(deployments):
            if self._directories is None:
                self._directories = self._parts.enter_job(deployment)
            runners[deployment.subtask_id] = self._parts.TaskRunner(deployment, network, coordinator)
        self._attempt, self._runners = attempt, runners
        for runner in runners.values():
            runner.thread.start()
        return place

    @ray.method(concurrency_group="control")
    async def listen(self, rule: ListenRule) -> Address:
        """Listen for the processes of other nodes too; returns where they reach this one.

        Args:
            rule: The address and the ports to listen on.
        """
        host: str = ray.util.get_node_ip_address()
        return self._network.address(self._place[1], self._parts.listen_on(rule, host))

    @ray.method(concurrency_group="control")
    async def connect(self, attempt: Attempt, addresses: Mapping[int, Address]) -> None:
        """All processes of the attempt are there: open the direct connections to them."""
        self._network.connect(attempt, addresses)

    @ray.method(concurrency_group="control")
    async def mail(self, subtask: SubtaskId, attempt: Attempt, mail: TaskMail) -> None:
        """Control mail for a subtask; dropped if it is for another attempt."""
        runner = self._runners.get(subtask)
        if runner is not None and attempt == self._attempt:
            runner.task.put(mail)

    @ray.method(concurrency_group="control")
    async def stop(self, attempt: Attempt) -> None:
        """Cancel every subtask of an attempt and wait until their threads have ended."""
        self._stopped = max(self._stopped, attempt)
        if attempt != self._attempt:
            return
        for runner in self._runners.values():
            runner.cancel()
        for runner in self._runners.values():
            await asyncio.get_running_loop().run_in_executor(None, runner.thread.join)

    @ray.method(concurrency_group="control")
    async def job_ended(self) -> None:
        """Delete the local files of the job, all attempts of it on this machine.

        Answers when no snapshot is being stored any more, so that what is there then can be removed.
        """
        for runner in self._runners.values():
            await asyncio.get_running_loop().run_in_executor(None, runner.ports.wait_for_uploads)
        if self._directories is not None:
            self._directories.close()

    @ray.method(concurrency_group="control")
    async def ping(
        self, attempt: Attempt, numbered: Mapping[SubtaskId, int], with_metrics: bool
    ) -> Heartbeat:
        """Answer, to show that the process is alive.

        Args:
            attempt: The current attempt.
            numbered: How many `Numbered` each subtask was sent in it.
            with_metrics: Whether to include the metrics of its subtasks, if they can be had at once.
        """
        if attempt == self._attempt:
            for subtask, count in numbered.items():
                self._runners[subtask].task.put(self._parts.NumberedSent(count))
        reports = {subtask: runner.ports.reports for subtask, runner in self._runners.items()}
        deployed = self._attempt
        metrics = await self._metrics_at_once() if with_metrics else None
        return self._parts.Heartbeat(deployed, reports, metrics)

    async def _metrics_at_once(self) -> ProcessMetrics | None:
        if self._metrics is None:
            loop = asyncio.get_running_loop()
            self._metrics = loop.run_in_executor(self._metrics_thread, self._take_metrics)
        done, _ = await asyncio.wait({self._metrics}, timeout=METRICS_TIMEOUT_S)
        if not done:
            return None
        taken, self._metrics = self._metrics, None
        return taken.result()

    def _take_metrics(self) -> ProcessMetrics:
        return self._parts.take_metrics(self._attempt, self._runners)

    @ray.method(concurrency_group="control")
    async def watch(self) -> None:
        """Never answer: the call fails when the process dies, which is how its death is noticed."""
        await asyncio.Event().wait()


@functools.cache
def _remote_class() -> Any:
    """Made once in a process, because Ray uploads each that is made."""
    return ray.remote(concurrency_groups={"control": 1_000})(TaskActor)  # type: ignore[call-overload]


def start_task_actor(options: Mapping[str, Any]) -> Any:
    """Start a process for subtasks; it dies with the process that calls this.

    Args:
        options: What it asks of Ray, as an actor's `options` takes it.

    Returns:
        Its handle.
    """
    options = {
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": 10_000,
        # Ray's head would keep an entry for each call: hundreds a second, up to 100,000 in memory.
        "enable_task_events": False,
        **options,
    }
    return _remote_class().options(**options).remote()
