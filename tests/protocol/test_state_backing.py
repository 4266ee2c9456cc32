"""Where the entries of a table of LMDB state are."""

from __future__ import annotations

import pytest
from tidegate.protocol.life_cycle import InvalidTransition
from tidegate.protocol.state_backing import TRANSITIONS, Backing, BackingEvent, backing_after


def test_a_table_that_outgrows_memory_is_filled_by_the_next_spill() -> None:
    backing = Backing.NONE
    for event in (BackingEvent.OUTGREW_MEMORY, BackingEvent.SPILL_BEGUN, BackingEvent.FILLED):
        backing = backing_after(backing, event)
    assert backing is Backing.COMPLETE


@pytest.mark.parametrize("event", BackingEvent)
@pytest.mark.parametrize("backing", Backing)
def test_only_what_the_table_lists_may_happen(backing: Backing, event: BackingEvent) -> None:
    if (backing, event) in TRANSITIONS:
        assert backing_after(backing, event) is TRANSITIONS[backing, event]
    else:
        with pytest.raises(InvalidTransition, match=f"backing of a table in status {backing.name}"):
            backing_after(backing, event)
