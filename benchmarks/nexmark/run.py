"""`python -m benchmarks.nexmark.run`: Nexmark's queries on Tidegate and PyFlink, alternating, all checked."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from .. import environments, launch, summary, systems
from ..peers.measure import Orders
from . import answers, generator, source

HERE = Path(__file__).parent
QUERIES = tuple(answers.SQL)
GOAL = 10.0
"""Ours ÷ PyFlink's."""
RUN_LIMIT_S = 600.0
PEER_SHARE = 5
"""A peer gets this fraction of the events."""
RECORDS, COLUMNS, PYFLINK = "records", "columns", "pyflink"


@dataclass(frozen=True)
class Case:
    """One program on its share of the events."""

    query: str
    system: str
    events: int


@dataclass(frozen=True)
class Rate:
    """Thousand events per second.

    Attributes:
        wall_k: By the clock.
        cpu_k: Per second of processor time of the process that works, all its threads together; with
            PyFlink it is the JVM that Python is embedded in.
    """

    wall_k: float
    cpu_k: float

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.wall_k:,.1f} ({self.cpu_k:,.1f})"

    def over(self, other: Rate) -> Rate:
        """How many times the other's."""
        return Rate(self.wall_k / other.wall_k, self.cpu_k / other.cpu_k)


@dataclass(frozen=True)
class Rates:
    """What a case gave, round by round."""

    case: Case
    rounds: list[Rate]

    @property
    def median(self) -> Rate:
        """The median of each."""
        return Rate(
            statistics.median(rate.wall_k for rate in self.rounds),
            statistics.median(rate.cpu_k for rate in self.rounds),
        )


class Session:
    """Runs cases and checks what they gave.

    Args:
        scratch: For events, marks, results and logs.
        rate: Events in a second of event time.
    """

    def __init__(self, scratch: Path, rate: int) -> None:
        self._scratch = scratch
        self._rate = rate
        self._answers = cache(self._make_answers)
        self._queries = cache(lambda: translated(scratch))

    def rate(self, case: Case) -> Rate:
        """Run a case once.

        Raises:
            launch.RunError: The program failed.
            answers.WrongAnswerError: It gave a wrong answer.
        """
        folder = self._scratch / f"{case.query}-{case.system}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        right = self._answers(case.events)
        outcome = self._launch(case, folder)
        if outcome.timed_out or "end" not in outcome.marks:
            raise launch.RunError(f"no result:\n{launch.tail(folder / 'log.txt')}")
        # Flink drops windows by the clock that are under way when the input ends.
        right.check(case.query, pickle.loads((folder / "results.pickle").read_bytes()), case.query != "q12")
        shutil.rmtree(folder)
        start, end = outcome.marks["start"], outcome.marks["end"]
        wall_ns, cpu_ns = (end[clock] - start[clock] for clock in ("at_ns", "cpu_ns"))
        return Rate(case.events / wall_ns * 1e6, case.events / cpu_ns * 1e6)

    def _launch(self, case: Case, folder: Path) -> launch.Outcome:
        suffix = "arrow" if case.system == COLUMNS else "pickle"
        orders = Orders(
            workload=case.query,
            records=case.events,
            keys=0,
            marks_dir=str(folder),
            state_dir=str(folder),
            options={"events": str(source.path(self._events, self._config(case.events), suffix))},
        )
        argument = json.dumps(asdict(orders))
        if case.system == PYFLINK:
            variables = systems.environment("pyflink")
            variables["PYTHONPATH"] += f"{os.pathsep}{self._queries()}"
            command = [
                str(environments.ensure("pyflink")),
                str(systems.PEERS / "pyflink_nexmark.py"),
                argument,
            ]
        else:
            variables = systems.environment("tidegate")
            command = [sys.executable, "-m", "benchmarks.nexmark.job", argument]
        return launch.run(command, variables, folder, folder / "log.txt", RUN_LIMIT_S)

    @property
    def _events(self) -> Path:
        return self._scratch / "events"

    def _config(self, events: int) -> generator.Config:
        return generator.Config(events, self._rate)

    def _make_answers(self, events: int) -> answers.Answers:
        return answers.Answers(source.write(self._events, self._config(events)))


def translated(scratch: Path) -> Path:
    """The queries for PyFlink, as package `nexmark_queries` in a folder: nothing but imports differs."""
    package = scratch / "translated" / "nexmark_queries"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for path in (HERE / "queries").glob("*.py"):
        text = re.sub(r"^from tidegate\b", "from pyflink", path.read_text(), flags=re.MULTILINE)
        (package / path.name).write_text(text)
    return package.parent


def cases_of(queries: list[str], systems_: list[str], events: int, peer_events: int) -> list[Case]:
    """What a session runs; not every query has a program for columns."""
    return [
        Case(query, system, peer_events if system == PYFLINK else events)
        for query in queries
        for system in systems_
        if system != COLUMNS or (HERE / "columns" / f"{query}.py").exists()
    ]


def table(rates: list[Rates]) -> str:
    """A line for each query, in thousand events per second and, in brackets, per second of processor time."""
    lines = [
        f"| query | records | columns | PyFlink | records ÷ PyFlink | best ÷ PyFlink (goal {GOAL:g}) | |",
        "|---|---|---|---|---|---|---|",
    ]
    for query in dict.fromkeys(rate.case.query for rate in rates):
        medians = {rate.case.system: rate.median for rate in rates if rate.case.query == query}
        lines.append("| " + " | ".join([query, *_cells(medians)]) + " |")
    return "\n".join(lines)


def _cells(medians: dict[str, Rate]) -> list[str]:
    figures = [medians[name].text if name in medians else "" for name in (RECORDS, COLUMNS, PYFLINK)]
    ours = [medians[name] for name in (RECORDS, COLUMNS) if name in medians]
    if not ours or PYFLINK not in medians:
        return [*figures, "", "", ""]
    peer = medians[PYFLINK]
    same = medians[RECORDS].over(peer).text if RECORDS in medians else ""
    best = max(ours, key=lambda rate: rate.wall_k).over(peer)
    return [*figures, same, best.text, "met" if best.wall_k >= GOAL else "MISSED"]


def write_json(rates: list[Rates], failures: list[str]) -> Path:
    """Writes `results/nexmark-<UTC time>.json` and returns the path."""
    now = datetime.now(timezone.utc)
    session = {
        "date": now.isoformat(timespec="seconds"),
        "machine": summary.machine(),
        "unit": "thousand events per second",
        "rows": [asdict(rate) | {"median": asdict(rate.median)} for rate in rates],
        "failures": failures,
    }
    folder = systems.ROOT / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"nexmark-{now:%Y-%m-%dT%H-%M-%S}.json"
    path.write_text(json.dumps(session, indent=1))
    return path


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark.run", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="default: a million")
    parser.add_argument("--peer-events", type=int, help="PyFlink's; default: a fifth of ours")
    parser.add_argument("--rate", type=int, default=10_000, help="events in a second of event time")
    parser.add_argument("--queries", default=",".join(QUERIES), help="such as q0,q5; default: all")
    parser.add_argument("--only", default=f"{RECORDS},{COLUMNS}", help="programs; default: records,columns")
    parser.add_argument("--peer", choices=[PYFLINK], help="compare with PyFlink")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs a session; the exit status is 1 if any run failed or gave a wrong answer."""
    options = parse(arguments)
    programs = [*options.only.split(","), *([options.peer] if options.peer else [])]
    if options.peer:
        environments.ensure(options.peer)
    peer_events = options.peer_events or options.events // PEER_SHARE
    cases = cases_of(options.queries.split(","), programs, options.events, peer_events)
    session = Session(environments.cache_dir() / "nexmark", options.rate)
    rates, failures = run_rounds(session, cases, options.rounds)
    print(f"\n{table(rates)}\n\nwritten to {write_json(rates, failures)}")
    for failure in failures:
        print(f"FAILED {failure.splitlines()[0]}")
    return 1 if failures else 0


def run_rounds(session: Session, cases: list[Case], rounds: int) -> tuple[list[Rates], list[str]]:
    """Runs every case once per round. A failure is reported and does not end the session."""
    rates: dict[Case, list[Rate]] = {case: [] for case in cases}
    failures: list[str] = []
    for number in range(1, rounds + 1):
        for case in cases:
            name = f"round {number} {case.query} {case.system}"
            try:
                rates[case].append(session.rate(case))
            except (launch.RunError, answers.WrongAnswerError) as error:
                failures.append(f"{name}: {error}")
                print(f"{name}: FAILED: {error}", flush=True)
                continue
            print(f"{name}: {rates[case][-1].text} k/s", flush=True)
    return [Rates(case, values) for case, values in rates.items() if values], failures


if __name__ == "__main__":
    sys.exit(main())
