"""Runs many seeds of the simulation, or replays one: what `tidegate sim` does."""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections.abc import Iterator, Sequence

from .draw_plan import draw_plan
from .run_one import Outcome, run_plan, run_seed
from .shrink import describe, shrunk

_CHUNK = 10
_GARBAGE = 50_000
"""So many more objects are there before the collector looks for cycles."""


def prepare_process() -> None:
    """Make a process fit for many seeds."""
    # Failures are injected on purpose; what they lead to is checked, not logged.
    logging.disable(logging.ERROR)
    # What a run leaves behind is mostly freed by counting references; looking for cycles costs a tenth.
    gc.freeze()
    gc.set_threshold(_GARBAGE, 10, 10)


def replay(seed: int, shrinks: bool) -> tuple[str, Outcome]:
    """Run one seed and remember what happens in it.

    Args:
        seed: Decides everything.
        shrinks: Whether to look for a simpler job that fails, too.

    Returns:
        The job in words, and the outcome with its log.
    """
    plan = draw_plan(seed)
    if shrinks:
        plan = shrunk(plan)
    return describe(plan), run_plan(plan, keeps_log=True)


def outcomes(seeds: Sequence[int], processes: int) -> Iterator[Outcome]:
    """The outcomes in the order of the seeds, whatever process they come from."""
    if processes == 1:
        yield from map(run_seed, seeds)
        return
    # Spawned, not forked: LMDB must not be taken across a fork.
    with multiprocessing.get_context("spawn").Pool(processes, prepare_process) as pool:
        yield from pool.imap(run_seed, seeds, chunksize=_CHUNK)
