"""The committed page with the state diagrams is what the code says today."""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from tidegate.protocol.checkpoints.alignment_table import TABLE
from tidegate.protocol.checkpoints.checkpoint_table import CHECKPOINT_ACTIONS, COORDINATOR_TABLE
from tidegate.protocol.checkpoints.pending_checkpoint import CHECKPOINT_TRANSITIONS
from tidegate.protocol.checkpoints.tracking import TRACKING_TABLE
from tidegate.protocol.job import TRANSITIONS
from tidegate.protocol.job_takeover import TAKEOVER_TRANSITIONS
from tidegate.protocol.job_tasks import TASKS_TRANSITIONS
from tidegate.protocol.rescale import RESCALE_TRANSITIONS

DOCS = Path(__file__).parents[2] / "docs"


TABLES: dict[str, Any] = {
    "job": TRANSITIONS,
    "tasks": TASKS_TRANSITIONS,
    "rescale": RESCALE_TRANSITIONS,
    "checkpoint": CHECKPOINT_TRANSITIONS,
    "takeover": TAKEOVER_TRANSITIONS,
}


@pytest.fixture(scope="module")
def page() -> str:
    text: str = runpy.run_path(str(DOCS / "generate.py"))["page"]()
    return text


def test_the_page_is_up_to_date(page: str) -> None:
    assert (DOCS / "protocol.md").read_text("utf-8") == page, "run `make docs`"


@pytest.mark.parametrize(
    "table",
    TABLES.values(),
    ids=TABLES,
)
def test_every_transition_of_a_table_is_drawn(table: Mapping[tuple[Enum, Enum], Enum], page: str) -> None:
    for (state, event), target in table.items():
        assert re.search(f"    {state.name} --> {target.name}: {event.value}( / .*)?\n", page)


def test_every_row_of_alignment_is_shown(page: str) -> None:
    for (state, event, relation), steps in TABLE.items():
        performed = "; ".join(each.value for each in steps)
        assert f"| {state.value} | {event.value} | {relation.value} | {performed} |" in page


def test_every_row_of_the_checkpoint_coordinator_is_shown(page: str) -> None:
    for (event, _), actions in [*CHECKPOINT_ACTIONS.items(), *COORDINATOR_TABLE.items()]:
        assert event is None or event.value in page
        assert f"| {'; '.join(each.value for each in actions)} |" in page


def test_every_row_of_tracking_is_shown(page: str) -> None:
    for (event, tracking), steps in TRACKING_TABLE.items():
        assert f"| {event.value} | {tracking.value} | {'; '.join(each.value for each in steps)} |" in page
