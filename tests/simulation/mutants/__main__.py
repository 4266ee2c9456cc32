"""Command line of the mutation check."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
from collections.abc import Sequence

from tidegate.testing.run_one import Outcome
from tidegate.testing.simulate import replay

from . import MUTANTS, SEEDS, first_finding


def main(arguments: Sequence[str] | None = None) -> int:
    """Look for every bug, or show one at work; the exit code is 0 if all were found."""
    parser = argparse.ArgumentParser(prog="tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MUTANTS, []], help="only these")
    parser.add_argument("--seed", type=int, help="plant the one named, run this seed and print what happens")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: look for a simpler job that fails"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)
    names = options.names or list(MUTANTS)
    if options.seed is not None:
        with MUTANTS[names[0]].planted():
            return replay(options.seed, options.shrink)
    return _hunt(names, options.processes)


def _hunt(names: Sequence[str], processes: int) -> int:
    missed = 0
    # Spawned, not forked: LMDB must not be taken across a fork.
    with multiprocessing.get_context("spawn").Pool(processes, logging.disable, (logging.ERROR,)) as pool:
        for name, found in zip(names, pool.imap(first_finding, names)):
            missed += found is None
            print(f"{name:26} {_where(found):12} {MUTANTS[name].description}", flush=True)
            if found is not None:
                print(f"{'':26} {'':12} {found.problem:.110}", flush=True)
    print(f"{len(names) - missed} of {len(names)} bugs found within {SEEDS} seeds")
    return 1 if missed else 0


def _where(found: Outcome | None) -> str:
    return "NOT FOUND" if found is None else f"seed {found.seed}"


if __name__ == "__main__":
    sys.exit(main())
