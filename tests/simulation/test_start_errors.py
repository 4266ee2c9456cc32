"""Jobs whose sources cannot be opened: because of the world, or because of the program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tidegate.protocol.scheduling.start_errors import StartErrors
from tidegate.testing.simulation.draw_plan import draw_plan
from tidegate.testing.simulation.faults.failed_starts import BROKEN
from tidegate.testing.simulation.plan import Plan
from tidegate.testing.simulation.run_one import run_plan

from .mutants.base import Mutant

pytestmark = pytest.mark.filterwarnings("ignore:FoldingState is deprecated")

REPEATED = "an earlier attempt ended in the same way before its first record"
NEVER_FINAL = Mutant(
    "an error of the program is never final", StartErrors, "failed", lambda original: lambda *arguments: None
)


def calm(seed: int, failed_starts: int) -> Plan:
    """A plan of one run, in which nothing goes wrong but the starts of its sources."""
    plan = draw_plan(seed)
    faults = replace(
        plan.faults,
        failed_starts=failed_starts,
        crashes=(),
        power_failures=(),
        stalls=(),
        losses=0,
        repeated_crash=0.0,
        crash_at_stop=0.0,
        crash_at_rescale=0.0,
    )
    return replace(plan, runs=(replace(plan.runs[0], ends_at=None),), requests=(), faults=faults)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_program_that_cannot_start_ends_its_job_in_the_second_attempt(seed: int) -> None:
    outcome = run_plan(calm(seed, BROKEN))
    assert REPEATED in str(outcome.problem)
    with NEVER_FINAL.planted():
        assert run_plan(calm(seed, BROKEN)).problem is None


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_job_survives_a_broker_that_is_away_and_mistakes_that_do_not_repeat(seed: int) -> None:
    assert run_plan(calm(seed, 9)).problem is None
