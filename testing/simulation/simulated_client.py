"""A client of a simulated job: it asks the coordinator how the job ended until it has an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...common.errors import CheckpointStorageError, SupersededError
from ...common.job_status import JobStatus
from ...coordinator.monitoring.job_report import JobReport
from .network import DELAY_NS
from .simulated_scheduler import MILLISECOND

if TYPE_CHECKING:
    from .simulated_coordinator import SimulatedCoordinator
    from .simulated_shell import SimulatedShell

_ASKS_AGAIN_NS = 15 * MILLISECOND


class SimulatedClient:
    """Believes the first coordinator that says that the job has ended, and then lets go of the job.

    Args:
        releases: Whether it says that it knows the end; otherwise the coordinator lingers and leaves.
    """

    def __init__(self, shell: SimulatedShell, releases: bool) -> None:
        self._shell = shell
        self._scheduler = shell.scheduler
        self._releases = releases
        self.end: JobReport | None = None
        """How the job ended, once the client knows."""
        self.is_done = False
        """Whether there is nothing left of the job that it waits for."""

    @property
    def status(self) -> JobStatus | None:
        """How the job ended, `None` if the client does not know."""
        return None if self.end is None else self.end.status

    def start(self) -> None:
        """Begin to ask."""
        self._ask()

    def _ask(self) -> None:
        life = self._shell.current
        if life.spec.job_id in self._shell.gone:
            assert self.end is not None, (
                "the coordinator is gone for good, and the client does not know the end"
            )
            self.is_done = True
        elif life.is_alive:
            self._scheduler.soon(DELAY_NS, lambda: life.do(lambda: self._answer(life)))
            self._scheduler.after(_ASKS_AGAIN_NS, self._ask)
        else:
            self._scheduler.after(_ASKS_AGAIN_NS, self._ask)

    def _answer(self, life: SimulatedCoordinator) -> None:
        """On the coordinator's side."""
        try:
            life.life.check_not_superseded()
            report = life.life.report()
            if report.status.is_globally_terminal_state():
                self._shell.stalls.check_owner(life, "reports the end")
                self.end = report
                if self._releases:
                    life.life.forget()
                    self._shell.kill_actor()
        except (SupersededError, CheckpointStorageError) as error:
            self._scheduler.note(f"the client asks again: {error}")
