"""The committed page with the state diagrams is what the code says today."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from tidegate.protocol.alignment_table import TABLE
from tidegate.protocol.job import TRANSITIONS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> str:
    text: str = runpy.run_path(str(DOCS / "generate.py"))["page"]()
    return text


def test_the_page_is_up_to_date(page: str) -> None:
    assert (DOCS / "protocol.md").read_text("utf-8") == page, "run `make docs`"


def test_every_transition_of_a_job_is_drawn(page: str) -> None:
    for (status, event), target in TRANSITIONS.items():
        assert f"    {status.name} --> {target.name}: {event.value}\n" in page


def test_every_row_of_alignment_is_shown(page: str) -> None:
    for (state, event, relation), steps in TABLE.items():
        performed = "; ".join(each.value for each in steps)
        assert f"| {state.value} | {event.value} | {relation.value} | {performed} |" in page
