"""What a task actor runs: subtasks with a thread each, and what they share."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Mapping
from typing import Any

from ..common import failpoints
from ..common.malloc_trim import trim_memory
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.task_events import CancelTask, NumberedSent
from ..protocol.task_metrics import Heartbeat, ProcessMetrics
from ..runtime.deferred_pandas import defer_pandas
from ..runtime.local_dirs import JobDirectories
from ..runtime.network.listeners import listen_on
from ..runtime.network.records_network import AttemptNetwork, AttemptRoutes, RecordsNetwork
from ..runtime.ports import TaskDeployment
from ..runtime.tasks.task import StreamTask
from ..state.storage.retrying_storage import retries_stop_at
from ..telemetry.logs import LogContext
from .transport import RayTaskPorts, open_ray_log

__all__ = [
    "Attempt",
    "AttemptRoutes",
    "Heartbeat",
    "NumberedSent",
    "RecordsNetwork",
    "TaskRunner",
    "defer_pandas",
    "enter_job",
    "listen_on",
    "take_metrics",
]


class TaskRunner:
    """One subtask and its thread."""

    def __init__(
        self,
        deployment: TaskDeployment,
        network: AttemptNetwork,
        coordinator: Any,
    ) -> None:
        failpoints.arm(deployment.settings.fail_points)
        self.ports = RayTaskPorts(
            deployment.subtask_id,
            deployment.attempt,
            network,
            coordinator,
            deployment.settings.channel_credit_bytes,
            mail=lambda mail: self.task.put(mail),
        )
        self.task = StreamTask(deployment, self.ports)
        subtask = deployment.subtask
        outputs = (channel for out in subtask.outputs for channel in out.channels)
        network.add_task((entry.channel for entry in subtask.inputs), outputs, self.task.put)
        self._is_cancelled = threading.Event()
        self.thread = threading.Thread(
            target=self._run, name=f"tidegate-{deployment.subtask_id}", daemon=True
        )

    def cancel(self) -> None:
        """Have the task stop at its next step."""
        self._is_cancelled.set()
        self.task.put(CancelTask())

    def _run(self) -> None:
        with retries_stop_at(self._is_cancelled):
            try:
                self._run_task()
            except Exception as error:
                if self.task.phase.is_terminal:
                    raise
                # Without its thread the task would be silent, and nothing would restart it.
                self.task.fail(error)

    def _run_task(self) -> None:
        self.task.initialize()
        trim_memory()
        gc.freeze()
        while True:
            outcome = self.task.step()
            if outcome.is_over:
                break
            if outcome.wait_ns:
                self.task.wait(self.ports.rest_ns(outcome.wait_ns))
        self.ports.close()


def enter_job(deployment: TaskDeployment) -> JobDirectories:
    """Let this process log for the job of its first subtask, and hold that job's local directories."""
    settings = deployment.settings
    open_ray_log(settings.logs, "task", LogContext(deployment.job_id, settings.job_name))
    roots = {settings.local_dir, settings.local_snapshots_dir or settings.local_dir}
    return JobDirectories(roots, deployment.job_id)


def take_metrics(attempt: Attempt, runners: Mapping[SubtaskId, TaskRunner]) -> ProcessMetrics:
    """What the live subtasks of this process have measured."""
    live = {subtask: each.task for subtask, each in runners.items() if not each.task.phase.is_terminal}
    metrics = {subtask: task.metrics() for subtask, task in live.items()}
    return ProcessMetrics(attempt, socket.gethostname(), os.getpid(), metrics)
