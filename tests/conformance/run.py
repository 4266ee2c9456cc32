"""Runs PyFlink's own DataStream tests against `tidegate` and writes docs/conformance.md.

    python tests/conformance/run.py PATH [--only TEXT] [--limit-s SECONDS] [--no-table]

PATH is a checkout of Apache Flink, or a git directory of it (bare or `.git`). Nothing of Flink is copied
into this repository: its tests are read from there, rewritten in memory (see `rewriting.py`) and run on the
local shell, a process per module, with a time limit per test.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from table import Outcome, table_page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYFLINK = "flink-python/pyflink"
# The longest time in which a worker has loaded its module, on a busy machine.
START_S = 90.0
# Not the tests of connectors and formats: in PyFlink these are names for classes in Java jars.
ROOMS = ("datastream/tests", "common/tests")


def sources(path: Path, scratch: Path) -> Path:
    """The directory of the package `pyflink` with its tests, from a checkout or a git directory."""
    if (path / PYFLINK / "datastream").is_dir():
        return path / PYFLINK
    command = ["git", f"--git-dir={path}", "archive", "--format=tar", "HEAD", PYFLINK]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(scratch, filter="data")
    return scratch / PYFLINK


@dataclass
class Module:
    """One test module on its way through the runs."""

    path: Path
    name: str
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, only: str, limit_s: float) -> None:
        listed = [line for line in _lines(self.path, [], limit_s) if "test" in line]
        if not listed:
            self.outcomes.append(Outcome("(module)", "failed", "it could not be loaded"))
        waiting = []
        for entry in listed:
            if only not in f"{self.name}.{entry['test']}":
                continue
            if entry["reason"] is None:
                waiting.append(entry["test"])
            else:
                self.outcomes.append(Outcome(entry["test"], "cannot run", entry["reason"]))
        while waiting:
            ended = self._round(waiting, limit_s)
            waiting = [test for test in waiting if test not in ended]

    def _round(self, waiting: list[str], limit_s: float) -> set[str]:
        """Run tests in one process until one hangs; the names of those that are through."""
        ended: set[str] = set()
        running = waiting[0]
        for line in _lines(self.path, waiting, limit_s):
            if "starts" in line:
                running = line["starts"]
            elif "ends" in line:
                status = "cannot run" if line["status"] == "skipped" else line["status"]
                self.outcomes.append(Outcome(line["ends"], status, line["why"], line["duration_s"]))
                ended.add(line["ends"])
            elif "class" in line:
                name = line["class"].split("(")[1].rstrip(")").split(".")[-1]
                for test in [test for test in waiting if test.startswith(f"{name}.")]:
                    self.outcomes.append(Outcome(test, "failed", f"set-up of its class: {line['why']}"))
                    ended.add(test)
            elif "done" in line:
                return set(waiting)
        self.outcomes.append(
            Outcome(running, "failed", f"not over after {limit_s:.0f} s, or its process died")
        )
        return ended | {running}


def _lines(path: Path, tests: list[str], limit_s: float) -> list[dict[str, Any]]:
    """What a worker says, until it is done, dies, or says nothing for `limit_s`."""
    command = [sys.executable, str(HERE / "worker.py"), str(path), *tests]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryFile() as log:
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True)
        said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_hand_on, args=(worker.stdout, said), daemon=True).start()
        try:
            wait_s = START_S + limit_s
            while (text := said.get(timeout=wait_s)) is not None:
                lines.append(json.loads(text))
                wait_s = limit_s
        except queue.Empty:
            pass
        finally:
            worker.kill()
            worker.wait()
        if not lines:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-2000:])
    return lines


def _hand_on(output: IO[str], said: queue.Queue[str | None]) -> None:
    for text in output:
        said.put(text)
    said.put(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", default="", help="run the tests whose name contains this text")
    parser.add_argument("--limit-s", type=float, default=30.0, help="time limit of one test")
    parser.add_argument("--no-table", action="store_true", help="print the outcomes, write nothing")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="conformance") as scratch:
        package = sources(args.path, Path(scratch))
        version = (package / "version.py").read_text().rsplit('"', 2)[1]
        modules = []
        for room in ROOMS:
            for path in sorted((package / room).glob("test_*.py")):
                module = Module(path, f"{room}/{path.stem}")
                if path.stem == "test_util":
                    continue
                module.run(args.only, args.limit_s)
                modules.append((module.name, module.outcomes))
                counts = {s: sum(o.status == s for o in module.outcomes) for s in ("passed", "failed")}
                print(f"{module.name}: {counts['passed']} passed, {counts['failed']} failed", flush=True)
                for outcome in module.outcomes:
                    if args.no_table or outcome.status == "failed":
                        print(f"    {outcome.status}: {outcome.test}: {outcome.why}")
    if not args.no_table and not args.only:
        (ROOT / "docs" / "conformance.md").write_text(table_page(version, modules), encoding="utf-8")


if __name__ == "__main__":
    main()
