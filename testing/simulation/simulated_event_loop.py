"""The event loop of a simulated task process: its turns are events of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..virtual_event_loop import VirtualEventLoop
from .plan import MILLISECOND

if TYPE_CHECKING:
    from .simulated_process import Process


def simulated_event_loop(process: Process) -> VirtualEventLoop:
    """An event loop for the async functions of a process; nothing happens in it once the process is dead."""
    owner = process.owner
    scheduler = owner.shell.scheduler

    def wake() -> None:
        scheduler.soon(MILLISECOND, turn)

    def turn() -> None:
        if process.is_alive and not loop.is_closed:
            owner.shell.run_as(process, pump)

    def pump() -> None:
        wait_ns = loop.pump()
        if wait_ns is not None:
            scheduler.after(wait_ns, turn)

    loop = VirtualEventLoop(lambda: scheduler.now_ns, wake)
    owner.shell.event_loops.append(loop)
    return loop
