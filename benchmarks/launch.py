"""Starts one program, watches its process tree and ends it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .systems import ROOT

SAMPLE_PAUSE_S = 0.1
RAY_DAEMONS = ("raylet", "gcs_server", "dashboard", "log_monitor", "runtime_env", "ray::IDLE")


class RunError(Exception):
    """A run did not end as it should; the message holds the end of its log."""


@dataclass
class Outcome:
    """What one process tree did.

    Attributes:
        started_ns: monotonic time just before the process was started.
        marks: what the program left in its marks folder, by name.
        peak_bytes: highest sum of resident sizes over the tree; shared pages count once per
            process, as in `ps`.
        peak_daemon_bytes: the part of Ray's own processes at the moment of that peak.
        timed_out: the time limit ended the run.
    """

    started_ns: int
    marks: dict[str, Any] = field(default_factory=dict)
    peak_bytes: int = 0
    peak_daemon_bytes: int = 0
    timed_out: bool = False


@dataclass
class ProcessTree:
    """A process and everything it ever started, as far as sampling saw it."""

    root: psutil.Process
    members: dict[int, psutil.Process] = field(default_factory=dict)

    def sample(self) -> dict[int, tuple[str, int]]:
        """Returns the name and resident size in bytes of every living member, by pid."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self.root, *self.root.children(recursive=True)]:
                self.members.setdefault(process.pid, process)
        sizes = {}
        for pid, process in self.members.items():
            # A member may end between two looks; it then has no size.
            with contextlib.suppress(psutil.NoSuchProcess):
                sizes[pid] = (_describe(process), process.memory_info().rss)
        return sizes

    def kill(self) -> None:
        """Ends every member that still runs (psutil guards against reused pids)."""
        self.sample()
        for process in self.members.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(list(self.members.values()), timeout=10)


def run(
    command: list[str],
    variables: dict[str, str],
    marks_dir: Path,
    log: Path,
    limit_s: float,
    finished: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Runs a program to its end, to a condition, or to its time limit.

    Args:
        command: the command line.
        variables: the environment variables.
        marks_dir: where the program leaves its marks.
        log: file for its output.
        limit_s: seconds after which it is killed.
        finished: asked about ten times a second; true kills the program at once (SIGKILL),
            as W5 wants it.

    Raises:
        RunError: the program ended by itself with an error.
    """
    with log.open("wb") as output:
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(command, env=variables, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    outcome = Outcome(started_ns)
    tree = ProcessTree(psutil.Process(process.pid))
    ended_here = False
    while process.poll() is None:
        _note_peak(outcome, tree.sample())
        outcome.timed_out = time.monotonic_ns() - started_ns > limit_s * 1e9
        ended_here = outcome.timed_out or finished()
        if ended_here:
            break
        time.sleep(SAMPLE_PAUSE_S)
    tree.kill()
    status = process.wait()
    if status and not ended_here:
        raise RunError(f"exit status {status}; its log is {log}\n{tail(log)}")
    outcome.marks = read_marks(marks_dir)
    return outcome


def settled(mark: Path | None, settle_s: float) -> Callable[[], bool]:
    """A condition: the mark has been there for so many seconds (never, without a mark)."""

    def condition() -> bool:
        return mark is not None and mark.exists() and time.time() - mark.stat().st_mtime >= settle_s

    return condition


def read_marks(marks_dir: Path) -> dict[str, Any]:
    """All marks in a folder, by name."""
    return {path.stem: json.loads(path.read_text()) for path in marks_dir.glob("*.json")}


def tail(log: Path) -> str:
    """The last 3,000 characters of a log."""
    return log.read_text(errors="replace")[-3000:]


def _describe(process: psutil.Process) -> str:
    try:
        words = process.cmdline()
    except psutil.AccessDenied:
        return process.name()
    return " ".join(words[:6]) or process.name()


def _note_peak(outcome: Outcome, sizes: dict[int, tuple[str, int]]) -> None:
    total = sum(size for _, size in sizes.values())
    if total <= outcome.peak_bytes:
        return
    outcome.peak_bytes = total
    outcome.peak_daemon_bytes = sum(
        size for name, size in sizes.values() if any(word in name for word in RAY_DAEMONS)
    )
