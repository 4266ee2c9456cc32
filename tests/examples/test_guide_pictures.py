"""The pictures of the guide are those that `docs/pictures.py` draws, and each is on a page."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_picture_is_drawn_and_shown() -> None:
    drawn = set(runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"])
    there = {path.stem for path in (DOCS / "guide" / "pictures").glob("*.svg")}
    pages = "".join(path.read_text() for path in (DOCS / "guide").glob("*.md"))
    shown = set(re.findall(r"\(pictures/([\w-]+)\.svg\)", pages))
    assert drawn == there == shown
