"""Kills processes of a job with a Spark stage in each phase of an epoch, and compares the output."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
from tidegate.common.errors import TidegateError

from .faults import ChaosError, describe
from .stage_job import SHARE, StageJob
from .stage_phases import PHASES, PROCESSES, StageTarget

KILLED_S = 30
EXACT = "exact"

Cell = tuple[str, str]
"""A phase, and the process that is killed in it."""
CELLS: tuple[Cell, ...] = tuple((phase, process) for phase in PHASES for process in PROCESSES)


@dataclass(frozen=True)
class Kill:
    """One kill and what became of the output.

    Attributes:
        cell: What was killed when; the end of the input has none.
        name: What the process was.
        restarts: How often the job restarted since the kill.
        took_s: Time from the kill until all that was given to the job before was in its output.
        outcome: `exact`, or what was wrong.
    """

    cell: Cell | None
    name: str
    restarts: int
    took_s: float
    outcome: str

    def __str__(self) -> str:
        phase = "the end of the input" if self.cell is None else f"{self.cell[0]:11} {self.name}"
        return f"{phase:30} {self.took_s:6.1f} s {self.restarts:>2} restarts  {self.outcome}"


def kills(directory: Path, number: int, cells: Sequence[Cell]) -> Iterator[Kill]:
    """Run one job, and kill a process of it for each cell, in this order.

    The job ends with the first wrong output, and at the end all of it is compared.

    Args:
        directory: For all of its files.
        number: Of the job. It decides which of several processes of a kind is killed; in every second job
            barriers overtake records.
    """
    job = StageJob(directory, is_unaligned=number % 2 == 1)
    with closing(job.start()) as client:
        target = StageTarget(client, job)
        for cell in cells:
            done = _kill(target, cell, number)
            yield done
            if done.outcome != EXACT:
                return
        yield _end(target)


def _kill(target: StageTarget, cell: Cell, number: int) -> Kill:
    phase, process = cell
    name, restarts, began_s = process, 0, time.monotonic()
    try:
        target.await_checkpoint()
        PHASES[phase](target)
        name, pid = PROCESSES[process](target, number)
        restarts = target.client.report().restarts
        began_s = time.monotonic()
        _sigkill(pid)
        outcome = _outcome(target)
        restarts = target.client.report().restarts - restarts
    except (ChaosError, TidegateError, psutil.Error) as error:
        outcome = describe(error)
    finally:
        target.job.holds.release()
    return Kill(cell, name, restarts, time.monotonic() - began_s, outcome)


def _sigkill(pid: int) -> None:
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGKILL)
    process.wait(KILLED_S)


def _outcome(target: StageTarget) -> str:
    """Wait for all numbers that were given before, and compare."""
    job, numbers = target.job, target.job.numbers
    job.holds.release()
    # Only a full epoch ends. After these, none of the numbers before them is in one that is not full.
    job.feed(2 * SHARE)
    target.eventually(f"output of {numbers} numbers", lambda _: job.output.has_all_below(numbers))
    return job.output.faults(numbers) or EXACT


def _end(target: StageTarget) -> Kill:
    began_s, restarts = time.monotonic(), target.client.report().restarts
    try:
        target.job.end()
        restarts = target.client.result().report.restarts - restarts
        outcome = target.job.output.faults(target.job.numbers) or EXACT
    except TidegateError as error:
        outcome = describe(error)
    return Kill(None, "", restarts, time.monotonic() - began_s, outcome)


def sweeps(root: Path, times: int, chance: random.Random) -> list[Kill]:
    """Kill each process `times` times in each phase, in another order in each job; prints what happened."""
    done: list[Kill] = []
    try:
        for number in range(times):
            _sweep(root, number, chance, done)
    finally:
        # Also after Ctrl-C.
        print("\n".join(["", *table(done)]), flush=True)
    return done


def _sweep(root: Path, number: int, chance: random.Random, done: list[Kill]) -> None:
    left = list(CELLS)
    chance.shuffle(left)
    job = 0
    while left:
        job += 1
        cell: Cell | None = None
        for kill in kills(root / f"{number}-{job}", number, left):
            print(f"{number + 1:>3} {kill}", flush=True)
            done.append(kill)
            cell = kill.cell
        # What follows a wrong output is done in a new job.
        left = left[left.index(cell) + 1 :] if cell is not None else []


def table(done: Sequence[Kill]) -> Iterator[str]:
    """Phases in rows and processes in columns: how many of the kills were followed by exact output."""
    yield f"{'':11}" + "".join(f"{process:>12}" for process in PROCESSES)
    for phase in PHASES:
        cells = [[kill for kill in done if kill.cell == (phase, process)] for process in PROCESSES]
        counts = (f"{sum(kill.outcome == EXACT for kill in cell)} of {len(cell)}" for cell in cells)
        yield f"{phase:11}" + "".join(f"{count:>12}" for count in counts)
    right = sum(kill.outcome == EXACT for kill in done)
    ends = sum(kill.cell is None for kill in done)
    yield f"{right} of {len(done)} comparisons of the output exact, of which {ends} at the end of a job"
