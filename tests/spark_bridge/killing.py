"""Runs the job of `spark_job.py` in processes that are killed at each phase of an epoch in Spark.

    python -m tests.spark_bridge.killing [--times 20]

Each round starts the job, which dies at the point, and goes on from its newest checkpoint, each time with a
Spark session of its own. Then the directory must hold every record once.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

EXPECTED = [(number, 2 * number) for number in range(240)]
PHASES = (
    "spark_stage@stage:2:kill",  # the second epoch is about to be run
    "snapshot_sync@stage:2:kill",  # a barrier passes while the session starts or an epoch runs
    "snapshot_sync@out:2:kill",  # results are about to become part of a checkpoint
    "commit_before@out:2:kill",  # the checkpoint is complete, and nothing of it written
    "commit_mid@out:2:kill",  # the directory of the epoch is there
    "commit_after@out:2:kill",  # and the sink has not noted so yet
)


def run(directory: Path, points: str) -> int:
    """Run the job from its newest checkpoint, if it has any; its exit code, negative for a signal."""
    found = {
        int(path.parent.name[4:]): path.parent for path in directory.glob("checkpoints/*/chk-*/MANIFEST")
    }
    restored = [str(found[max(found)])] if found else []
    arguments = [str(directory / "out"), str(directory / "checkpoints"), *restored]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark_bridge.spark_job", *arguments],
        env={**os.environ, "TIDEGATE_FAILPOINTS": points},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    if ended.returncode not in (0, -signal.SIGKILL):
        print(ended.stderr, file=sys.stderr)
    return ended.returncode


def written(directory: Path) -> list[tuple[int, int]]:
    """The records that are there for others to see."""
    rows: list[tuple[int, int]] = []
    for path in (directory / "out").glob("epoch=*/*.csv"):
        with path.open(encoding="utf-8") as lines:
            rows += [(int(number), int(twice)) for number, twice in csv.reader(lines)]
    return sorted(rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="rounds for each phase")
    wrong = 0
    for number in range(parser.parse_args().times):
        for point in PHASES:
            with tempfile.TemporaryDirectory() as scratch:
                directory = Path(scratch)
                ends = run(directory, point), run(directory, "")
                is_right = ends == (-signal.SIGKILL, 0) and written(directory) == EXPECTED
            wrong += not is_right
            print(f"{number + 1} spark {point:30} {ends} {'right' if is_right else 'WRONG'}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
