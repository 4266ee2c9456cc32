"""Bugs of coordinators that were stopped and superseded: what they do when they wake up."""

from __future__ import annotations

from typing import Any

from tidegate.coordinator.coordinator_life import CoordinatorLife
from tidegate.coordinator.job_ownership import JobOwnership
from tidegate.testing.simulation.simulated_coordinator import SimulatedCoordinator

from .base import Mutant


def _never_verified(original: Any) -> Any:
    return lambda self, is_final=False: True


def _killed_by_actor_id(original: Any) -> Any:
    def leave(self: SimulatedCoordinator) -> None:
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


MUTANTS = {
    "lease-ignored": Mutant(
        "a coordinator never verifies that it owns the job", JobOwnership, "may_act", _never_verified
    ),
    "successor-killed": Mutant(
        "a coordinator ends itself by its actor id, which may be its successor's",
        SimulatedCoordinator,
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
}
