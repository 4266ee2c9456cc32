"""The Ray actor that hosts subtasks: a thin shell, one thread per subtask."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from ..common import failpoints
from ..protocol.elements import Message
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.task_events import CancelTask, TaskMail
from ..protocol.task_metrics import ProcessMetrics
from ..telemetry.logs import LogContext
from .deferred_pandas import defer_pandas
from .local_dirs import JobDirectories
from .ports import TaskDeployment
from .ray_transport import RayTaskPorts, open_ray_log
from .task import StreamTask

GC_THRESHOLDS = (200_000, 50, 100)
"""A million live state values make every full collection dear: 1.45 against 1.9 million records/s."""

SWITCH_INTERVAL_S = 0.001
"""LMDB releases the interpreter lock for every entry it writes; the snapshot thread should get it back
sooner than after Python's 5 ms, or a checkpoint takes several times as long."""


METRICS_TIMEOUT_S = 0.5
"""How long an answer to `ping` waits for metrics: a gauge of a user's that hangs must not look like a process
that does."""


class _Runner:
    """One subtask and its thread."""

    def __init__(
        self,
        deployment: TaskDeployment,
        receivers: Mapping[ChannelId, tuple[Any, SubtaskId]],
        coordinator: Any,
    ) -> None:
        self.ports = RayTaskPorts(
            deployment.subtask_id,
            deployment.attempt,
            receivers,
            coordinator,
            mail=lambda mail: self.task.put(mail),
        )
        self.task = StreamTask(deployment, self.ports)
        self.thread = threading.Thread(
            target=self._run, name=f"tidegate-{deployment.subtask_id}", daemon=True
        )

    def _run(self) -> None:
        self.task.initialize()
        gc.freeze()
        while True:
            outcome = self.task.step()
            if outcome.is_over:
                break
            if outcome.wait_ms:
                self.task.wait(outcome.wait_ms)
        self.ports.close()


class TaskActor:
    """Hosts the subtasks of one process.

    `push` runs in the default concurrency group, everything else in `control`, so that a full data
    queue does not delay the coordinator.
    """

    def __init__(self) -> None:
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        defer_pandas()
        self._runners: dict[SubtaskId, _Runner] = {}
        self._directories: JobDirectories | None = None
        self._attempt = Attempt(-1)
        self._stopped = Attempt(-1)
        self._has_log = False
        self._place = (os.getpid(), ray.get_runtime_context().get_node_id())
        self._metrics_thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-metrics")
        self._metrics: asyncio.Future[ProcessMetrics] | None = None

    async def push(self, data: bytes) -> None:
        """Take a pickled `(subtask, message)`; the answer is its credit."""
        subtask: SubtaskId
        message: Message
        subtask, message = pickle.loads(data)
        runner = self._runners.get(subtask)
        if runner is None or message.attempt != self._attempt or runner.task.phase.is_terminal:
            return
        consumed = runner.ports.expect(message)
        runner.task.put(message)
        if runner.task.phase.is_terminal:
            # The loop ended between the check and the mail: nobody would answer any more.
            runner.ports.close()
        await consumed

    @ray.method(concurrency_group="control")
    async def warm_up(self, operators: Sequence[bytes] = ()) -> tuple[int, str]:
        """Import what most tasks need, before there is one; returns the ids of process and node.

        Args:
            operators: Pickled, those that will run here: what they import is imported too.
        """
        from ..state import keyed_backend, lmdb_store  # noqa: F401 (imported for those who will need it)

        for operator in operators:
            pickle.loads(operator)
        return self._place

    @ray.method(concurrency_group="control")
    async def deploy(
        self,
        attempt: Attempt,
        deployments: bytes,
        receivers: Mapping[ChannelId, tuple[Any, SubtaskId]],
        coordinator: Any,
    ) -> tuple[int, str]:
        """Start subtasks of a new attempt; returns the ids of process and node."""
        if attempt <= self._stopped:
            # Its `stop` overtook it, and was answered: nobody would stop these subtasks any more.
            return self._place
        # Built before any is known: after an error here there must be none that was never started.
        runners: dict[SubtaskId, _Runner] = {}
        for deployment in pickle.loads(deployments):
            self._open_log(deployment)
            failpoints.arm(deployment.settings.fail_points)
            mine = {
                channel: receivers[channel] for out in deployment.subtask.outputs for channel in out.channels
            }
            runners[deployment.subtask_id] = _Runner(deployment, mine, coordinator)
            self._hold_directories(deployment)
        self._attempt, self._runners = attempt, runners
        for runner in runners.values():
            runner.thread.start()
        return self._place

    def _open_log(self, deployment: TaskDeployment) -> None:
        if not self._has_log:
            self._has_log = True
            settings = deployment.settings
            open_ray_log(settings.logs, "task", LogContext(deployment.job_id, settings.job_name))

    def _hold_directories(self, deployment: TaskDeployment) -> None:
        if self._directories is None:
            settings = deployment.settings
            roots = {settings.local_dir, settings.local_snapshots_dir or settings.local_dir}
            self._directories = JobDirectories(roots, deployment.job_id)

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
            runner.task.put(CancelTask())
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
    async def ping(self, with_metrics: bool) -> ProcessMetrics | None:
        """Answer, to show that the process is alive.

        Returns:
            The metrics of its subtasks if they are asked for and to be had at once.
        """
        if not with_metrics:
            return None
        if self._metrics is None:
            loop = asyncio.get_running_loop()
            self._metrics = loop.run_in_executor(self._metrics_thread, self._take_metrics)
        done, _ = await asyncio.wait({self._metrics}, timeout=METRICS_TIMEOUT_S)
        if not done:
            return None
        taken, self._metrics = self._metrics, None
        return taken.result()

    def _take_metrics(self) -> ProcessMetrics:
        attempt, runners = self._attempt, self._runners
        live = {subtask: each.task for subtask, each in runners.items() if not each.task.phase.is_terminal}
        metrics = {subtask: task.metrics() for subtask, task in live.items()}
        return ProcessMetrics(attempt, socket.gethostname(), os.getpid(), metrics)

    @ray.method(concurrency_group="control")
    async def watch(self) -> None:
        """Never answer: the call fails when the process dies, which is how its death is noticed."""
        await asyncio.Event().wait()
