"""Bugs in the decision which errors end a job before its first record."""

from __future__ import annotations

from typing import Any

from tidegate.protocol.scheduling.failover import GiveUp
from tidegate.protocol.scheduling.start_errors import StartErrors
from tidegate.runtime.tasks import task_failures

from .base import Mutant


def _final_at_once(original: Any) -> Any:
    return lambda self, task_id, cause: GiveUp("planted")


def _any_error_is_the_same(original: Any) -> Any:
    return lambda self, task_id, cause: original(self, "", "")


def _world_counts(original: Any) -> Any:
    return lambda error: True


MUTANTS = {
    "start-error-at-once": Mutant(
        "the first error of the program before the first record ends the job",
        StartErrors,
        "failed",
        _final_at_once,
    ),
    "start-error-anywhere": Mutant(
        "two different errors before the first record count as the same",
        StartErrors,
        "failed",
        _any_error_is_the_same,
    ),
    "start-error-of-the-world": Mutant(
        "a broker that is away counts as an error of the program",
        task_failures,
        "is_program_error",
        _world_counts,
    ),
}
