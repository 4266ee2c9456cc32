"""Makes the job of a failing seed simpler, as long as it goes on failing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .plan import Handover, Plan
from .run_one import run_plan

_MOST_TRIES = 200


def shrunk(plan: Plan) -> Plan:
    """The simplest plan that was found to fail; the same one if it does not fail at all.

    A simpler plan makes another run, so what fails then may be something else.
    """
    if run_plan(plan).problem is None:
        return plan
    tries = 0
    went_on = True
    while went_on:
        went_on = False
        for simpler in _simpler(plan):
            tries += 1
            if tries > _MOST_TRIES:
                return plan
            if run_plan(simpler).problem is not None:
                plan, went_on = simpler, True
                break
    return plan


def _simpler(plan: Plan) -> Iterator[Plan]:
    faults = plan.faults
    for index in range(len(plan.runs) - 1):
        yield replace(plan, runs=(*plan.runs[:index], *plan.runs[index + 1 :]))
    if faults.power_failures:
        yield _with_faults(plan, power_failures=faults.power_failures[1:])
    for index in range(len(faults.crashes)):
        yield _with_faults(plan, crashes=(*faults.crashes[:index], *faults.crashes[index + 1 :]))
    for index in range(len(plan.requests)):
        yield replace(plan, requests=(*plan.requests[:index], *plan.requests[index + 1 :]))
    for index, run in enumerate(plan.runs):
        if run.handover != Handover():
            runs = (*plan.runs[:index], replace(run, handover=Handover()), *plan.runs[index + 1 :])
            yield replace(plan, runs=runs)
    for name in (
        "failed_write",
        "slow_task",
        "slow_channel",
        "duplicate",
        "lost_notification",
        "lost_trigger",
        "zombie_work",
        "damaged_copy",
        "repeated_crash",
        "crash_at_stop",
        "crash_at_rescale",
        "no_room",
    ):
        if getattr(faults, name):
            yield _with_faults(plan, **{name: 0.0})
    if faults.losses:
        yield _with_faults(plan, losses=faults.losses - 1)
    yield from _simpler_stages(plan)
    for number in range(len(plan.stages)):
        yield from _less_parallel(plan, number)
    if plan.splits > 1:
        yield replace(plan, splits=1)
    if plan.records > 4:
        yield replace(plan, records=plan.records // 2)


def _with_faults(plan: Plan, **changes: object) -> Plan:
    return replace(plan, faults=replace(plan.faults, **changes))  # type: ignore[arg-type]


def _simpler_stages(plan: Plan) -> Iterator[Plan]:
    """Without the states besides the count; without stages in the middle that have one input."""
    for number, stage in enumerate(plan.stages):
        if stage.states:
            simpler = replace(stage, states=())
            yield replace(plan, stages=(*plan.stages[:number], simpler, *plan.stages[number + 1 :]))


def _less_parallel(plan: Plan, number: int) -> Iterator[Plan]:
    if plan.stages[number].follows is not None or all(run.parallelism[number] == 1 for run in plan.runs):
        return
    runs = []
    for run in plan.runs:
        drawn: list[int] = []
        for index, stage in enumerate(plan.stages):
            own = 1 if index == number else run.parallelism[index]
            drawn.append(own if stage.follows is None else drawn[stage.follows])
        runs.append(replace(run, parallelism=tuple(drawn)))
    yield replace(plan, runs=tuple(runs))


def describe(plan: Plan) -> str:
    """The plan, for people."""
    lines = [f"{plan.splits} splits of {plan.records} records in each source"]
    for number, stage in enumerate(plan.stages):
        inputs = ", ".join(
            f"{plan.stages[link.stage].uid} by {link.partitioning.value}" for link in stage.inputs
        )
        widths = "/".join(str(run.parallelism[number]) for run in plan.runs)
        states = f" with {', '.join(stage.states)}" if stage.states else ""
        lines.append(f"  {stage.uid} x{widths}{states}{f' <- {inputs}' if inputs else ''}")
    for run in plan.runs[:-1]:
        lines.append(
            f"  after {run.ends_at} events: {run.ending.value}, then the next parallelism; {run.handover}"
        )
    lines += [f"{plan.settings}", f"{plan.faults}"]
    for request in sorted(plan.requests, key=lambda each: each.at):
        lines.append(
            f"  after {request.at} events a request: {request.ask.value} {request.mode}".rstrip()
            + (f" {request.parallelism}" if request.parallelism else "")
        )
    return "\n".join(lines)
