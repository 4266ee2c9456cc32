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

# Looking at every process costs some milliseconds of a core.
SAMPLE_PAUSE_S = 0.2
RAY_DAEMONS = ("raylet", "gcs_server", "dashboard", "log_monitor", "runtime_env", "ray::IDLE")


class RunError(Exception):
    """A run did not end as it should; the message holds the end of its log."""


@dataclass(frozen=True)
class Sample:
    """A process tree at one moment; Ray's own processes apart from the others.

    CPU times are those of all processes so far, also of ended ones.
    """

    at_ns: int
    bytes: int
    daemon_bytes: int
    cpu_s: float
    daemon_cpu_s: float


@dataclass
class Outcome:
    """What one process tree did.

    Attributes:
        started_ns: monotonic time just before the process was started.
        pid: of that process.
        marks: what the program left in its marks folder, by name.
        samples: its memory and CPU time, in order; shared pages count once per process, as in `ps`.
        timed_out: the time limit ended the run.
    """

    started_ns: int
    pid: int
    marks: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    timed_out: bool = False

    def peak(self) -> Sample:
        """The sample with the most memory."""
        return max(self.samples, key=lambda sample: sample.bytes)

    def cpu_s(self, from_ns: int, to_ns: int) -> float:
        """CPU seconds of all processes, without Ray's own, between two moments."""
        return cpu_between([(sample.at_ns, sample.cpu_s) for sample in self.samples], from_ns, to_ns)


def cpu_between(samples: list[tuple[int, float]], from_ns: int, to_ns: int) -> float:
    """CPU seconds between two moments, on straight lines between samples of (time in ns, CPU seconds)."""

    def at(moment_ns: int) -> float:
        before = (0, 0.0)
        for sample in samples:
            if sample[0] >= moment_ns:
                share = (moment_ns - before[0]) / (sample[0] - before[0])
                return before[1] + share * (sample[1] - before[1])
            before = sample
        return before[1]

    return at(to_ns) - at(from_ns)


@dataclass
class ProcessTree:
    """Processes and everything they ever started, as far as sampling saw it."""

    roots: list[psutil.Process]
    members: dict[int, psutil.Process] = field(default_factory=dict)
    _cpu_s: dict[int, tuple[bool, float]] = field(default_factory=dict)

    def sample(self) -> Sample:
        """Looks at every living member."""
        self._find()
        sizes = {True: 0, False: 0}
        for pid, process in self.members.items():
            # A member may end between two looks; it then has no size, and its last CPU time stays.
            with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
                name = _describe(process)
                is_daemon = any(word in name for word in RAY_DAEMONS)
                sizes[is_daemon] += process.memory_info().rss
                times = process.cpu_times()
                self._cpu_s[pid] = (is_daemon, times.user + times.system)
        cpu_s = {
            kind: sum(spent for is_daemon, spent in self._cpu_s.values() if is_daemon == kind)
            for kind in (True, False)
        }
        return Sample(time.monotonic_ns(), sizes[True] + sizes[False], sizes[True], cpu_s[False], cpu_s[True])

    def _find(self) -> None:
        for root in self.roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [root, *root.children(recursive=True)]:
                    self.members.setdefault(process.pid, process)

    def kill(self) -> None:
        """Ends every member that still runs (psutil guards against reused pids)."""
        self._find()
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
    ended_here = False
    try:
        while process.poll() is None:
            outcome.samples.append(watched.sample())
            outcome.timed_out = time.monotonic_ns() - started_ns > limit_s * 1e9
            ended_here = outcome.timed_out or finished()
            if ended_here:
                break
            time.sleep(SAMPLE_PAUSE_S)
    finally:
        # Also when the session is interrupted: nothing of it may go on beside the next one.
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
