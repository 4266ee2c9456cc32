"""`python -m benchmarks.run`: our jobs and the peers' in one session, alternating.

A suite that consists of programs (see benchmarks/README.md) gets all further options, and refuses those that
it does not know.
"""

from __future__ import annotations

import argparse
import compileall
import signal
import sys
import sysconfig
import time
from pathlib import Path

from . import environments, parts, plan, session, suites, summary, systems
from .expected import WrongResultError
from .launch import RunError
from .measurement import Bench

RESULTS = systems.ROOT / "benchmarks" / "results"
ROUNDS = 3
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Runs a session; the exit status is 1 if any run failed or gave a wrong answer."""
    suite, others = suites.named(sys.argv[1:] if arguments is None else arguments)
    if suite in suites.PARTS:
        parts.run(suite, suites.PARTS[suite], others)
        return 0
    parser = parser_of(suite)
    options = parser.parse_args(others)
    try:
        ours = session_of(suite, options)
        if not ours.cases:
            parser.error("no case fits --workload and --only")
        prepare(ours.cases)
    except (environments.SetupError, session.ResumeError) as error:
        parser.error(str(error))
    # Also behind `timeout`, or in the background: what runs is ended, and what is done is kept.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        run_pending(Bench(environments.cache_dir() / "runs", ours.share), ours)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with --resume {ours.path}")
        return INTERRUPTED
    finally:
        print("\n" + summary.tables(ours.rows()))
        print(f"\nwritten to {ours.path}")
        for failure in ours.failures:
            print(f"FAILED {failure.splitlines()[0]}")
    return 1 if ours.failures else 0


def parser_of(suite: str) -> argparse.ArgumentParser:
    """The command line of a suite that has cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__, allow_abbrev=False)
    names = ", ".join(suites.names())
    parser.add_argument("--suite", help=f"here: {suite}; there are {names}; default: main")
    parser.add_argument("--workload", help="such as W1,W3, or titles; default: all")
    parser.add_argument("--rounds", type=int, help=f"runs of each system; default: {ROUNDS}")
    parser.add_argument("--only", help="programs such as tidegate,bare; default: all")
    parser.add_argument("--share", type=float, help="of the records, such as 0.01 for a smoke test")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="do what is left of an interrupted session, as it began"
    )
    return parser


def session_of(suite: str, options: argparse.Namespace) -> session.Session:
    """The session that was asked for, a new one or what is left of an old one.

    Raises:
        session.ResumeError: the old one is none, or other options came with it.
    """
    if options.resume is None:
        return session.begin(
            RESULTS,
            suite,
            ROUNDS if options.rounds is None else options.rounds,
            suites.share_of(suite) if options.share is None else options.share,
            _words(options.workload),
            _words(options.only),
        )
    given = (options.workload, options.rounds, options.only, options.share)
    if any(option is not None for option in given):
        raise session.ResumeError("a resumed session keeps its options: give --resume alone")
    return session.resume(options.resume)


def prepare(cases: list[plan.Case]) -> None:
    """Installs the peers, and compiles ours as theirs are, before anything is measured."""
    compile_ours()
    for program in systems.PEER_PROGRAMS:
        if any(case.program == program for case in cases):
            environments.ensure(program)


def compile_ours() -> None:
    """Writes the bytecode that installed packages have: of ours, and of all that it stands on.

    `make dev` leaves that to Python. Where PYTHONDONTWRITEBYTECODE is set each process would compile all
    modules anew: half a second of CPU for ours, and a whole one for Ray.
    """
    for marker in systems.ROOT.glob("*/__init__.py"):
        compileall.compile_dir(marker.parent, quiet=1)
    compileall.compile_file(systems.ROOT / "__init__.py", quiet=1)
    # Some packages hold templates that are no Python, and say so in vain.
    compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0)


def run_pending(bench: Bench, ours: session.Session) -> None:
    """Runs what is left of a session, round by round. A failure is reported and does not end it."""
    before = session.took_before(RESULTS)
    pending = ours.pending()
    expected = [session.expected_s(case, ours.share, before) for _, case in pending]
    print(f"{len(pending)} runs in {ours.rounds} rounds, about {_minutes(sum(expected))}", flush=True)
    started = time.monotonic()
    for place, (number, case) in enumerate(pending):
        run = measured(bench, number, case)
        ours.runs.append(run)
        ours.save()
        # What has taken twice as long as expected so far will go on like that.
        pace = (time.monotonic() - started) / sum(expected[: place + 1])
        left = f"{place + 1}/{len(pending)}, {_minutes(pace * sum(expected[place + 1 :]))} left"
        print(f"{run.name}: {_outcome(case, run)} [{run.took_s:.0f} s; {left}]", flush=True)
    print(f"took {_minutes(time.monotonic() - started)}")


def measured(bench: Bench, round_number: int, case: plan.Case) -> session.Run:
    """One run, with its figure or with why there is none."""
    started = time.monotonic()
    figure, failure = None, ""
    try:
        figure = bench.measure(case, round_number)
    except (RunError, WrongResultError) as error:
        failure = f"{type(error).__name__}: {error}"
    return session.Run(round_number, case.title, case.system, time.monotonic() - started, figure, failure)


def _outcome(case: plan.Case, run: session.Run) -> str:
    if run.figure is None:
        return f"FAILED: {run.failure}"
    notes = ", ".join(f"{key} {value}" for key, value in run.figure.notes.items())
    return f"{run.figure.metrics[case.main_metric]:,.1f} {case.unit} {notes}".rstrip()


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


if __name__ == "__main__":
    sys.exit(main())
