"""The Ray actor of a coordinator: a thin shell around `JobHost`.

Whoever holds the handle of an actor imports the module of its class: the driver, and each task. So what
coordinates a job is not imported here before there is one.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING, Any

import ray

from ..common.malloc_trim import trim_memory
from .actor_state import ActorCondition, actor_state
from .job_handover import forget, handed_over, is_handed_over
from .serializers import make_serializers
from .task_actor import start_task_actor

if TYPE_CHECKING:
    from ray.runtime_context import RuntimeContext

    from ..coordinator.monitoring.job_details import JobDetails
    from ..protocol.ids import Attempt, SubtaskId


_LEAVING_S = 5.0
"""How long Ray may take to end a process that has asked for it."""


class _ActorProcess:
    """The `LifePorts` of a coordinator in an actor.

    Args:
        actor: The handle of the actor. It leads to the successor where there is one.
        name: Its name.
    """

    def __init__(self, actor: Any, name: str) -> None:
        self._actor = actor
        self._name = name
        self._id: str = actor._ray_actor_id.hex()
        state = actor_state(self._id)
        self._restarts = None if state is None else state.restarts
        self.node_id: str = ray.get_runtime_context().get_node_id()

    def is_current(self) -> bool | None:
        state = actor_state(self._id)
        if state is None or self._restarts is None:
            return None
        return state.condition is not ActorCondition.DEAD and state.restarts == self._restarts

    def is_handed_over(self) -> bool:
        return is_handed_over(self._name)

    def forget_job(self) -> None:
        forget(self._name)

    def keep_failed(self, details: JobDetails) -> None:
        from .failed_jobs import keep_failed

        keep_failed(details, details.now_ms)

    def forget_failed(self, job_id: str) -> None:
        from .failed_jobs import forget_failed

        forget_failed(job_id)

    def leave(self) -> None:
        """End this process, not the actor: its id may belong to a successor by now, which must live on.

        Ray ends a process that has marked itself after its next call, and does not restart an actor that
        ended in this way. The call may reach the successor instead, which does nothing in it.
        """
        worker: Any = ray._private.worker.global_worker
        worker.core_worker.set_current_actor_should_exit()
        end = threading.Timer(_LEAVING_S, os._exit, (0,))
        end.daemon = True
        end.start()
        self._actor.started.remote()

    def restart(self) -> None:
        # Not as an exit that was asked for: then the actor would not be restarted.
        os._exit(1)


class CoordinatorActor:
    """Coordinates the job that was handed over for its name.

    Ray restarts it after a crash; it then resumes from checkpoint storage. The processes that the job begins
    with start while this one still imports what it needs.
    """

    def __init__(self) -> None:
        make_serializers()
        context = ray.get_runtime_context()
        self._me = context.current_actor
        name = context.get_actor_name()
        assert name is not None, "a coordinator is found by its name"
        self._name = name
        job = handed_over(self._name)
        # After a crash the job may be over, or have another parallelism.
        wanted = {} if _was_restarted(context) else job.processes
        early = {key: start_task_actor(options) for key, options in wanted.items()}
        if not job.is_resumable:
            forget(self._name)
        from .job_host import JobHost

        self._host = JobHost(job.spec, self._me, early, _ActorProcess(self._me, self._name))
        trim_memory()

    # ------------------------------------------------------------ called by tasks

    @ray.method(concurrency_group="events")
    def task_event(self, subtask: SubtaskId, attempt: Attempt, number: int, event: bytes) -> None:
        """An event from a task; events of one task are handled in the order of their numbers."""
        self._host.task_event(subtask, attempt, number, event)

    # ------------------------------------------------------------ called by the driver

    def started(self) -> None:
        """Answer once the actor runs."""

    def ask(self, request: bytes) -> bytes:
        """The pickled answer to a pickled `ControlRequest`."""
        return self._host.ask(request)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the job; false when the time is over first."""
        return self._host.wait(timeout_s)

    def take_results(self, confirmed: list[str], timeout_s: float) -> list[tuple[str, Any]]:
        """Collected results as (key, payload), until they are confirmed."""
        return self._host.take_results(confirmed, timeout_s)

    def forget(self) -> None:
        """The driver knows how the job ended: this actor is about to be killed."""
        self._host.forget()


def _was_restarted(context: RuntimeContext) -> bool:
    """Whether Ray has restarted this actor."""
    with warnings.catch_warnings():
        # Ray asks its own deprecated way for the actor's id, and would print that in the driver's terminal.
        warnings.simplefilter("ignore", DeprecationWarning)
        return bool(context.was_current_actor_reconstructed)
