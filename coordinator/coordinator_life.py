"""One coordinator from its start to the end of its process: what it may change, and when it must not.

Shared by the Ray shell and the simulation. Ray restarts a coordinator on another node when its own counts as
dead, while the old process may only be stopped. Therefore a coordinator that acts first verifies that it is
still the owner, of the job or of its recorded end. One that is superseded changes nothing that it shares with
its successor, answers no client, and ends its own process only (ADR 054).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ..common.errors import SupersededError, TidegateError
from .checkpoints.ownership import Ownership
from .checkpoints.stored_end import StoredEnd
from .job_coordinator import JobCoordinator
from .monitoring.job_report import JobReport
from .monitoring.job_view import report_of
from .spec import JobSpec

logger = logging.getLogger(__name__)


class LifePorts(Protocol):
    """What a coordinator's process shares with its successor, and its end."""

    def is_current(self) -> bool | None:
        """Whether this process still counts as the job's coordinator, `None` if that is not known."""

    def is_handed_over(self) -> bool:
        """Whether a coordinator that starts now still finds the job."""

    def forget_job(self) -> None:
        """No coordinator of this job will start again."""

    def leave(self) -> None:
        """End this process and no other. It is not started again."""

    def restart(self) -> None:
        """End this process and no other. The coordinator is started again, perhaps on another node."""


class CoordinatorLife:
    """Of one coordinator. All methods belong to its thread.

    Args:
        spec: The job.
        ports: The shell.
        new_coordinator: Makes the coordinator, given its `before_clean_up`.
        now_ms: The clock.
    """

    def __init__(
        self,
        spec: JobSpec,
        ports: LifePorts,
        new_coordinator: Callable[[Callable[[bool], None]], JobCoordinator],
        now_ms: Callable[[], int],
    ) -> None:
        self._spec = spec
        self._ports = ports
        self._stored_end = StoredEnd(spec)
        # From the start: its first look is when the job has ended, and then storage is asked.
        self._of_end = Ownership(self._check_end, spec.settings.lease_ms, now_ms, is_current=ports.is_current)
        self.coordinator = new_coordinator(self._record_end)
        self.end: JobReport | None = None
        """How the job ended, once it has."""
        self.is_forgotten = False
        """Whether the job had ended long ago, so that nothing of it is left to report."""

    # ------------------------------------------------------------ what it may do

    @property
    def is_superseded(self) -> bool:
        """Whether another coordinator owns the job, or its end."""
        return self.coordinator.ownership.is_superseded or self._of_end.is_lost

    @property
    def is_over(self) -> bool:
        """Whether it runs the job no more: the job has ended, or is another coordinator's."""
        has_ended = self.coordinator.status.is_globally_terminal_state()
        return has_ended or self.end is not None or self.is_forgotten or self.is_superseded

    def may_act(self) -> bool:
        """Whether this coordinator may act or answer now.

        Returns:
            `False` if it is superseded, or if storage does not answer after this process was stopped for
            longer than the lease; then ask again.
        """
        if self.is_superseded:
            return False
        return self.coordinator.ownership.may_act() if self.end is None else self._of_end.confirm()

    def check_not_superseded(self) -> None:
        """Raise `SupersededError` if another coordinator is to be asked."""
        if self.is_superseded or (self.is_forgotten and self.end is None):
            raise SupersededError(
                f"this coordinator of job {self._spec.job_id} is superseded by another one, or the job's "
                f"directory in checkpoint storage was removed"
            )

    def _check_end(self) -> None:
        store = self.coordinator.store
        if self._stored_end.is_written:
            self._stored_end.check()
        elif store is not None and not self.is_forgotten:
            # Storage refused the record, so nothing was removed either.
            store.check_fence()

    # ------------------------------------------------------------ start

    def start(self) -> None:
        """Run the job, or resume it, or only report how it ended."""
        coordinator = self.coordinator
        try:
            coordinator.claim()
        except TidegateError:
            # It is tried again there, and makes the job fail.
            coordinator.start()
            return
        # After the claim: a predecessor that ends the job from now on finds itself superseded.
        store = coordinator.store
        stored = None if store is None else self._stored_end.take_over(store.epoch)
        if stored is not None:
            report, waiting = stored
            for event in waiting:
                coordinator.results.add(event)
            coordinator.ownership.finish_clean_up(keep_checkpoints=report.newest_checkpoint is not None)
            self.end = report
        elif store is not None and self._spec.settings.takes_checkpoints and not self._ports.is_handed_over():
            # The record is removed after the hand-over, so the job has ended and its end is known.
            self.is_forgotten = True
            store.storage.delete([store.probe])
            if not store.storage.list_files(""):
                store.storage.delete_all()
        else:
            coordinator.start()

    # ------------------------------------------------------------ end

    def ended(self, crash: JobReport | None = None) -> None:
        """The coordinator runs the job no more.

        Args:
            crash: What to report where a bug in the coordinator ended the job.
        """
        if self.end is None and not self.is_superseded and not self.is_forgotten:
            self.end = crash or report_of(self.coordinator)

    def report(self) -> JobReport:
        """How the job is now, or how it ended."""
        return self.end or report_of(self.coordinator)

    def _record_end(self, keep_checkpoints: bool) -> None:
        """Before the checkpoints are removed: without them a restarted coordinator would repeat the job."""
        store = self.coordinator.store
        if store is None:
            return
        report = report_of(self.coordinator)
        if not keep_checkpoints:
            report = replace(report, newest_checkpoint=None)
        self._stored_end.write(report, self.coordinator.results.waiting, store.epoch)
        try:
            # After the record: a successor claims first and looks for the record then.
            store.check_fence()
        except TidegateError:
            self._stored_end.remove()
            raise

    def forget(self) -> None:
        """The driver knows how the job ended and will kill this coordinator."""
        self._ports.forget_job()
        self._stored_end.remove()
        self.is_forgotten = True

    def lingered(self) -> bool:
        """No client has needed the end for long enough: remove what is left of the job, and leave.

        Returns:
            `False` if storage does not say whether that may be done; then ask again.
        """
        if not self.is_superseded and not self.is_forgotten:
            if not (self.may_act() and self._of_end.confirm(is_final=True)):
                return self.is_superseded and self._left()
            self.forget()
        return self._left()

    def _left(self) -> bool:
        store = self.coordinator.store
        if self.end is None and store is not None and store.has_successor and self._ports.is_current():
            # One that was stopped in its claim has completed that since, and has left.
            self._ports.restart()
        else:
            self._ports.leave()
        return True
