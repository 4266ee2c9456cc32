"""The program of the guide's page on types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "guide" / "declared_types.py"


def test_the_program_makes_rows_and_names_the_wrong_record() -> None:
    finished = subprocess.run(
        [sys.executable, PROGRAM],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    declared, people, hinted, printed, error = finished.stdout.splitlines()
    assert declared == "RowTypeInfo(name: String, age: Integer)"
    assert people == "Row(name='Alice', age=12) Row(name='Bob', age=13)"
    assert (hinted, printed) == ("String", "forgot to return")
    assert "(declared_types.py:" in error
    assert "emitted None where INT is declared" in error
