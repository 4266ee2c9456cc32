"""One session: what it runs, what is done, and its file, which is written again after each run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import plan, summary
from .measurement import Figure
from .metrics import UNITS
from .suites import SUITES

# Of a run that no kept session has: Python or a JVM starts, the source runs for some ten seconds.
UNKNOWN_RUN_S = 20.0


class ResumeError(Exception):
    """A file is not a session that can be resumed; the message says why."""


@dataclass(frozen=True)
class Run:
    """One case in one round.

    Attributes:
        took_s: with the start and the end of its processes, and with W5's fill.
        figure: None if it failed.
        failure: why it did.
    """

    round_number: int
    title: str
    system: str
    took_s: float
    figure: Figure | None = None
    failure: str = ""

    @property
    def name(self) -> str:
        """What the console calls it."""
        return f"round {self.round_number} {self.title} {self.system}"


@dataclass
class Session:
    """What `python -m benchmarks.run` was asked for, and how far it is.

    Attributes:
        suite: a name in `SUITES`.
        rounds: runs of each case.
        share: of the records.
        workloads, only: as `plan.select` takes them.
        path: its file.
        date: when it began, in ISO 8601.
        machine: what it runs on, and how busy that was before the first run.
        runs: those that are done, in order.
    """

    suite: str
    rounds: int
    share: float
    workloads: list[str]
    only: list[str]
    path: Path
    date: str
    machine: dict[str, Any]
    runs: list[Run] = field(default_factory=list)

    @property
    def cases(self) -> list[plan.Case]:
        """What takes its turn in each round."""
        return plan.select(SUITES[self.suite], self.workloads, self.only)

    @property
    def failures(self) -> list[str]:
        """Runs that failed or gave a wrong answer."""
        return [f"{run.name}: {run.failure}" for run in self.runs if run.failure]

    def pending(self) -> list[tuple[int, plan.Case]]:
        """What is still to be run: rounds and cases."""
        done = {(run.round_number, run.title, run.system) for run in self.runs}
        return [
            (number, case)
            for number in range(1, self.rounds + 1)
            for case in self.cases
            if (number, case.title, case.system) not in done
        ]

    def rows(self) -> list[summary.Row]:
        """The cases that have figures."""
        return list(self._rows())

    def _rows(self) -> Iterator[summary.Row]:
        for case in self.cases:
            runs = [run for run in self.runs if (run.title, run.system) == (case.title, case.system)]
            figures = [run.figure for run in runs if run.figure is not None]
            if figures:
                yield summary.row(case, plan.records_for(case, self.share), figures)

    def save(self) -> None:
        """Writes the file at once or not at all, so that a reader never sees half of it."""
        rows = self.rows()
        found = {
            "date": self.date,
            "suite": self.suite,
            "rounds": self.rounds,
            "share": self.share,
            "workloads": self.workloads,
            "only": self.only,
            "machine": self.machine,
            **summary.findings(rows),
            "failures": self.failures,
            "pending": len(self.pending()),
            "runs": [asdict(run) for run in self.runs],
        }
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(found, indent=1))
        draft.replace(self.path)


def begin(
    folder: Path, suite: str, rounds: int, share: float, workloads: list[str], only: list[str]
) -> Session:
    """A session that begins now, with a file of its own in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(timezone.utc)
    path = folder / f"{now:%Y-%m-%dT%H-%M-%S}-{suite}.json"
    date = now.isoformat(timespec="seconds")
    return Session(suite, rounds, share, workloads, only, path, date, summary.machine())


def resume(path: Path) -> Session:
    """A session as its file has it.

    Raises:
        ResumeError: the file is not there, or an older harness wrote it.
    """
    try:
        kept = json.loads(path.read_text())
        runs = [_run(one) for one in kept["runs"]]
        if unknown := {name for run in runs if run.figure for name in run.figure.metrics} - set(UNITS):
            raise ResumeError(f"cannot resume {path}: an older harness measured {', '.join(sorted(unknown))}")
        names = ("suite", "rounds", "share", "workloads", "only", "date", "machine")
        return Session(**{name: kept[name] for name in names}, path=path, runs=runs)
    except OSError as error:
        raise ResumeError(f"cannot resume {path}: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise ResumeError(f"cannot resume {path}: it lacks the runs of a session ({error!r})") from error


def _run(kept: dict[str, Any]) -> Run:
    figure = kept["figure"]
    return Run(**kept | {"figure": None if figure is None else Figure(**figure)})


def took_before(folder: Path) -> dict[tuple[str, str, float], float]:
    """How long runs took in kept sessions, the newest of each: by title, system and share of the records."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text())
        for run in kept.get("runs", ()):
            if run["figure"] is not None:
                found[run["title"], run["system"], kept["share"]] = run["took_s"]
    return found


def expected_s(case: plan.Case, share: float, before: dict[tuple[str, str, float], float]) -> float:
    """How long a run will take, from the last one of the same size, or else roughly."""
    paced_s = case.records * share / case.rate if case.workload == "W7" else 0.0
    return before.get((case.title, case.system, share), UNKNOWN_RUN_S + paced_s)
