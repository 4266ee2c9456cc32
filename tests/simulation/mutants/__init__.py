"""Deliberate protocol bugs, each of which the simulation must find within 2,000 seeds.

`python -m tests.simulation.mutants` plants one after the other and prints a seed that finds it, as rows of
the table in `docs/testing.md`. The seed that did last time is in `known_seeds.json` and tried first.
After a change of what the simulation draws, `--rewrite` writes the new ones down.
"""

from __future__ import annotations

from tidegate.testing.simulation.run_one import Outcome, run_seed

from . import (
    channels,
    commits,
    coordination,
    durability,
    epochs,
    joining,
    overtaking,
    ownership,
    recovery,
    rescales,
    restores,
    savepoints,
    starts,
    switches,
)
from .base import Mutant

SEEDS = 2_000
MUTANTS: dict[str, Mutant] = {
    **channels.MUTANTS,
    **overtaking.MUTANTS,
    **joining.MUTANTS,
    **coordination.MUTANTS,
    **ownership.MUTANTS,
    **recovery.MUTANTS,
    **durability.MUTANTS,
    **commits.MUTANTS,
    **epochs.MUTANTS,
    **savepoints.MUTANTS,
    **switches.MUTANTS,
    **rescales.MUTANTS,
    **restores.MUTANTS,
    **starts.MUTANTS,
}

__all__ = ["MUTANTS", "SEEDS", "Mutant", "finding"]


def finding(name: str, tried_first: int = 0, seeds: int = SEEDS) -> Outcome | None:
    """A seed that finds a planted bug: the one to be tried first, or else the first of so many."""
    order = [*([tried_first] if tried_first else []), *range(1, seeds + 1)]
    with MUTANTS[name].planted():
        return next((found for found in map(run_seed, order) if found.problem), None)
