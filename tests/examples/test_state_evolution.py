"""The example of schema evolution: version 2 of a job goes on from the checkpoint of version 1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "state" / "evolution.py"


def test_version_2_counts_on_from_the_checkpoint_of_version_1(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    lines = process.stdout.splitlines()
    assert sorted(lines[:3]) == ["version 1: / 1", "version 1: / 2", "version 1: /shop 1"]
    assert sorted(lines[3:]) == [
        "version 2: Result(page='/', visits=3, longest_s=35)",
        "version 2: Result(page='/help', visits=1, longest_s=5)",
    ]
