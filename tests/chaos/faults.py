"""What chaos does to a running job, each fault with the sign by which it is seen to be over."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import TypeVar

import ray
from ray.exceptions import RayError
from tidegate.actors.deployment import NAMESPACE, coordinator_name
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.job_report import JobReport
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.state.storage.stored_checkpoint import read_checkpoint

from .connections import cut_connections
from .job import ChaosJob

T = TypeVar("T")
DEADLINE_S = 180
DISK_BYTES = 32 << 20


class ChaosError(Exception):
    """Something that had to happen did not, or the other way round."""


class Watched:
    """A running job."""

    def __init__(self, client: JobClient) -> None:
        self.client = client

    def eventually(self, what: str, question: Callable[[JobReport], T]) -> T:
        """Ask until the answer is true; the job must not end meanwhile."""
        end_s = time.monotonic() + DEADLINE_S
        while True:
            report = self.client.report()
            answer = question(report)
            if answer:
                return answer
            if report.status.is_globally_terminal_state():
                raise ChaosError(f"waiting for {what}, the job ended as {report.status.name}: {report.cause}")
            if time.monotonic() > end_s:
                raise ChaosError(f"no {what} within {DEADLINE_S} s; the job is {report.status.name}")
            self.client.wait(0.05)

    def await_checkpoint(self) -> None:
        """Wait until the job runs and has completed a checkpoint that was triggered after now."""
        now_ms = time.time_ns() // 1_000_000
        self.eventually(
            "checkpoint",
            lambda report: (
                report.status is JobStatus.RUNNING
                and any(
                    one.triggered_ms > now_ms and one.outcome is CheckpointOutcome.COMPLETED
                    for one in report.statistics.checkpoints
                )
            ),
        )


class Target(Watched):
    """A job that is put through chaos, and what is known of it.

    Args:
        client: The job.
        job: What it was started from.
        disk: The small disk that holds its checkpoints, `None` where none could be mounted.
    """

    def __init__(
        self, client: JobClient, job: ChaosJob, chance: random.Random, disk: SmallDisk | None
    ) -> None:
        super().__init__(client)
        self.job = job
        self.chance = chance
        self.disk = disk
        self.connections_cut = 0

    def replaced(self, pid: int) -> None:
        """Wait until a task process is none of the job any more."""
        self.eventually("replacement", lambda _: pid not in self.client.processes().values())

    def task(self) -> tuple[str, int]:
        """One of the task processes, at random."""
        processes = self.eventually("processes", lambda _: self.client.processes())
        return self.chance.choice(sorted(processes.items()))

    def coordinator_pid(self) -> int:
        """The process of the coordinator; waits for one that is being restarted."""

        def ask(_: JobReport) -> int:
            with contextlib.suppress(RayError, ValueError):
                actor = ray.get_actor(coordinator_name(self.client.get_job_id()), namespace=NAMESPACE)
                pid: int = ray.get(actor.__ray_call__.remote(lambda actor: os.getpid()))
                return pid
            return 0

        return self.eventually("coordinator", ask)


Fault = Callable[[Target], str]
"""Does something, waits until the job has got over it, and says what it did."""


def kill_task(target: Target) -> str:
    """SIGKILL of a task process."""
    name, pid = target.task()
    os.kill(pid, signal.SIGKILL)
    target.replaced(pid)
    return f"SIGKILL of {name}"


def kill_coordinator(target: Target) -> str:
    """SIGKILL of the coordinator, which takes its tasks along."""
    pid = target.coordinator_pid()
    os.kill(pid, signal.SIGKILL)
    target.eventually("new coordinator", lambda _: target.coordinator_pid() != pid)
    return "SIGKILL of the coordinator"


def stop_task(target: Target) -> str:
    """SIGSTOP of a task process for longer than the heartbeat; it is woken when it has been replaced."""
    name, pid = target.task()
    os.kill(pid, signal.SIGSTOP)
    target.replaced(pid)
    # Ray may have removed it already.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    return f"SIGSTOP of {name} until it was replaced"


def cut_task(target: Target) -> str:
    """The direct connections of a task process break; they are opened again."""

    def cut(_: JobReport) -> tuple[str, int] | None:
        name, pid = target.task()
        count = cut_connections(pid)
        return (name, count) if count else None

    name, count = target.eventually("connections", cut)
    target.connections_cut += count
    return f"{count} connections of {name} cut"


def kill_executor(target: Target) -> str:
    """SIGKILL of the Spark executor that ran the last epoch."""
    file = target.job.executor_file
    pid = target.eventually("epoch in Spark", lambda _: file.exists() and file.read_text())
    os.kill(int(pid), signal.SIGKILL)
    target.eventually("epoch in another executor", lambda _: file.read_text() != pid)
    return "SIGKILL of the Spark executor"


def fill_disk(target: Target) -> str:
    """The disk of the checkpoints is full until a checkpoint was aborted."""
    assert target.disk is not None
    moment_ms = _now_ms()
    target.disk.fill()
    try:
        reason = target.eventually("aborted checkpoint", lambda report: _aborted_after(report, moment_ms))
    finally:
        target.disk.free()
    return f"full disk ({reason})"


def _aborted_after(report: JobReport, moment_ms: int) -> str:
    aborted = [
        one.reason.partition(":")[0]
        for one in report.statistics.checkpoints
        if one.triggered_ms > moment_ms and one.outcome is CheckpointOutcome.ABORTED
    ]
    return aborted[0] if aborted else ""


class SmallDisk:
    """A tmpfs of a few megabytes.

    Raises:
        PermissionError: This user may not mount one.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)
        if mounted.returncode:
            raise PermissionError(mounted.stderr.strip())
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with open(self._ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink()

    def unmount(self) -> None:
        """Give the memory back; a process that is about to end may still hold a file."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


# ---------------------------------------------------------------- damage


def damage_state(target: Target) -> tuple[str, str]:
    """Take a task down and flip a bit of the newest checkpoint's state before it is restored.

    Returns:
        The address of the newest older checkpoint, which is whole, and the path of the damaged file.
    """
    target.eventually("checkpoints", lambda _: len(checkpoints_in(target.job.checkpoints)) > 2)
    _, pid = target.task()
    os.kill(pid, signal.SIGKILL)
    target.eventually("failure", lambda report: report.status is JobStatus.RESTARTING)
    older, newest = checkpoints_in(target.job.checkpoints)[-2:]
    files = sorted(_stored_files(newest) - _stored_files(older))
    path = target.chance.choice(files)
    _flip_a_bit(Path(path), target.chance)
    return older, path


def damage_manifest(target: Target) -> tuple[str, str]:
    """Flip a bit of the newest manifest and take the coordinator down, so that the next one reads it.

    Returns:
        As `damage_state` does.
    """
    target.eventually("checkpoints", lambda _: len(checkpoints_in(target.job.checkpoints)) > 2)
    pid = target.coordinator_pid()
    # While it stands still, no other checkpoint completes and no other coordinator starts.
    os.kill(pid, signal.SIGSTOP)
    _await_stopped(pid)
    older, newest = checkpoints_in(target.job.checkpoints)[-2:]
    path = f"{newest}/MANIFEST"
    _flip_a_bit(Path(path), target.chance)
    os.kill(pid, signal.SIGKILL)
    return older, path


def _await_stopped(pid: int) -> None:
    """Wait until all threads of a process are stopped, which is soon."""
    end_s = time.monotonic() + DEADLINE_S
    states = [""]
    while set(states) != {"T"}:
        if time.monotonic() > end_s:
            raise ChaosError(f"the threads of process {pid} are not stopped, but {states}")
        states = [_state_of(path) for path in Path(f"/proc/{pid}/task").iterdir()]


def _state_of(thread: Path) -> str:
    """The state of a thread; as of a stopped one if it has ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"


def checkpoints_in(directory: Path) -> list[str]:
    """Addresses of the complete checkpoints of one job, oldest first."""
    # `Path.glob` fails for a directory that the job deletes meanwhile.
    paths = map(Path, glob(f"{directory}/*/chk-*/MANIFEST"))
    found = {int(path.parent.name[4:]): str(path.parent) for path in paths}
    return [found[number] for number in sorted(found)]


def _stored_files(address: str) -> set[str]:
    return {file.path for file in read_checkpoint(address).files() if not file.is_inline}


def _flip_a_bit(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def describe(error: BaseException) -> str:
    """One line of an error."""
    return str(error).partition("\n")[0] or type(error).__name__


FAULTS: dict[str, Fault] = {
    "kill-task": kill_task,
    "kill-coordinator": kill_coordinator,
    "stop-task": stop_task,
    "cut-connections": cut_task,
    "full-disk": fill_disk,
    "kill-executor": kill_executor,
}
"""The faults that a job gets over, by name."""

Damage = Callable[[Target], tuple[str, str]]
DAMAGES: tuple[Damage, ...] = (damage_state, damage_manifest)
"""Damage to the newest checkpoint, which ends a job."""
