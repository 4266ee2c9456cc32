"""When simulated processes take their steps, and what they do in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .network import DELAY_NS
from .plan import MILLISECOND
from .simulated_process import NEVER_NS, Process

if TYPE_CHECKING:
    from .simulated_shell import SimulatedShell


class ProcessSteps:
    """Lets processes take steps in virtual time.

    Args:
        shell: Runs the job.
    """

    def __init__(self, shell: SimulatedShell) -> None:
        self._shell = shell

    def initialize(self, process: Process) -> None:
        """Let a process that was just deployed open its task."""
        if process.is_alive:
            self._shell.run_as(process, process.task.initialize)
            self.step_soon(process)

    def step_soon(self, process: Process) -> None:
        """Let a process take a step, unless it is about to."""
        if not process.is_stepping and process.is_alive:
            process.is_stepping = True
            self._shell.scheduler.soon(process.slowness * MILLISECOND // 4, lambda: self._step(process))

    def _step(self, process: Process) -> None:
        process.is_stepping = False
        if not process.is_alive:
            return
        wait_ns: int | None = None

        def step() -> None:
            nonlocal wait_ns
            outcome = process.task.step()
            process.check()
            wait_ns = process.after(outcome)

        self._shell.run_as(process, step)
        if wait_ns == 0:
            self.step_soon(process)
        elif wait_ns is not None:
            self._wake_after(process, wait_ns)

    def _wake_after(self, process: Process, wait_ns: int) -> None:
        process.wakes_ns = self._shell.scheduler.now_ns + wait_ns
        if process.wakes_ns < process.alarm_ns:
            self._set_alarm_of(process)

    def _set_alarm_of(self, process: Process) -> None:
        due_ns = process.alarm_ns = process.wakes_ns

        def ring() -> None:
            if process.alarm_ns != due_ns or not process.is_alive:
                return
            process.alarm_ns = NEVER_NS
            if process.wakes_ns <= due_ns:
                self.step_soon(process)
            else:
                # It took another step since, and wants to sleep for longer.
                self._set_alarm_of(process)

        self._shell.scheduler.after(due_ns - self._shell.scheduler.now_ns, ring)

    def run_in_background(self, process: Process, work: Callable[[], None]) -> None:
        """Run `work` later, after the work before it; it may outlive its process."""
        process.background.append(work)
        if not process.is_storing:
            process.is_storing = True
            self._shell.scheduler.soon(2 * DELAY_NS, lambda: self._run_background(process))

    def _run_background(self, process: Process) -> None:
        if process.background:
            self._shell.run_as(process, process.background.popleft())
            self.step_soon(process)
        process.is_storing = bool(process.background)
        if process.is_storing:
            self._shell.scheduler.soon(2 * DELAY_NS, lambda: self._run_background(process))
