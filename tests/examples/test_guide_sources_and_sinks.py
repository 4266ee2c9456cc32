"""Programs of the guide: sources, sinks, watermarks, process functions; as a reader would start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "examples" / "guide"


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("source_function.py", "one two three\n"),
        ("split_source.py", "a b c d e f\n"),
        ("watermarks.py", "('a', 1000) ('b', 3000) ('a', 2000) ('flush', 3000) ('b', 9000)\n" * 2),
        (
            "process_function.py",
            "ada came back\nada: 2 logins until 9000\nbob: 1 logins until 2000\neve: 1 logins until 30000\n",
        ),
        ("sinks.py", "['0 None', '1 None']\n[0, 1, 2, 3, 4]\n"),
    ],
)
def test_a_program_of_the_guide_prints_what_it_should(program: str, output: str) -> None:
    finished = subprocess.run(
        [sys.executable, program],
        cwd=GUIDE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == output
