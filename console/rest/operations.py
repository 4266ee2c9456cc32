"""Actions that take their time: started under an id, and asked for later, as Flink's clients do."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from ...common.errors import TidegateError
from .directory import FoundJob
from .models import action_models
from .views.job_views import shortened

_REMEMBERED = 1_000
"""Operations whose outcome can still be asked for."""


class Operations:
    """What was asked for, by job and id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Future[action_models.OperationResult]] = OrderedDict()

    def start(
        self, job: FoundJob, trigger_id: str | None, perform: Callable[[], action_models.OperationResult]
    ) -> action_models.Triggered:
        """Do something to a job in a thread of its own, unless it was started under this id before."""
        job_id = job.details.job_id
        request_id = trigger_id or uuid.uuid4().hex
        future: Future[action_models.OperationResult] = Future()
        with self._lock:
            if (job_id, request_id) in self._known:
                return action_models.Triggered(request_id=request_id)
            self._known[job_id, request_id] = future
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        work = threading.Thread(
            target=_perform, args=(perform, job.changed, future), name="tidegate-operation", daemon=True
        )
        work.start()
        return action_models.Triggered(request_id=request_id)

    def status(self, job_id: str, request_id: str) -> action_models.Operation | None:
        """Where an operation is, `None` if nobody asked for it, or long ago."""
        with self._lock:
            future = self._known.get((job_id, request_id))
        if future is None:
            return None
        if not future.done():
            return action_models.Operation(status=action_models.OperationStatus(id="IN_PROGRESS"))
        return action_models.Operation(
            status=action_models.OperationStatus(id="COMPLETED"), operation=future.result()
        )


def _perform(
    perform: Callable[[], action_models.OperationResult],
    changed: Callable[[], None],
    future: Future[action_models.OperationResult],
) -> None:
    result = _failed("InternalError", "it failed in an unexpected way, see the console's log")
    try:
        result = perform()
    except TidegateError as error:
        result = _failed(type(error).__name__, str(error))
    finally:
        changed()
        future.set_result(result)


def _failed(class_name: str, text: str) -> action_models.OperationResult:
    cause = action_models.FailureCause(class_name=class_name, stack_trace=shortened(text, 4_000))
    return action_models.OperationResult(failure_cause=cause)
