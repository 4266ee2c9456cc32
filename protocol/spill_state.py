"""Where the entries of a table of LMDB state are: all transitions stand in one table."""

from __future__ import annotations

import enum

from .life_cycle import next_state


class SpillState(enum.Enum):
    """What LMDB holds of a table."""

    NONE = "none"
    """Nothing: memory holds everything."""
    WANTED = "wanted"
    """Nothing, but the table has become too large for memory."""
    FILLING = "filling"
    """Changes are kept for LMDB from now on, while what was there before is written to it."""
    COMPLETE = "complete"
    """Everything but what is in the write buffers."""


class SpillEvent(enum.Enum):
    """What happened to a table."""

    OUTGREW_MEMORY = "outgrew its share of memory"
    SPILL_BEGUN = "a spill froze the write buffers"
    FILLED = "the segments were written to LMDB"
    STORED = "LMDB got all entries at once"


TRANSITIONS: dict[tuple[SpillState, SpillEvent], SpillState] = {
    (SpillState.NONE, SpillEvent.OUTGREW_MEMORY): SpillState.WANTED,
    (SpillState.WANTED, SpillEvent.SPILL_BEGUN): SpillState.FILLING,
    (SpillState.FILLING, SpillEvent.FILLED): SpillState.COMPLETE,
    (SpillState.NONE, SpillEvent.STORED): SpillState.COMPLETE,
    # Another part of a restored state.
    (SpillState.COMPLETE, SpillEvent.STORED): SpillState.COMPLETE,
}
"""Anything not in the table is a bug in the caller, and raises."""


def spill_after(spill: SpillState, event: SpillEvent) -> SpillState:
    """Where the entries are after an event; raises `InvalidTransition` if `TRANSITIONS` does not list it."""
    return next_state("the spill state of a table", TRANSITIONS, spill, event)
