"""Sources that are written as one long-running method, in a thread of its own inside the task.

Source of names and semantics: Flink's `SourceFunction`. `docs/guide/sources.md` is the guide.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from abc import abstractmethod

from ...common import failpoints
from ...common.errors import ConfigurationError, UserCodeError
from ...protocol.elements import Batch, CheckpointBarrier, StreamElement, Watermark, WatermarkStatus
from ...telemetry import logs
from ..checkpointed import CheckpointHooks
from ..functions import Function, RichFunction
from ..user_function_operator import UserFunctionOperator
from .checkpoint_lock import CheckpointLock
from .source_buffer import SourceBuffer, SourceCancelled
from .source_context import SourceContext
from .sources import EndOfSource, PolledOperator

logger = logging.getLogger(__name__)


class SourceFunction(Function):
    """Emits records from `run`, in one subtask. Derive from `ParallelSourceFunction` to run in several.

    To keep its position in checkpoints it is also a `CheckpointedFunction`, and emits each record together
    with the step of its position while it holds `ctx.get_checkpoint_lock()`.

    Attributes:
        stop_timeout_ms: How long `run` may go on after `cancel`.
    """

    stop_timeout_ms: int = 5_000

    @abstractmethod
    def run(self, ctx: SourceContext) -> None:
        """Emit records until there are no more, or until `cancel` was called. Runs in its own thread."""

    @abstractmethod
    def cancel(self) -> None:
        """Let `run` return soon. Called in another thread than `run`."""


class RichSourceFunction(SourceFunction, RichFunction):
    """A `SourceFunction` that knows its `RuntimeContext`."""


class ParallelSourceFunction(SourceFunction):
    """A `SourceFunction` that runs in every subtask: `run` must divide the work among them."""


class RichParallelSourceFunction(ParallelSourceFunction, RichFunction):
    """A `ParallelSourceFunction` that knows its `RuntimeContext`, and so which subtask it is."""


class SourceFunctionOperator(UserFunctionOperator, PolledOperator):
    """Runs a `SourceFunction` in a thread, and emits on the task's loop what that hands over."""

    def __init__(self, function: SourceFunction) -> None:
        if not isinstance(function, SourceFunction):
            raise ConfigurationError(
                f"add_source() takes a SourceFunction, not {type(function).__name__}; derive it from "
                f"tidegate.datastream.SourceFunction, or pass a Source to from_source()"
            )
        self._function = self._life_cycle = function
        self._hooks = CheckpointHooks(function)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._run_is_over = False
        self._is_paused = False
        self._stop_deadline_ms: int | None = None
        self._lock: CheckpointLock
        self._buffer: SourceBuffer

    def open(self) -> None:
        self._lock = CheckpointLock()
        super().open()

    # ------------------------------------------------------------ the thread

    def _start(self, capacity: int) -> None:
        context = self.context
        self._buffer = SourceBuffer(capacity, lambda: context.mailbox(_look_again))
        self._thread = threading.Thread(
            target=self._run,
            args=(logs.current(),),
            name=f"tidegate-source-{context.name_with_subtask}",
            daemon=True,
        )
        self._thread.start()

    def _run(self, log_context: logs.LogContext | None) -> None:
        logs.enter(log_context)
        where = f"operator {self.context.name_with_subtask}"
        try:
            self._function.run(SourceContext(self._buffer, self._lock, where))
        except SourceCancelled:
            # The task closed the buffer: it wants nothing more.
            pass
        except BaseException as error:
            # A thread that dies of sys.exit() must not look like one that has no more records.
            self._failure = error
        self._run_is_over = True
        self._lock.thread_ended()
        self._buffer.ended()

    def _raise_failure(self) -> None:
        error = self._failure
        if error is not None:
            raise self.user_error("run()", error) from error

    # ------------------------------------------------------------ the task's loop

    def poll(self, max_records: int) -> bool:
        if self._thread is None:
            self._start(max_records)
        # In this order: what was collected before the end is in the buffer then.
        is_over = self._run_is_over
        self._raise_failure()
        taken = self._buffer.take()
        if taken:
            failpoints.reach("process")
            self._pass_on(taken)
            return True
        if is_over:
            raise EndOfSource
        self._check_stop()
        return False

    def _pass_on(self, elements: list[StreamElement]) -> None:
        for element in elements:
            if isinstance(element, Batch):
                self.emit(element)
            elif isinstance(element, Watermark):
                self.process_watermark(element.timestamp_ms)
            else:
                assert isinstance(element, WatermarkStatus)
                self.process_status(element.is_idle)

    def stop(self) -> bool:
        if self._stop_deadline_ms is None:
            self._stop_deadline_ms = self.context.now_ms() + self._function.stop_timeout_ms
            self._cancel_function()
        return False

    def _cancel_function(self) -> None:
        try:
            self._function.cancel()
        except Exception as error:
            raise self.user_error("cancel()", error) from error

    def _check_stop(self) -> None:
        if self._stop_deadline_ms is not None and self.context.now_ms() >= self._stop_deadline_ms:
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: run() did not return within "
                f"{self._function.stop_timeout_ms} ms after cancel(); let cancel() set a flag that run() "
                f"looks at, and let run() wait for nothing without a timeout"
            )

    def try_pause(self) -> bool:
        self._is_paused = self._is_paused or self._lock.try_take()
        return self._is_paused

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._lock.give_back()

    # ------------------------------------------------------------ checkpoints; the task holds the lock

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        # A function that failed may have left its state half changed.
        self._raise_failure()
        if self._thread is not None:
            self._pass_on(self._buffer.take())

    # ------------------------------------------------------------ the end

    def close_function(self) -> None:
        self._end_thread()
        super().close_function()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._buffer.close()
        self.resume()
        self._lock.stand_aside()
        if self._run_is_over:
            thread.join()
            return
        try:
            self._cancel_function()
        finally:
            thread.join(self._function.stop_timeout_ms / 1_000)
            if thread.is_alive():
                self._report_hanging(thread)

    def _report_hanging(self, thread: threading.Thread) -> None:
        frame = sys._current_frames().get(thread.ident or 0)
        logger.error(
            "operator %s: run() is still going on %d ms after cancel(); its thread is left behind. Let "
            "cancel() set a flag that run() looks at, and let run() wait for nothing without a timeout. It "
            "is at:\n%s",
            self.context.name_with_subtask, self._function.stop_timeout_ms,
            "" if frame is None else "".join(traceback.format_stack(frame)),
        )  # fmt: skip


def _look_again() -> None:
    """Mail for a task that waits: it polls its source after any mail."""
