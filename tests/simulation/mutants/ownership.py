"""Bugs of coordinators that were stopped and superseded: what they do when they wake up."""

from __future__ import annotations

from typing import Any

from tidegate.coordinator.coordinator_life import CoordinatorLife
from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.stored_end import StoredEnd
from tidegate.testing.incarnation import Incarnation

from .base import Mutant


def _never_verified(original: Any) -> Any:
    return lambda self, is_final=False: True


def _deployed_unverified(original: Any) -> Any:
    def may_act(self: JobCoordinator, is_final: bool = False) -> bool:
        return True if is_final and not self.is_superseded else original(self, is_final)  # type: ignore[no-any-return]

    return may_act


def _killed_by_actor_id(original: Any) -> Any:
    def leave(self: Incarnation) -> None:
        if self.shell.current.spec.job_id == self.spec.job_id:
            self.shell.kill_actor()
        original(self)

    return leave


def _forgotten_unverified(original: Any) -> Any:
    def lingered(self: CoordinatorLife) -> bool:
        self.forget()
        self._ports.leave()
        return True

    return lingered


def _answered_unverified(original: Any) -> Any:
    def may_act(self: CoordinatorLife) -> bool:
        return not self.is_superseded

    return may_act


def _claimed_after_the_look(original: Any) -> Any:
    def start(self: CoordinatorLife) -> None:
        take_over = self._stored_end.take_over
        found = self._stored_end._records()

        def looked_at_before(epoch: int) -> Any:
            return take_over(epoch) if found else None

        self._stored_end.take_over = looked_at_before  # type: ignore[method-assign]
        original(self)

    return start


def _shared_record(original: Any) -> Any:
    def remove(self: StoredEnd) -> None:
        if self._storage is not None:
            self._storage.delete(self._records())
        self._own = None

    return remove


MUTANTS = {
    "lease-ignored": Mutant(
        "a coordinator never verifies that it owns the job", JobCoordinator, "may_act", _never_verified
    ),
    "deployed-unverified": Mutant(
        "a coordinator deploys and ends the job without verifying that it owns it",
        JobCoordinator,
        "may_act",
        _deployed_unverified,
    ),
    "successor-killed": Mutant(
        "a coordinator ends itself by its actor id, which may be its successor's",
        Incarnation,
        "leave",
        _killed_by_actor_id,
    ),
    "end-forgotten-unverified": Mutant(
        "a superseded coordinator forgets the job when it leaves",
        CoordinatorLife,
        "lingered",
        _forgotten_unverified,
    ),
    "answered-unverified": Mutant(
        "a coordinator answers without verifying that it owns the job",
        CoordinatorLife,
        "may_act",
        _answered_unverified,
    ),
    "end-read-before-claim": Mutant(
        "a coordinator looks for the recorded end before it claims the job",
        CoordinatorLife,
        "start",
        _claimed_after_the_look,
    ),
    "end-record-shared": Mutant(
        "a coordinator removes the records of the end that others wrote",
        StoredEnd,
        "remove",
        _shared_record,
    ),
}
