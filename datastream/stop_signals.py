"""What a driver does with its job when it is told to end: by SIGINT (Ctrl-C) or SIGTERM (`ray job stop`).

A second signal is more urgent than the first, and the last one leaves the job as it is:
a savepoint, then cancellation, then the end of the driver.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ..common.configuration import Configuration
from ..common.errors import ConfigurationError, JobCancelledError, TidegateError
from ..common.options.options import CheckpointingOptions, DeploymentOptions
from ..coordinator.control.job_client import JobClient

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LEAVE = "leave"
_STAGES = {
    "cancel": ("cancel", _LEAVE),
    "stop-with-savepoint": ("stop-with-savepoint", "cancel", _LEAVE),
    "detach": (_LEAVE,),
}
_REPORT_S = 5.0
"""How long the thread that asked for a stop may take to notice that it happened."""


class StopSignals:
    """While this is open, signals to the driver do with its job what `tidegate.on-stop-signal` says.

    On leaving, a driver whose job was stopped by a signal ends as the signal would have ended it: by
    `KeyboardInterrupt`, or by `SystemExit` with 143. Outside the main thread, where Python allows no
    handlers, nothing changes.

    Args:
        client: The job.
        action: One of the option's values.
    """

    def __init__(self, client: JobClient, action: str) -> None:
        self._client = client
        self._stages = iter(_STAGES[action])
        self._stop_signal: int | None = None
        self._is_left = False
        self._askers: list[threading.Thread] = []
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            # One that is ignored, as a shell does for what runs in its background, stays ignored.
            heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        for asker in self._askers:
            asker.join(_REPORT_S)
        if self._stop_signal is None or not (error is None or isinstance(error, JobCancelledError)):
            return
        report = self._client.report()
        if report.stopped_with:
            self._say(f"stopped with savepoint {report.stopped_with}")
        else:
            self._say(f"is {report.status.name}")
        raise _ended_by(self._stop_signal) from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        stage = next(self._stages, _LEAVE)
        if stage == _LEAVE:
            self._is_left = True
            self._say("goes on without its driver")
            raise _ended_by(number)
        self._stop_signal = number
        self._say("stops with a savepoint" if stage != "cancel" else "is CANCELLING")
        # In a thread of its own: this one may be in the middle of the same questions, or run the job.
        asker = threading.Thread(target=self._ask, args=(stage,), name="tidegate-stop", daemon=True)
        self._askers.append(asker)
        asker.start()

    def _ask(self, stage: str) -> None:
        ask: Callable[[], Any] = self._client.cancel
        if stage == "stop-with-savepoint":
            ask = self._client.stop_with_savepoint
        try:
            ask().result()
        except TidegateError as error:
            if not self._is_left and not self._client.wait(0).is_globally_terminal_state():
                self._stop_signal = None
                self._say(f"goes on: {error}")

    def _say(self, what: str) -> None:
        print(f"tidegate: job {self._client.get_job_id()} {what}", file=sys.stderr, flush=True)


def stop_action(configuration: Configuration, is_checkpointing: bool) -> str:
    """The value of `tidegate.on-stop-signal`.

    Raises:
        ConfigurationError: The job could not do that.
    """
    option = DeploymentOptions.ON_STOP_SIGNAL
    action = configuration.get(option)
    if action == "stop-with-savepoint":
        if not is_checkpointing:
            raise ConfigurationError(
                f"{option.key} is {action}, but the job takes no checkpoints and has no place for "
                f"savepoints; set {CheckpointingOptions.SAVEPOINT_DIRECTORY.key}"
            )
        if not configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY):
            raise ConfigurationError(
                f"{option.key} is {action}, but there is no place for savepoints; set "
                f"{CheckpointingOptions.SAVEPOINT_DIRECTORY.key}"
            )
    return action


def _ended_by(number: int) -> BaseException:
    if number == signal.SIGINT:
        return KeyboardInterrupt()
    return SystemExit(128 + number)
