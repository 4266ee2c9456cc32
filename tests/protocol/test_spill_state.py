"""Where the entries of a table of LMDB state are."""

from __future__ import annotations

import pytest
from tidegate.protocol.life_cycle import InvalidTransition
from tidegate.protocol.spill_state import TRANSITIONS, SpillEvent, SpillState, spill_after


def test_a_table_that_outgrows_memory_is_filled_by_the_next_spill() -> None:
    spill = SpillState.NONE
    for event in (SpillEvent.OUTGREW_MEMORY, SpillEvent.SPILL_BEGUN, SpillEvent.FILLED):
        spill = spill_after(spill, event)
    assert spill is SpillState.COMPLETE


@pytest.mark.parametrize("event", SpillEvent)
@pytest.mark.parametrize("spill", SpillState)
def test_only_what_the_table_lists_may_happen(spill: SpillState, event: SpillEvent) -> None:
    if (spill, event) in TRANSITIONS:
        assert spill_after(spill, event) is TRANSITIONS[spill, event]
    else:
        with pytest.raises(InvalidTransition, match=f"spill state of a table in status {spill.name}"):
            spill_after(spill, event)
