"""Runs the programs of `examples/` as a reader would, and finds the code that a page shows."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from ..forked import Forks

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


def output_of(directory: str, program: str, *arguments: object) -> str:
    """What a program prints that succeeds.

    It starts at once, with what most programs import already there: that takes more time than they do.
    """
    with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
        place = str(ROOT / "examples" / directory)
        code = _forks()("", output.name, errors.name, place, program, *map(str, arguments))
        printed = output.read()
        assert code == 0, printed + errors.read()
    return printed


@cache
def _forks() -> Forks:
    started = Forks("tests.examples.example_program")
    atexit.register(started.close)
    return started


def code_blocks(page: str, language: str = "python") -> list[str]:
    """The blocks of code in a page below `docs/`."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
