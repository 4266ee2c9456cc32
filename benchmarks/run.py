"""`python -m benchmarks.run`: our jobs and the peers' in one session, alternating."""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
import time
from collections.abc import Callable

from . import environments, plan, report, suites, summary, systems
from .expected import WrongResultError
from .launch import RunError
from .measurement import Bench, Figure

RESULTS = systems.ROOT / "benchmarks" / "results"
Figures = dict[plan.Case, list[Figure]]


def main(arguments: list[str] | None = None) -> int:
    """Runs a session; the exit status is 1 if any run failed or gave a wrong answer."""
    options = parse(arguments)
    if options.suite in suites.PROGRAMS:
        return subprocess.run([sys.executable, "-m", *suites.PROGRAMS[options.suite]], check=False).returncode
    cases = plan.select(suites.SUITES[options.suite], _words(options.workload), _words(options.only))
    if not cases:
        sys.exit("no case fits --workload and --only")
    try:
        prepare(cases)
    except environments.SetupError as error:
        sys.exit(str(error))
    share = options.share or suites.share_of(options.suite)
    bench = Bench(environments.cache_dir() / "runs", share)
    started = time.monotonic()
    path = summary.new_file(RESULTS, options.suite)

    def keep(figures: Figures, failures: list[str]) -> list[summary.Row]:
        rows = [
            summary.row(case, plan.records_for(case, share), figures[case]) for case in cases if figures[case]
        ]
        summary.write_json(path, summary.session(options.suite, options.rounds, rows, failures))
        return rows

    figures, failures = run_rounds(bench, cases, options.rounds, keep)
    print("\n" + summary.tables(keep(figures, failures)))
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes; written to {path}")
    print(f"pictures: {report.write(RESULTS)}")
    for failure in failures:
        print(f"FAILED {failure.splitlines()[0]}")
    return 1 if failures else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--suite", choices=sorted({*suites.SUITES, *suites.PROGRAMS}), default="main")
    parser.add_argument("--workload", default="", help="such as W1,W3, or titles; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each system; default: 3")
    parser.add_argument("--only", default="", help="programs such as tidegate,bare; default: all")
    parser.add_argument("--share", type=float, help="of the records, such as 0.01 for a smoke test")
    return parser.parse_args(arguments)


def prepare(cases: list[plan.Case]) -> None:
    """Installs the peers, and compiles ours as theirs are, before anything is measured."""
    compile_ours()
    for program in systems.PEER_PROGRAMS:
        if any(case.program == program for case in cases):
            environments.ensure(program)


def compile_ours() -> None:
    """Writes the bytecode that an installed package has.

    Where PYTHONDONTWRITEBYTECODE is set each process would compile all modules anew: half a second of CPU.
    """
    for marker in systems.ROOT.glob("*/__init__.py"):
        compileall.compile_dir(marker.parent, quiet=1)
    compileall.compile_file(systems.ROOT / "__init__.py", quiet=1)


def run_rounds(
    bench: Bench,
    cases: list[plan.Case],
    rounds: int,
    after_round: Callable[[Figures, list[str]], object],
) -> tuple[Figures, list[str]]:
    """Runs all systems once per round. A failure is reported and does not end the session.

    Args:
        after_round: is given what there is after each round, so that an interrupted session is not lost.
    """
    figures: Figures = {case: [] for case in cases}
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
            value = figure.metrics[case.main_metric]
            print(f"{name}: {value:,.1f} {case.unit} {figure.notes or ''}", flush=True)
        after_round(figures, failures)
    return figures, failures


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    sys.exit(main())
