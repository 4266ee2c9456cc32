"""Coordinators that stop for a time in the middle of what they do, while a successor may run the job.

A stop between two steps only delays what comes next. A stop inside a step runs the rest of the world from
there: the call stack of the stopped coordinator waits until it wakes up, as a process under SIGSTOP does.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ..simulated_scheduler import MILLISECOND

if TYPE_CHECKING:
    from ..simulated_coordinator import SimulatedCoordinator
    from ..simulated_shell import SimulatedShell

STALLED_SHARE = 0.2
"""Of all seeds, so many have coordinators that stop."""
LEASE_MS = 40
LINGER_MS = 120
_EVENTS_OF_A_JOB = 1_500
_POINTS_OF_A_COORDINATOR = 250
_STACKED = 3
"""So many coordinators may be stopped inside a step at a time."""


@dataclass(frozen=True)
class Stall:
    """One stop of the coordinator that runs then.

    Attributes:
        at: Counts events, or calls of coordinators for a stop inside a step.
        is_inside: Whether it stops in the middle of a step.
        lasts_ms: For how long.
        noticed_ms: After how long it counts as dead, if it has not woken up by then.
        tasks_live: Whether its tasks live on until it wakes up, as they do behind a partition.
    """

    at: int
    is_inside: bool
    lasts_ms: int
    noticed_ms: int
    tasks_live: bool


def draw_stalls(random: Random) -> tuple[Stall, ...]:
    """The stops of one seed, none for most."""
    if random.random() >= STALLED_SHARE:
        return ()
    return tuple(_draw(random) for _ in range(random.choice((1, 1, 2, 3))))


def _draw(random: Random) -> Stall:
    is_inside = random.random() < 0.7
    return Stall(
        random.randint(1, _POINTS_OF_A_COORDINATOR if is_inside else _EVENTS_OF_A_JOB),
        is_inside,
        random.choice((5, 20, 60, 150, 400, 1_000)),
        random.choice((1, 10, 30, 80)),
        random.random() < 0.5,
    )


class Stalls:
    """Stops coordinators as planned, and checks what they do afterwards.

    Args:
        shell: Whose coordinators.
        planned: When which stop.
    """

    def __init__(self, shell: SimulatedShell, planned: tuple[Stall, ...]) -> None:
        self._shell = shell
        self._scheduler = shell.scheduler
        self._planned = list(planned)
        self.is_used = bool(planned)
        self._points = 0
        self._depth = 0
        self._claimed_ns: list[tuple[SimulatedCoordinator, int]] = []

    def at_event(self, events: int) -> None:
        """So many events have happened."""
        for stall in [each for each in self._planned if not each.is_inside and each.at <= events]:
            self._planned.remove(stall)
            self._stop(self._shell.current, stall)

    def at_point(self, life: SimulatedCoordinator) -> None:
        """A coordinator makes a call; it may stop here, and it returns when it has woken up."""
        self._points += 1
        due = [each for each in self._planned if each.is_inside and each.at <= self._points]
        if not due or self._depth >= _STACKED or life.is_stopped:
            return
        self._planned.remove(due[0])
        if not self._stop(life, due[0]):
            return
        self._depth += 1
        with self._shell.suspended():
            while life.is_stopped and life.is_alive and self._scheduler.run_next():
                self._shell.after_event()
        self._depth -= 1

    @property
    def is_quiet(self) -> bool:
        """Whether every coordinator that has a successor has left."""
        last = self._shell.current
        others = (life for life, _ in self._claimed_ns if life.spec.job_id == last.spec.job_id)
        return all(life is last or not life.is_alive for life in others)

    def _stop(self, life: SimulatedCoordinator, stall: Stall) -> bool:
        if not life.is_alive or life.is_stopped:
            return False
        self._scheduler.note(f"coordinator {life.number} stops: {stall}")
        life.is_stopped = True
        self._scheduler.after(stall.lasts_ms * MILLISECOND, lambda: self._wake(life))
        if stall.noticed_ms < stall.lasts_ms:
            self._scheduler.after(stall.noticed_ms * MILLISECOND, lambda: self._notice(life, stall))
        return True

    def _notice(self, life: SimulatedCoordinator, stall: Stall) -> None:
        shell = self._shell
        if not life.is_alive or life.spec.job_id in shell.gone or not shell.is_current(life):
            return
        if life.end is not None and not shell.is_last_run:
            # Its user starts the next job.
            return
        self._scheduler.note(f"coordinator {life.number} counts as dead, and is only stopped")
        shell.crashes += 1
        if not stall.tasks_live:
            life.stop_processes()
        shell.replace(life)

    def _wake(self, life: SimulatedCoordinator) -> None:
        self._scheduler.note(f"coordinator {life.number} wakes up")
        life.is_stopped = False
        life.work_off()
        self._beat(life)

    def _beat(self, life: SimulatedCoordinator) -> None:
        """As in the Ray shell, its loop runs from time to time without an event."""
        life.do(lambda: None)
        if life.is_alive and not self._shell.is_current(life):
            self._scheduler.after(LEASE_MS * MILLISECOND, lambda: self._beat(life))

    # ------------------------------------------------------------ checks

    def claimed(self, life: SimulatedCoordinator) -> None:
        """A coordinator has claimed the job, or Ray counts it as the coordinator."""
        self._claimed_ns.append((life, self._scheduler.now_ns))

    def check_owner(self, life: SimulatedCoordinator, what: str) -> None:
        """Raise `AssertionError` if another coordinator owned the job a lease ago, and this one acts."""
        before_ns = self._scheduler.now_ns - (LEASE_MS + 1) * MILLISECOND
        for other, claimed_ns in self._claimed_ns:
            is_later = other.number > life.number and other.spec.job_id == life.spec.job_id
            assert not is_later or claimed_ns >= before_ns, (
                f"coordinator {life.number} {what}, and {other.number} owns the job for longer than a lease"
            )
