"""Command line of the mutation check."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tidegate.testing.simulation.run_one import Outcome
from tidegate.testing.simulation.simulate import prepare_process, replay

from . import MUTANTS, SEEDS, finding

_KNOWN = Path(__file__).with_name("known_seeds.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Look for every bug, or show one at work; the exit code is 0 if all were found."""
    parser = argparse.ArgumentParser(prog="tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MUTANTS, []], help="only these")
    parser.add_argument("--seed", type=int, help="plant the one named, run this seed and print what happens")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: look for a simpler job that fails"
    )
    parser.add_argument(
        "--from-first",
        action="store_true",
        help="look for the first seed, also where one is known that finds it",
    )
    parser.add_argument("--rewrite", action="store_true", help="write down the seeds that found something")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    prepare_process()
    names = options.names or list(MUTANTS)
    if options.seed is not None:
        with MUTANTS[names[0]].planted():
            job, outcome = replay(options.seed, options.shrink)
        print("\n".join([job, *outcome.log, f"seed {options.seed}: {outcome.problem or 'clean'}"]))
        return 1 if outcome.problem else 0
    known = json.loads(_KNOWN.read_text("utf-8"))
    found = _hunt(
        [(name, 0 if options.from_first else known.get(name, 0)) for name in names], options.processes
    )
    if options.rewrite:
        _KNOWN.write_text(json.dumps({**known, **found}, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{len(found)} of {len(names)} bugs found within {SEEDS} seeds")
    return 0 if len(found) == len(names) else 1


def _hunt(wanted: Sequence[tuple[str, int]], processes: int) -> dict[str, int]:
    """Look for bugs, given with a seed to try first; the seeds that found them, as rows of a table."""
    seeds: dict[str, int] = {}
    # Those without a known seed take longest, and should not be left for the end.
    ordered = sorted(wanted, key=lambda each: each[1] > 0)
    # Spawned, not forked: LMDB must not be taken across a fork.
    with multiprocessing.get_context("spawn").Pool(processes, prepare_process) as pool:
        searches = [(name, pool.apply_async(finding, (name, seed))) for name, seed in ordered]
        for name, search in searches:
            found = search.get()
            if found is not None:
                seeds[name] = found.seed
            print(_row(name, found), flush=True)
    return seeds


def _row(name: str, found: Outcome | None) -> str:
    seed, problem = ("none", "") if found is None else (str(found.seed), f"{found.problem:.90}")
    return f"| `{name}` | {MUTANTS[name].description} | {seed} | {problem.replace('|', '/')} |"


if __name__ == "__main__":
    sys.exit(main())
