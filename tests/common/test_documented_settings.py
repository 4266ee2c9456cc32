"""The page of all settings is what their declarations say, and no other page repeats a default."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from tidegate.common.options.known_options import known_options

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_all_settings_is_generated_from_the_declarations() -> None:
    text: str = runpy.run_path(str(DOCS / "settings_page.py"))["page"]()
    assert (DOCS / "settings.md").read_text("utf-8") == text, "run `make docs`"
    assert set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)) == set(known_options())


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_no_other_page_has_a_table_of_settings_with_defaults(page: Path) -> None:
    headings = re.findall(r"^\| (?:setting|key) \|.*default.*$", page.read_text("utf-8"), re.MULTILINE)
    assert page == DOCS / "settings.md" or not headings, f"link to settings.md instead of {headings}"
