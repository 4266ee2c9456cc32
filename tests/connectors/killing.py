"""Runs the job of `sink_job.py` in processes that are killed at each phase of the sinks' protocol.

    python -m tests.connectors.killing [--times 20]

does so again and again with PostgreSQL, a directory and an object store, and compares what is outside.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import psycopg
import pyarrow.dataset as ds
import pyarrow.fs
from tidegate.testing import PostgresServer

from ..forked import Forks
from .object_server import ObjectServer

EXPECTED = [(number, f"text {number}") for number in range(240)]

PHASES = [
    "process@sink/0:5:kill",  # before the second pre-commit
    "snapshot_sync@sink/1:2:kill",  # after it; the checkpoint will never be complete
    "commit_before@sink/0:2:kill",  # the checkpoint is complete, and nothing of it committed
    "commit_mid@sink/1:2:kill",  # this subtask has committed it
    "commit_after@sink/0:2:kill",  # and has not noted so yet
]


class Runner:
    """Runs the job in a process of its own."""

    def __init__(self) -> None:
        self._forks = Forks("tests.connectors.sink_job")

    def __call__(self, kind: str, target: str, directory: Path, points: str) -> int:
        """Run it from the newest checkpoint in the directory; its exit code, negative for a signal."""
        found = {
            int(path.parent.name[4:]): path.parent for path in directory.glob("checkpoints/*/chk-*/MANIFEST")
        }
        restored = [str(found[max(found)])] if found else []
        return self._forks(points, kind, target, str(directory / "checkpoints"), *restored)

    def close(self) -> None:
        self._forks.close()


def read(uri: str) -> list[tuple[int, str]]:
    file_system, directory = pyarrow.fs.FileSystem.from_uri(uri)
    rows = ds.dataset(directory, filesystem=file_system).to_table().to_pylist()
    return sorted((row["number"], row["text"]) for row in rows)


def _rounds(times: int) -> int:
    """Kill and resume; how many rounds went wrong."""
    wrong = 0
    runner = Runner()
    with PostgresServer() as server, ObjectServer() as objects, tempfile.TemporaryDirectory() as scratch:
        for number in range(times):
            for place, point in enumerate(PHASES):
                name = f"round_{number}_{place}"
                conninfo = f"{server.conninfo()} options=--search_path={name}"
                with psycopg.connect(conninfo, autocommit=True) as connection:
                    connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
                    connection.execute("CREATE TABLE numbers (number bigint PRIMARY KEY, text text)")
                out = Path(scratch, name, "out")
                uri = objects.create_store(name.replace("_", "-")).uri("out")
                for kind, target in (("postgres", conninfo), ("directory", str(out)), ("objects", uri)):
                    directory = Path(scratch, name, kind)
                    statuses = runner(kind, target, directory, point), runner(kind, target, directory, "")
                    if kind == "postgres":
                        with psycopg.connect(conninfo) as connection:
                            found = connection.execute("SELECT * FROM numbers ORDER BY 1").fetchall()
                    else:
                        found = read(out.as_uri() if kind == "directory" else uri)
                    is_right = statuses == (-signal.SIGKILL, 0) and found == EXPECTED
                    wrong += not is_right
                    print(f"{name} {kind:10} {point:30} {'right' if is_right else 'WRONG'}", flush=True)
    runner.close()
    return wrong


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="rounds for each phase of each sink")
    sys.exit(1 if _rounds(parser.parse_args().times) else 0)


if __name__ == "__main__":
    main()
