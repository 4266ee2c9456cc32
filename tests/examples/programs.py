"""Runs the programs of `examples/` as a reader would, and finds the code that a page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def finished(directory: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Python with these arguments in a directory of `examples/`, whose modules import each other by name."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT / "examples" / directory,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def output_of(directory: str, *arguments: object) -> str:
    """What a program prints that succeeds."""
    done = finished(directory, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def code_blocks(page: str, language: str = "python") -> list[str]:
    """The blocks of code in a page below `docs/`."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
