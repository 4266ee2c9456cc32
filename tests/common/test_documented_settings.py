"""Every setting is in a table of the documentation with its default, and no table has an unknown key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidegate.common.config_options import ConfigOption
from tidegate.common.known_options import known_options

DOCS = Path(__file__).parents[2] / "docs"
HEADINGS = re.compile(r"\| (setting|key) \| (setter \| )?default \|")
OPTIONS = known_options()


def tables(text: str) -> Iterator[tuple[str, str]]:
    """Key and default of each row in the tables of settings of a page."""
    column = 0
    for line in text.splitlines():
        heading = HEADINGS.match(line)
        cells = [cell.strip() for cell in line.split("|")]
        if heading is not None:
            column = 3 if heading[2] else 2
        elif not line.startswith("|"):
            column = 0
        elif column and not line.startswith("|--"):
            yield cells[1], cells[column].strip("`")


DOCUMENTED = [
    (page.relative_to(DOCS).as_posix(), key, default)
    for page in sorted(DOCS.rglob("*.md"))
    for key, default in tables(page.read_text("utf-8"))
]


def stored(option: ConfigOption[object], default: str) -> object:
    return option.default if default == "" and not option.default else option.type.convert(default)


def test_every_setting_is_in_a_table() -> None:
    keys = {key.strip("`") for _, key, _ in DOCUMENTED}
    assert sorted(set(OPTIONS) - keys) == [], "add it to the page of its feature, or to docs/settings.md"


@pytest.mark.parametrize(("page", "key", "default"), DOCUMENTED)
def test_a_documented_setting_exists_and_has_the_documented_default(
    page: str, key: str, default: str
) -> None:
    option = OPTIONS.get(key.strip("`"))
    assert option is not None, f"{page} documents {key}, which is not a setting"
    assert stored(option, default) == option.default
