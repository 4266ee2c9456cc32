"""Deliberate protocol bugs, each of which the simulation must find within 2,000 seeds.

`python -m tests.simulation.mutants` plants one after the other and prints the first seed that finds it.
"""

from __future__ import annotations

from tidegate.testing.run_one import Outcome, run_seed

from . import channels, commits, coordination, overtaking, recovery, savepoints, switches
from .base import Mutant

SEEDS = 2_000
MUTANTS: dict[str, Mutant] = {
    **channels.MUTANTS,
    **overtaking.MUTANTS,
    **coordination.MUTANTS,
    **recovery.MUTANTS,
    **commits.MUTANTS,
    **savepoints.MUTANTS,
    **switches.MUTANTS,
}

__all__ = ["MUTANTS", "SEEDS", "Mutant", "first_finding"]


def first_finding(name: str, seeds: int = SEEDS) -> Outcome | None:
    """The first of `seeds` seeds that finds a planted bug."""
    with MUTANTS[name].planted():
        return next((found for found in map(run_seed, range(1, seeds + 1)) if found.problem), None)
