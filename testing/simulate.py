"""Command line of the simulation: `python -m tidegate.testing.simulate`."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from .mutants import MUTANTS
from .run_one import Outcome, run_seed

MUTANT_SEEDS = 2_000
_SHOWN_FAILURES = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds, one seed, or the mutants; returns the exit code: 0 if all is well."""
    parser = argparse.ArgumentParser(prog="tidegate.testing.simulate", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seeds", type=int, default=10_000, help="run seeds 1 to SEEDS")
    what.add_argument("--seed", type=int, help="replay one seed and print what happens")
    what.add_argument("--mutants", action="store_true", help="first seed that finds each planted bug")
    parser.add_argument("--break", dest="mutant", choices=sorted(MUTANTS), help="plant a bug")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    # Failures are injected on purpose; what they lead to is checked, not logged.
    logging.disable(logging.ERROR)
    if options.mutants:
        return _hunt_mutants()
    if options.seed is not None:
        return _replay(options.seed, options.mutant)
    return _run_many(options.seeds, options.processes, options.mutant)


def _replay(seed: int, mutant: str | None) -> int:
    outcome = run_seed(seed, mutant, keeps_log=True)
    print("\n".join(outcome.log))
    print(f"seed {seed}: {outcome.problem or 'clean'} ({outcome.events} events)")
    return 1 if outcome.problem else 0


def _run_many(seeds: int, processes: int, mutant: str | None) -> int:
    started_s = time.monotonic()
    failures: list[Outcome] = []
    done = events = crashes = checkpoints = 0
    for outcome in _outcomes(seeds, processes, mutant):
        done += 1
        events += outcome.events
        crashes += outcome.crashes
        checkpoints += outcome.checkpoints
        if outcome.problem:
            failures.append(outcome)
            if len(failures) >= _SHOWN_FAILURES:
                break
    elapsed_s = time.monotonic() - started_s
    for failure in sorted(failures, key=lambda each: each.seed):
        broken = f" --break {mutant}" if mutant else ""
        print(f"seed {failure.seed}: {failure.problem}")
        print(f"    replay: python -m tidegate.testing.simulate --seed {failure.seed}{broken}")
    print(
        f"{done} seeds, {len(failures)} failed, in {elapsed_s:.1f} s: {events} events, "
        f"{checkpoints} checkpoints, {crashes} crashes"
    )
    return 1 if failures else 0


def _outcomes(seeds: int, processes: int, mutant: str | None) -> Iterator[Outcome]:
    if processes == 1:
        yield from (run_seed(seed, mutant) for seed in range(1, seeds + 1))
        return
    work = [(seed, mutant) for seed in range(1, seeds + 1)]
    # Spawned, not forked: LMDB must not be taken across a fork.
    with multiprocessing.get_context("spawn").Pool(processes, logging.disable, (logging.ERROR,)) as pool:
        yield from pool.imap_unordered(_run_task, work, chunksize=20)
        pool.close()
        pool.join()


def _run_task(task: tuple[int, str | None]) -> Outcome:
    return run_seed(*task)


def _hunt_mutants() -> int:
    missed = 0
    for name, mutant in MUTANTS.items():
        found = first_finding(name, MUTANT_SEEDS)
        missed += found is None
        where = f"seed {found.seed}: {found.problem}" if found else f"NOT FOUND in {MUTANT_SEEDS}"
        print(f"{name:26} {mutant.description:60} {where:.150}", flush=True)
    return 1 if missed else 0


def first_finding(mutant: str, seeds: int) -> Outcome | None:
    """The first of `seeds` seeds that finds a planted bug."""
    outcomes = (run_seed(seed, mutant) for seed in range(1, seeds + 1))
    return next((outcome for outcome in outcomes if outcome.problem), None)


if __name__ == "__main__":
    sys.exit(main())
