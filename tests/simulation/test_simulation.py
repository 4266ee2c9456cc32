"""The simulation itself: it is repeatable, clean seeds pass, and what fails can be replayed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.testing.simulation.checkers import check_output, expected_lineages
from tidegate.testing.simulation.draw_plan import draw_plan
from tidegate.testing.simulation.plan import (
    MODES,
    Ask,
    Crash,
    Ending,
    Faults,
    Handover,
    Plan,
    Request,
    Run,
    StageKind,
    Victim,
)
from tidegate.testing.simulation.run_one import run_plan, run_seed
from tidegate.testing.simulation.shrink import describe, shrunk
from tidegate.testing.simulation.simulate import replay

from .mutants import MUTANTS

pytestmark = pytest.mark.filterwarnings("ignore:FoldingState is deprecated")

SMALL_SEED = 39
"""Of a small job: it is run once for each call its processes make."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_one_seed_gives_the_same_run_twice() -> None:
    first, second = run_seed(7, keeps_log=True), run_seed(7, keeps_log=True)
    assert first.log
    assert first.log == second.log
    assert first.events == second.events


def test_different_seeds_give_different_runs() -> None:
    assert run_seed(1, keeps_log=True).log != run_seed(2, keeps_log=True).log


def test_seeds_with_crashes_end_with_every_record_once() -> None:
    outcomes = [run_seed(seed) for seed in range(200_001, 200_016)]
    assert [outcome.problem for outcome in outcomes if outcome.problem] == []
    assert sum(outcome.crashes for outcome in outcomes) > 5
    assert sum(outcome.checkpoints for outcome in outcomes) > 30


def test_a_restore_survives_lost_requests_to_storage() -> None:
    """Each of its restores reads more than 100 files, and one read in twenty fails."""
    outcome = run_seed(7_310_396)
    assert outcome.problem is None
    assert outcome.files_read < 20_000


# ---------------------------------------------------------------- what seeds decide


def test_seeds_cover_every_kind_of_stage_exchange_state_and_failure() -> None:
    plans = [draw_plan(seed) for seed in range(1, 1_001)]
    stages = [stage for plan in plans for stage in plan.stages]
    assert {stage.kind for stage in stages} == set(StageKind)
    assert {link.partitioning for stage in stages for link in stage.inputs} == set(Partitioning)
    assert {kind for stage in stages for kind in stage.states} >= {"map", "list", "reducing", "aggregating"}
    assert {crash.victim for plan in plans for crash in plan.faults.crashes} == set(Victim)
    assert {len(plan.sources) for plan in plans} == {1, 2, 3, 4}
    assert {len(plan.runs) for plan in plans} == {1, 2, 3}
    assert {plan.settings.on_disk for plan in plans} == {False, True}
    assert {plan.settings.keeps_copies for plan in plans} == {False, True}
    assert {request.ask for plan in plans for request in plan.requests} == set(Ask)
    assert {run.ending for plan in plans for run in plan.runs[:-1]} == set(Ending)
    assert {request.mode for plan in plans for request in plan.requests} == {"", *MODES}


def _calm(plan: Plan) -> Plan:
    """The plan with one run, and nothing that goes wrong."""
    return replace(plan, runs=(replace(plan.runs[0], ends_at=None),), faults=Faults(), requests=())


@pytest.mark.parametrize("victim", [Victim.TASK_INSIDE, Victim.COORDINATOR_INSIDE])
def test_whoever_dies_at_any_call_it_makes_the_output_is_that_of_one_run(victim: Victim) -> None:
    plan, calls = _calm(draw_plan(SMALL_SEED)), 0
    while True:
        crash = Crash(victim, calls + 1)
        outcome = run_plan(replace(plan, faults=replace(plan.faults, crashes=(crash,))))
        assert outcome.problem is None, f"{crash}: {outcome.problem}"
        if outcome.crashes == 0:
            break
        calls += 1
    assert calls > 30


@pytest.mark.parametrize("handover", [Handover(), Handover(is_claimed=True), Handover(is_moved=True)])
@pytest.mark.parametrize("ending", [Ending.STOP, Ending.DRAIN, Ending.GO_BACK])
def test_a_job_goes_on_from_a_savepoint_whoever_dies_where(ending: Ending, handover: Handover) -> None:
    plan = _calm(draw_plan(SMALL_SEED))
    first = Run(plan.runs[0].parallelism, 200, ending, handover)
    plan = replace(plan, runs=(first, plan.runs[0]), requests=(Request(20, Ask.NATIVE),))
    started = 0
    for at in range(1, 200, 20):
        crash = Crash(Victim.COORDINATOR_INSIDE if at % 40 == 1 else Victim.TASK_INSIDE, at)
        outcome = run_plan(replace(plan, faults=Faults(crashes=(crash,))), keeps_log=True)
        assert outcome.problem is None, f"{crash}: {outcome.problem}"
        started += any(
            "another job starts from simulated://storage/savepoints" in line for line in outcome.log
        )
    assert started > 2


def test_copies_on_local_disks_are_read_unless_they_are_damaged() -> None:
    plan = _calm(draw_plan(SMALL_SEED))
    plan = replace(plan, settings=replace(plan.settings, keeps_copies=True, inline_threshold_bytes=0))
    read = []
    for damage in (0.0, 1.0):
        crashes = tuple(Crash(Victim.TASK, at) for at in (200, 300))
        outcome = run_plan(replace(plan, faults=Faults(crashes=crashes, damaged_copy=damage)))
        assert outcome.problem is None
        read.append(outcome.files_read)
    assert read[0] < read[1], "from checkpoint storage"


# ---------------------------------------------------------------- the checkers


def test_the_output_of_a_sequential_run_is_expected() -> None:
    plan = _calm(draw_plan(SMALL_SEED))
    everything = [(split, number, way) for split, number, way in expected_lineages(plan)]
    check_output(plan, everything, attempts=1)
    with pytest.raises(AssertionError, match="lost: 1 records"):
        check_output(plan, everything[1:], attempts=1)
    with pytest.raises(AssertionError, match="doubled: 1 records"):
        check_output(plan, [*everything, everything[0]], attempts=1)
    with pytest.raises(AssertionError, match="never written: 1 records"):
        check_output(plan, [*everything, ("elsewhere.0", 0, ())], attempts=1)


def test_at_least_once_a_record_comes_at_most_once_per_attempt() -> None:
    plan = _calm(draw_plan(SMALL_SEED))
    plan = replace(plan, settings=replace(plan.settings, mode="at-least-once"))
    once = list(expected_lineages(plan))
    check_output(plan, once * 2, attempts=2)
    with pytest.raises(AssertionError, match="a record comes 3 times in 2 attempts"):
        check_output(plan, once * 3, attempts=2)
    with pytest.raises(AssertionError, match="lost: 1 records"):
        check_output(plan, once[1:] * 2, attempts=2)


def test_a_count_that_two_records_got_is_found() -> None:
    plan = next(
        plan
        for plan in map(draw_plan, range(1, 100))
        if [stage.kind for stage in plan.stages] == [StageKind.SOURCE, StageKind.COUNT, StageKind.SINK]
        and plan.is_exactly_once
    )
    counts: Counter[str] = Counter()
    records = []
    for split, number, way in expected_lineages(plan):
        counts[split] += 1
        records.append((split, number, (way[0], (way[1], split, counts[split]))))
    check_output(plan, records, attempts=1)
    split, number, (source, (uid, key, count)) = records[-1]
    records[-1] = (split, number, (source, (uid, key, count - 1)))
    with pytest.raises(AssertionError, match="counted"):
        check_output(plan, records, attempts=1)


# ---------------------------------------------------------------- a failing seed


def test_a_replayed_seed_tells_its_job_and_what_happened() -> None:
    job, outcome = replay(1, shrinks=False)
    assert job
    assert outcome.problem is None
    assert any("attempt 1 is deployed" in line for line in outcome.log)


def test_a_failing_job_is_made_simpler_as_long_as_it_fails() -> None:
    plan = draw_plan(2)
    assert shrunk(plan) == plan, "it does not fail"
    with MUTANTS["two-sequences"].planted():
        failing = next(plan for plan in map(draw_plan, range(1, 50)) if run_plan(plan).problem)
        simpler = shrunk(failing)
        assert run_plan(simpler).problem is not None
    assert len(describe(simpler)) <= len(describe(failing))
    assert not simpler.faults.crashes
    assert max(simpler.runs[0].parallelism) <= max(failing.runs[0].parallelism)


# ---------------------------------------------------------------- a job that still runs


@pytest.mark.parametrize(("is_claimed", "may_be_new"), [(False, False), (True, False), (True, True)])
def test_a_job_may_be_started_again_at_any_moment_of_the_one_that_still_runs(
    is_claimed: bool, may_be_new: bool
) -> None:
    """Its driver is killed, and another job starts from its latest checkpoint while its processes live on."""
    calm = _calm(draw_plan(SMALL_SEED))
    handover = Handover(is_claimed=is_claimed, may_be_new=may_be_new)
    moments = range(1 + is_claimed, run_plan(calm).events, 12)
    for moment in moments:
        runs = (replace(calm.runs[0], ends_at=moment, ending=Ending.ABANDON, handover=handover), calm.runs[0])
        outcome = run_plan(replace(calm, runs=runs))
        assert outcome.problem is None, f"at event {moment}: {outcome.problem}"
