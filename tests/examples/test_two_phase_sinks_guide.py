"""The sink of docs/two-phase-sinks.md writes every record once, wherever its process is killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("two_phase_job.py")
EXPECTED = sorted((f"word {number % 7}", number) for number in range(240))


def run(
    directory: Path, points: str, parallelism: int, restored: str = ""
) -> subprocess.CompletedProcess[str]:
    arguments = [directory / "counts.db", directory / "checkpoints", str(parallelism), restored]
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        env={**os.environ, "TIDEGATE_FAILPOINTS": points},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def newest_checkpoint(directory: Path) -> str:
    found = {
        int(path.parent.name[4:]): path.parent for path in directory.glob("checkpoints/*/chk-*/MANIFEST")
    }
    return str(found[max(found)]) if found else ""


def visible(directory: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(directory / "counts.db") as database:
        return sorted(database.execute("SELECT word, n FROM counts"))


def test_the_sink_of_the_guide_writes_every_record_and_leaves_nothing_staged(tmp_path: Path) -> None:
    ended = run(tmp_path, "", parallelism=2)
    assert ended.returncode == 0, ended.stderr
    assert visible(tmp_path) == EXPECTED
    with sqlite3.connect(tmp_path / "counts.db") as database:
        assert database.execute("SELECT count(*) FROM staged").fetchone() == (0,)


@pytest.mark.parametrize(
    "point",
    [
        "process@counts:3:kill",
        "snapshot_sync@counts:2:kill",
        "snapshot_async@counts:2:kill",
        "acknowledge@counts:2:kill",
        "before_manifest:2:kill",
        "after_manifest:2:kill",
        "notify@counts:2:kill",
        "commit_before@counts:1:kill",
        "commit_before@counts:2:kill",
        "commit_mid@counts:2:kill",
        "commit_after@counts:2:kill",
    ],
)
def test_a_killed_process_loses_and_doubles_nothing_also_with_another_parallelism(
    tmp_path: Path, point: str
) -> None:
    killed = run(tmp_path, point, parallelism=2)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # And once more while it commits what it restores, where there is something to restore.
    restored = newest_checkpoint(tmp_path)
    again = run(tmp_path, "commit_mid@counts:1:kill", parallelism=3, restored=restored)
    assert again.returncode == -signal.SIGKILL, again.stderr
    ended = run(tmp_path, "", parallelism=1, restored=newest_checkpoint(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert visible(tmp_path) == EXPECTED
