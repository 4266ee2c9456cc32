"""The sink of docs/two-phase-sinks.md writes every record once, wherever its process is killed."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..forked import Forks

EXPECTED = sorted((f"word {number % 7}", number) for number in range(240))


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    started = Forks("tests.examples.two_phase_job")
    yield started
    started.close()


def run(forks: Forks, directory: Path, points: str, parallelism: int, restored: str = "") -> int:
    database, checkpoints = directory / "counts.db", directory / "checkpoints"
    return forks(points, str(database), str(checkpoints), str(parallelism), restored)


def newest_checkpoint(directory: Path) -> str:
    found = {
        int(path.parent.name[4:]): path.parent for path in directory.glob("checkpoints/*/chk-*/MANIFEST")
    }
    return str(found[max(found)]) if found else ""


def visible(directory: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(directory / "counts.db") as database:
        return sorted(database.execute("SELECT word, n FROM counts"))


def test_the_sink_of_the_guide_writes_every_record_and_leaves_nothing_staged(
    forks: Forks, tmp_path: Path
) -> None:
    assert run(forks, tmp_path, "", parallelism=2) == 0
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
    forks: Forks, tmp_path: Path, point: str
) -> None:
    assert run(forks, tmp_path, point, parallelism=2) == -signal.SIGKILL
    # And once more while it commits what it restores, where there is something to restore.
    restored = newest_checkpoint(tmp_path)
    again = run(forks, tmp_path, "commit_mid@counts:1:kill", parallelism=3, restored=restored)
    assert again == -signal.SIGKILL
    assert run(forks, tmp_path, "", parallelism=1, restored=newest_checkpoint(tmp_path)) == 0
    assert visible(tmp_path) == EXPECTED
