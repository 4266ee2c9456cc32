"""The examples of state run as their first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "state"


def printed_by(example: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, EXAMPLES / example],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_an_alarm_is_reported_again_when_its_state_has_expired() -> None:
    assert sorted(printed_by("time_to_live.py")) == ["cellar: water", "kitchen: smoke", "kitchen: smoke"]
