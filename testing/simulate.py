"""Command line of the simulation: `python -m tidegate.testing.simulate`."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from .plan import draw_plan
from .run_one import Outcome, run_plan, run_seed
from .shrink import describe, shrunk

_SHOWN_FAILURES = 10
_SHOWN_EVENTS = 40
_CHUNK = 10
_GARBAGE = 50_000
"""So many more objects are there before the collector looks for cycles."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds, or one seed; returns the exit code: 0 if all is well."""
    parser = argparse.ArgumentParser(prog="tidegate.testing.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="run so many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="replay one seed and print what happens")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: look for a simpler job that fails"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    prepare_process()
    if options.seed is not None:
        return replay(options.seed, options.shrink)
    return _run_many(range(options.first, options.first + options.seeds), options.processes)


def prepare_process() -> None:
    """Make a process fit for many seeds."""
    # Failures are injected on purpose; what they lead to is checked, not logged.
    logging.disable(logging.ERROR)
    # What a run leaves behind is mostly freed by counting references; looking for cycles costs a tenth.
    gc.freeze()
    gc.set_threshold(_GARBAGE, 10, 10)


def replay(seed: int, shrinks: bool) -> int:
    """Run one seed and print what happens in it; the exit code says whether it failed."""
    plan = draw_plan(seed)
    if shrinks:
        plan = shrunk(plan)
    outcome = run_plan(plan, keeps_log=True)
    print(describe(plan))
    print("\n".join(outcome.log))
    print(f"seed {seed}: {outcome.problem or 'clean'} ({outcome.events} events)")
    return 1 if outcome.problem else 0


def _run_many(seeds: Sequence[int], processes: int) -> int:
    started_s = time.monotonic()
    failures = done = events = crashes = checkpoints = 0
    for outcome in _outcomes(seeds, processes):
        done += 1
        events += outcome.events
        crashes += outcome.crashes
        checkpoints += outcome.checkpoints
        if outcome.problem:
            failures += 1
            _show(outcome)
            if failures >= _SHOWN_FAILURES:
                break
    elapsed_s = time.monotonic() - started_s
    print(
        f"{done} seeds, {failures} failed, in {elapsed_s:.1f} s: {events} events, "
        f"{checkpoints} checkpoints, {crashes} crashes"
    )
    return 1 if failures else 0


def _show(failure: Outcome) -> None:
    print(f"seed {failure.seed}: {failure.problem}")
    print(f"    replay: python -m tidegate.testing.simulate --seed {failure.seed} [--shrink]")
    for line in run_seed(failure.seed, keeps_log=True).log[-_SHOWN_EVENTS:]:
        print(f"    {line}", flush=True)


def _outcomes(seeds: Sequence[int], processes: int) -> Iterator[Outcome]:
    """The outcomes in the order of the seeds, whatever process they come from."""
    if processes == 1:
        yield from map(run_seed, seeds)
        return
    # Spawned, not forked: LMDB must not be taken across a fork.
    with multiprocessing.get_context("spawn").Pool(processes, prepare_process) as pool:
        yield from pool.imap(run_seed, seeds, chunksize=_CHUNK)


if __name__ == "__main__":
    sys.exit(main())
