"""Where the entries of a table of LMDB state are: all transitions stand in one table."""

from __future__ import annotations

import enum

from .life_cycle import next_state


class Backing(enum.Enum):
    """What LMDB holds of a table."""

    NONE = "none"
    """Nothing: memory holds everything."""
    WANTED = "wanted"
    """Nothing, but the table has become too large for memory."""
    FILLING = "filling"
    """Changes are kept for LMDB from now on, while what was there before is written to it."""
    COMPLETE = "complete"
    """Everything but what is in the write buffers."""


class BackingEvent(enum.Enum):
    """What happened to a table."""

    OUTGREW_MEMORY = "outgrew its share of memory"
    SPILL_BEGUN = "a spill froze the write buffers"
    FILLED = "the segments were written to LMDB"
    STORED = "LMDB got all entries at once"


TRANSITIONS: dict[tuple[Backing, BackingEvent], Backing] = {
    (Backing.NONE, BackingEvent.OUTGREW_MEMORY): Backing.WANTED,
    (Backing.WANTED, BackingEvent.SPILL_BEGUN): Backing.FILLING,
    (Backing.FILLING, BackingEvent.FILLED): Backing.COMPLETE,
    (Backing.NONE, BackingEvent.STORED): Backing.COMPLETE,
    # Another part of a restored state.
    (Backing.COMPLETE, BackingEvent.STORED): Backing.COMPLETE,
}
"""Anything not in the table is a bug in the caller, and raises."""


def backing_after(backing: Backing, event: BackingEvent) -> Backing:
    """Where the entries are after an event; raises `InvalidTransition` if `TRANSITIONS` does not list it."""
    return next_state("the backing of a table", TRANSITIONS, backing, event)
