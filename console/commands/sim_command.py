"""`tidegate sim`: random jobs in a simulated world of crashes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ...testing.simulation.run_one import Outcome, run_seed
from ...testing.simulation.simulate import outcomes, prepare_process, replay
from ..exit_codes import ExitCode
from ..output import progress, say
from .command import Command

_SHOWN_FAILURES = 10
_SHOWN_EVENTS = 40


@click.command(
    cls=Command,
    examples=["tidegate sim --seeds 1000", "tidegate sim --seed 4711", "tidegate sim --seed 4711 --shrink"],
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=10_000, show_default=True, help="Run so many seeds."
)
@click.option("--first", type=click.IntRange(min=0), default=1, show_default=True, help="The first of them.")
@click.option("--seed", type=click.IntRange(min=0), help="Replay one seed and print what happens.")
@click.option("--shrink", is_flag=True, help="With --seed: look for a simpler job that fails.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="one per CPU",
    help="How many run at a time.",
)
@click.pass_context
def sim(
    context: click.Context, /, seeds: int, first: int, seed: int | None, shrink: bool, processes: int
) -> None:
    """Simulate random jobs with crashes, and check the results.

    Every result must appear exactly once. A seed decides everything, so a failure can be replayed. Exit code
    1: at least one seed failed.
    """
    if shrink and seed is None:
        raise click.UsageError("--shrink needs --seed")
    prepare_process()
    failures = _run_many(range(first, first + seeds), processes) if seed is None else _replay(seed, shrink)
    context.exit(ExitCode.FAILED if failures else ExitCode.DONE)


def _replay(seed: int, shrinks: bool) -> int:
    with progress(f"seed {seed}"):
        job, outcome = replay(seed, shrinks)
    document = {**_described(outcome), "job": job, "log": outcome.log}
    last = f"seed {seed}: {outcome.problem or 'clean'} ({outcome.events} events)"
    say(document, lambda: [job, *outcome.log, last])
    return 1 if outcome.problem else 0


def _run_many(seeds: Sequence[int], processes: int) -> int:
    started_s = time.monotonic()
    totals = {"seeds": 0, "events": 0, "checkpoints": 0, "crashes": 0}
    failures: list[Outcome] = []
    with progress("seeds", len(seeds)) as show:
        for outcome in outcomes(seeds, processes):
            totals["seeds"] += 1
            for name in ("events", "checkpoints", "crashes"):
                totals[name] += getattr(outcome, name)
            show(totals["seeds"])
            if outcome.problem:
                failures.append(outcome)
            if len(failures) == _SHOWN_FAILURES:
                break
    elapsed_s = time.monotonic() - started_s
    document = {**totals, "elapsed_s": elapsed_s, "failures": [_described(each) for each in failures]}
    say(document, lambda: _lines(totals, failures, elapsed_s))
    return len(failures)


def _described(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "problem": outcome.problem,
        "events": outcome.events,
        "crashes": outcome.crashes,
        "checkpoints": outcome.checkpoints,
    }


def _lines(totals: dict[str, int], failures: list[Outcome], elapsed_s: float) -> Iterator[str]:
    for failure in failures:
        yield f"seed {failure.seed}: {failure.problem}"
        yield f"    replay: tidegate sim --seed {failure.seed} [--shrink]"
        yield from (f"    {line}" for line in run_seed(failure.seed, keeps_log=True).log[-_SHOWN_EVENTS:])
    yield (
        f"{totals['seeds']} seeds, {len(failures)} failed, in {elapsed_s:.1f} s: {totals['events']} events, "
        f"{totals['checkpoints']} checkpoints, {totals['crashes']} crashes"
    )
