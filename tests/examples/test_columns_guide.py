"""The program of docs/guide/columns.md runs, and is printed there as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "guide" / "columns.py"

EXPECTED = """\
large orders
   south 10.0
   north 12.0
   south 10.0
   east 9.0
running
   north 1 4.0 4.0
   south 1 10.0 10.0
   north 2 16.0 8.0
   south 2 20.0 10.0
   north 3 18.0 6.0
   east 1 9.0 9.0
per ten seconds
   north 0 10000 2 6.0
   south 0 10000 1 2.5
   north 10000 20000 1 2.0
   south 10000 20000 1 1.0
   east 20000 30000 1 9.0
median pieces
   north 0 60000 1.0
   south 0 60000 4.0
   east 0 60000 1.0
largest so far
   north 12.0
   south 10.0
   east 9.0
"""


def test_the_program_gives_what_its_page_says() -> None:
    finished = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == EXPECTED


def test_the_page_shows_what_runs() -> None:
    page = (ROOT / "docs/guide/columns.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 5
    assert [block for block in blocks if block not in PROGRAM.read_text("utf-8")] == []
