"""Notifications in the simulation: most of them are lost, or some raise, and nothing is lost or doubled."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tidegate.testing.simulation.draw_plan import draw_plan
from tidegate.testing.simulation.external_system import external_system
from tidegate.testing.simulation.plan import Crash, Faults, Plan, StageKind, Victim
from tidegate.testing.simulation.run_one import run_plan

SEEDS = range(30_001, 30_013)
pytestmark = pytest.mark.filterwarnings("ignore:FoldingState is deprecated")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def plan_with(seed: int, faults: Faults) -> Plan:
    """One run of the seed's job, with a checkpoint every few milliseconds."""
    plan = draw_plan(seed)
    settings = replace(plan.settings, mode="exactly-once", interval_ms=5, min_pause_ms=0)
    runs = (replace(plan.runs[0], ends_at=None),)
    return replace(plan, runs=runs, settings=settings, faults=faults, requests=())


def listeners(plan: Plan) -> int:
    """How many subtasks hear of a checkpoint in their function."""
    (run,) = plan.runs
    kinds = [stage.kind for stage in plan.stages]
    return sum(number for number, kind in zip(run.parallelism, kinds, strict=True) if kind is StageKind.COUNT)


def test_a_lost_notification_is_made_up_for_by_a_later_one() -> None:
    told = without_losses = 0
    for seed in SEEDS[:6]:
        plan = plan_with(seed, Faults(lost_notification=0.8, crashes=(Crash(Victim.TASK, 200),)))
        outcome = run_plan(plan)
        assert outcome.problem is None
        told += external_system().notifications
        without_losses += outcome.checkpoints * listeners(plan)
    assert told < without_losses / 2, "few were lost"


def test_a_notification_that_raises_restarts_the_job_from_the_checkpoint_it_was_about() -> None:
    restarts = 0
    for seed in SEEDS:
        plan = plan_with(seed, Faults(lost_notification=0.1, refused_notification=0.2))
        outcome = run_plan(plan, keeps_log=True)
        assert outcome.problem is None
        refused = 0
        for line in outcome.log:
            if (told := re.search(r"refuses to hear of checkpoint (\d+)", line)) is not None:
                refused = max(refused, int(told[1]))
            elif (deployed := re.search(r"is deployed from checkpoint (\d+)", line)) is not None and refused:
                assert int(deployed[1]) >= refused, "the checkpoint was revoked"
                restarts += 1
                refused = 0
    assert restarts > 5
