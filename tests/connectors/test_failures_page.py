"""docs/connectors-failures.md: every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_case_is_shown_by_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "connectors-failures.md").read_text("utf-8")
    named = re.findall(r"`(tests/\S+)::(\w+)`", page)
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| case")]
    assert len(named) == len(rows) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    ]
    assert missing == []
