"""Rounds of chaos: a job, some faults, and the comparison of its output with what must come out."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.common.errors import JobExecutionError
from tidegate.common.failpoints import VARIABLE
from tidegate.coordinator.control.job_client import JobClient

from .faults import FAULTS, ChaosError, Damage, SmallDisk, Target, describe
from .job import ChaosJob

COUNT = 20_000
POINTS = (
    "restore", "process", "send", "receive", "snapshot_sync", "snapshot_async", "upload", "acknowledge",
    "before_manifest", "after_manifest", "notify", "commit_before", "commit_mid", "commit_after", "cleanup",
)  # fmt: skip


@dataclass
class Event:
    """One thing that was done, and how long the job needed to get over it."""

    what: str
    recovered_s: float | None = None


@dataclass
class Round:
    """What happened in one round, and whether the output was right."""

    name: str
    events: list[Event] = field(default_factory=list)
    attempts: set[int] = field(default_factory=set)
    """Those that were seen to run after a failure."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each fault was done, and how many connections were cut."""
    result: str = ""
    is_right: bool = False


def faults_round(
    directory: Path, chance: random.Random, names: Sequence[str], points: str, with_spark: bool = False
) -> Round:
    """Put a job through faults and fail points; every record must come out once."""
    outcome = Round("faults")
    needs_disk = "full-disk" in names
    with _small_disk(directory / "disk", needs_disk) as disk:
        checkpoints = disk.path / "checkpoints" if disk is not None else None
        job = ChaosJob(directory, COUNT, with_spark, checkpoints)
        with _armed(points):
            client = job.start()
        with closing(client):
            try:
                _work_through(Target(client, job, chance, disk), names, outcome)
                job.open_gate()
                report = client.result().report
                outcome.events += [Event(str(point)) for point in report.fail_points]
                _judge(outcome, *job.missing_and_doubled())
            except (ChaosError, JobExecutionError) as error:
                outcome.result = describe(error)
    return outcome


def _work_through(target: Target, names: Sequence[str], outcome: Round) -> None:
    target.await_checkpoint()
    for name in names:
        target.client.wait(target.chance.uniform(0.0, 1.0))
        started_s = time.monotonic()
        what = FAULTS[name](target)
        target.await_checkpoint()
        outcome.events.append(Event(what, time.monotonic() - started_s))
        outcome.done[name] += 1
        outcome.attempts |= {one.attempt for one in target.client.report().statistics.recoveries}
    outcome.done["connections"] = target.connections_cut


def damage_round(directory: Path, chance: random.Random, damage: Damage) -> Round:
    """Flip a bit of the newest checkpoint: a clear error, then an older one by explicit choice."""
    outcome = Round("damage")
    job = ChaosJob(directory, COUNT, options={"restart-strategy.fixed-delay.delay": "3 s"})
    try:
        with closing(job.start()) as client:
            older, path = damage(Target(client, job, chance, None))
            outcome.events.append(
                Event(f"a flipped bit in {os.path.basename(path)} of the newest checkpoint")
            )
            outcome.events.append(Event(f"error: {_damage_error(client, path)}"))
        # A person decides to go back, and so to write again what came after: it is at least once.
        again = ChaosJob(directory, COUNT, options={"execution.state-recovery.path": older})
        again.open_gate()
        with closing(again.start()) as client:
            client.result()
        missing, doubled = again.missing_and_doubled()
        outcome.is_right = missing == 0
        outcome.result = f"{missing} missing, {doubled} again since {older.rpartition('/')[2]}"
    except (ChaosError, JobExecutionError) as error:
        outcome.result = describe(error)
    return outcome


def _damage_error(client: JobClient, path: str) -> str:
    try:
        client.result()
    except JobExecutionError as error:
        cause = describe(error)
        if "is damaged" in cause and os.path.basename(path) in cause:
            return cause
        raise
    raise ChaosError(f"the job finished although {path} of its newest checkpoint was damaged")


def _judge(outcome: Round, missing: int, doubled: int) -> None:
    outcome.is_right = missing == doubled == 0
    outcome.result = "exact" if outcome.is_right else f"{missing} records missing, {doubled} too many"


@contextmanager
def _armed(points: str) -> Iterator[None]:
    os.environ[VARIABLE] = points
    try:
        yield
    finally:
        del os.environ[VARIABLE]


@contextmanager
def _small_disk(path: Path, is_needed: bool) -> Iterator[SmallDisk | None]:
    disk = SmallDisk(path) if is_needed else None
    try:
        yield disk
    finally:
        if disk is not None:
            disk.unmount()


def random_points(chance: random.Random, count: int, can_fill_disk: bool) -> str:
    """Fail points for one round; `enospc` stands in where no small disk can be mounted."""
    actions = ["kill", "raise"] if can_fill_disk else ["kill", "raise", "enospc"]
    names = chance.sample(POINTS, count)
    return ",".join(f"{name}:{chance.randint(1, 12)}:{chance.choice(actions)}" for name in names)
