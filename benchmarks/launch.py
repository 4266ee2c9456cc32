"""Starts one program, watches its process tree and ends it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .processes import Memory, ProcessTree, Samples
from .systems import ROOT

# Looking at the CPU time of every process costs some milliseconds of a core, at their memory ten times that.
SAMPLE_PAUSE_S = 0.2
MEMORY_PAUSE_S = 2.0


class RunError(Exception):
    """A run did not end as it should; the message holds the end of its log."""


@dataclass
class Outcome:
    """What one process tree did.

    Attributes:
        started_ns: monotonic time just before the process was started.
        pid: of that process.
        marks: what the program left in its marks folder, by name.
        cpu: samples of each process's CPU time by process id, without Ray's own processes.
        memory: samples of the tree's memory, in order.
        timed_out: the time limit ended the run.
    """

    started_ns: int
    pid: int
    marks: dict[str, Any] = field(default_factory=dict)
    cpu: dict[int, Samples] = field(default_factory=dict)
    memory: list[Memory] = field(default_factory=list)
    timed_out: bool = False

    def peak(self) -> Memory:
        """The sample with the most memory."""
        return max(self.memory, key=lambda sample: sample.bytes)


@dataclass
class _MemoryWatch:
    """Looks at memory every other second, and as soon as the program has left one more mark.

    When it leaves its last it still has everything, and a moment later nothing.
    """

    tree: ProcessTree
    marks_dir: Path
    samples: list[Memory] = field(default_factory=list)
    _marks: int = 0
    _next_s: float = 0.0

    def look(self) -> None:
        """A sample, if it is time for one."""
        marks = len(list(self.marks_dir.glob("*.json")))
        if marks == self._marks and time.monotonic() < self._next_s:
            return
        self._marks = marks
        self.samples.append(self.tree.memory())
        self._next_s = time.monotonic() + MEMORY_PAUSE_S


def run(
    command: list[str],
    variables: dict[str, str],
    marks_dir: Path,
    log: Path,
    limit_s: float,
    finished: Callable[[], bool] = lambda: False,
    beside: int | None = None,
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
        beside: a process whose tree is measured too, and not ended.

    Raises:
        RunError: the program ended by itself with an error.
    """
    with log.open("wb") as output:
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(command, env=variables, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    outcome = Outcome(started_ns, process.pid)
    tree = ProcessTree([psutil.Process(process.pid)])
    watched = tree if beside is None else ProcessTree([*tree.roots, psutil.Process(beside)])
    memory = _MemoryWatch(watched, marks_dir)
    ended_here = False
    try:
        while process.poll() is None:
            watched.sample_cpu()
            memory.look()
            outcome.timed_out = time.monotonic_ns() - started_ns > limit_s * 1e9
            ended_here = outcome.timed_out or finished()
            if ended_here:
                break
            time.sleep(SAMPLE_PAUSE_S)
    finally:
        # Also when the session is interrupted: nothing of it may go on beside the next one.
        tree.kill()
    outcome.cpu, outcome.memory = watched.cpu(), memory.samples
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
