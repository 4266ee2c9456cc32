"""What a tree of processes takes: the CPU time of each, and memory in which shared pages count once."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RAY_DAEMONS = (
    "raylet",
    "gcs_server",
    "dashboard",
    "log_monitor",
    "runtime_env",
    "autoscaler/_private/monitor.py",
    # A worker before it has a name, and one that nobody uses.
    "ray/_private/workers/",
    "ray::IDLE",
    "ray::DashboardAgent",
    "ray::RuntimeEnvAgent",
)
# Of one process: when it was looked at in ns, and its CPU seconds so far.
Samples = list[tuple[int, float]]


@dataclass(frozen=True)
class Memory:
    """What a tree held at one moment.

    Attributes:
        bytes: of all processes.
        ray_bytes: of those that are Ray's own.
    """

    bytes: int
    ray_bytes: int


@dataclass
class ProcessTree:
    """Processes and everything they ever started, as far as it was looked at in time.

    A member that has ended raises `NoSuchProcess` when it is looked at, and is passed over.

    Args:
        roots: the first of them.
    """

    roots: list[psutil.Process]
    _members: dict[int, psutil.Process] = field(default_factory=dict)
    _cpu: dict[int, Samples] = field(default_factory=dict)
    _jobs_own: set[int] = field(default_factory=set)

    def sample_cpu(self) -> None:
        """Looks at the CPU time of every member that lives."""
        for process in self._find():
            with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
                # A process of Ray's that becomes an actor of the job is the job's from then on, to its end.
                if not is_of_ray(describe(process)):
                    self._jobs_own.add(process.pid)
                times = process.cpu_times()
                spent = (time.monotonic_ns(), times.user + times.system)
                self._cpu.setdefault(process.pid, []).append(spent)

    def cpu(self) -> dict[int, Samples]:
        """The samples of all members so far, also of ended ones, by process id; without Ray's own."""
        return {pid: samples for pid, samples in self._cpu.items() if pid in self._jobs_own}

    def memory(self) -> Memory:
        """What all living members hold now."""
        sizes = self.sizes().values()
        ray_bytes = sum(size for description, size in sizes if is_of_ray(description))
        return Memory(sum(size for _, size in sizes), ray_bytes)

    def sizes(self) -> dict[int, tuple[str, int]]:
        """What each living member is, and what it holds now in bytes; by process id."""
        found = {}
        for process in self._find():
            with contextlib.suppress(psutil.NoSuchProcess):
                found[process.pid] = (describe(process), size_bytes(process))
        return found

    def kill(self) -> None:
        """Ends every member that still runs (psutil guards against reused pids)."""
        members = self._find()
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(members, timeout=10)

    def _find(self) -> list[psutil.Process]:
        for root in self.roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [root, *root.children(recursive=True)]:
                    self._members.setdefault(process.pid, process)
        return list(self._members.values())


def size_bytes(process: psutil.Process, proc: Path = Path("/proc")) -> int:
    """The memory of a process, of which a page that n processes share counts as an n-th.

    That is Linux's proportional set size. Where the kernel does not tell it, the resident size.

    Args:
        process: a living process.
        proc: where the kernel tells about processes.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    try:
        text = (proc / str(process.pid) / "smaps_rollup").read_text()
    except OSError:
        resident: int = process.memory_info().rss
        return resident
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def cpu_between(samples: Samples, from_ns: int, to_ns: int) -> float:
    """CPU seconds of one process between two moments, on straight lines between its samples."""

    def at(moment_ns: int) -> float:
        before: tuple[int, float] | None = None
        for sample in samples:
            if sample[0] >= moment_ns:
                if before is None:
                    # It had not started, or only just.
                    return sample[1] if sample[0] == moment_ns else 0.0
                share = (moment_ns - before[0]) / (sample[0] - before[0])
                return before[1] + share * (sample[1] - before[1])
            before = sample
        return before[1] if before is not None else 0.0

    return at(to_ns) - at(from_ns)


def is_of_ray(description: str) -> bool:
    """Whether a process, by the start of its command line, is one of Ray's own."""
    return any(word in description for word in RAY_DAEMONS)


def describe(process: psutil.Process) -> str:
    """The start of a process's command line."""
    try:
        words = process.cmdline()
    except psutil.AccessDenied:
        return process.name()
    return " ".join(words[:6]) or process.name()
