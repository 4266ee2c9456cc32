"""`python -m benchmarks.run`: our jobs and the peers' in one session, alternating."""

from __future__ import annotations

import argparse
import sys
import time

from . import environments, plan, summary, systems
from .expected import WrongResultError
from .launch import RunError
from .measurement import Bench, Figure


def main(arguments: list[str] | None = None) -> int:
    """Runs a session; the exit status is 1 if any run failed or gave a wrong answer."""
    options = parse(arguments)
    cases = plan.select(options.suite, _words(options.workload), _words(options.only))
    if not cases:
        sys.exit("no case fits --workload and --only")
    try:
        prepare(cases)
    except environments.SetupError as error:
        sys.exit(str(error))
    bench = Bench(environments.cache_dir() / "runs", options.suite)
    started = time.monotonic()
    figures, failures = run_rounds(bench, cases, options.rounds)
    rows = [
        summary.row(case, plan.records_for(case, options.suite), figures[case])
        for case in cases
        if figures[case]
    ]
    print("\n" + summary.tables(rows))
    results = systems.ROOT / "benchmarks" / "results"
    path = summary.write_json(results, options.suite, rows, failures)
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes; written to {path}")
    for failure in failures:
        print(f"FAILED {failure.splitlines()[0]}")
    return 1 if failures else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--suite", choices=("quick", "main"), default="main")
    parser.add_argument("--workload", default="", help="such as W1,W3; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each system; default: 3")
    parser.add_argument("--only", default="", help="programs such as tidegate,bare; default: all")
    return parser.parse_args(arguments)


def prepare(cases: list[plan.Case]) -> None:
    """Installs the peers before anything is measured."""
    for program in systems.PEER_PROGRAMS:
        if any(case.program == program for case in cases):
            environments.ensure(program)


def run_rounds(
    bench: Bench, cases: list[plan.Case], rounds: int
) -> tuple[dict[plan.Case, list[Figure]], list[str]]:
    """Runs all systems once per round. A failure is reported and does not end the session."""
    figures: dict[plan.Case, list[Figure]] = {case: [] for case in cases}
    failures: list[str] = []
    for round_number in range(1, rounds + 1):
        for case in cases:
            name = f"round {round_number} {case.title} {case.system}"
            try:
                figure = bench.measure(case, round_number)
            except (RunError, WrongResultError) as error:
                failures.append(f"{name}: {error}")
                print(f"{name}: FAILED: {error}", flush=True)
                continue
            figures[case].append(figure)
            unit = summary.UNITS.get(case.workload, "k/s")
            print(f"{name}: {figure.value:,.1f} {unit} {figure.notes or ''}", flush=True)
    return figures, failures


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    sys.exit(main())
