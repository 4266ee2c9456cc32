"""Suites whose parts are programs: each part prints rows, and `run` collects them."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

_MET = {True: "met", False: "MISSED", None: ""}


def row(goal: str, measured: str, met: bool | None) -> None:
    """One line of the table, for the process that collects them; `met` is None where there is no goal."""
    print(json.dumps({"goal": goal, "measured": measured, "met": met}), flush=True)


def compare(
    what: str,
    beside: str,
    records: int,
    ours: Callable[[], None],
    bare: Callable[[], None],
    goal: float | None = None,
    rounds: int = 5,
) -> float:
    """Run both in turns, and print a row with their median rates and the ratio, by the clock.

    The row also has the CPU time of this process, which other work on the machine disturbs less.

    Args:
        what: What ours does.
        beside: What it is compared with.
        records: How many each of them handles.
        ours: Does it.
        bare: Does it with the bare library.
        goal: The least ratio, if there is a goal.
        rounds: Runs of each.

    Returns:
        Our records per second.
    """
    by_clock: tuple[list[float], list[float]] = ([], [])
    by_cpu: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for place, work in enumerate((ours, bare)):
            started, cpu_started = time.perf_counter(), time.process_time()
            work()
            by_clock[place].append(time.perf_counter() - started)
            by_cpu[place].append(time.process_time() - cpu_started)
    our_rate, bare_rate = (records / statistics.median(seconds) for seconds in by_clock)
    our_cpu_s, bare_cpu_s = (statistics.median(seconds) for seconds in by_cpu)
    ratio = our_rate / bare_rate
    row(
        f"{what}{' beside' if goal is None else f' >= {goal:g} of'} {beside}",
        f"{our_rate / 1e6:.2f} M/s beside {bare_rate / 1e6:.2f} M/s: {ratio:.2f} "
        f"(CPU time of the process: {our_cpu_s:.1f} s beside {bare_cpu_s:.1f} s)",
        None if goal is None else ratio >= goal,
    )
    return our_rate


def run(suite: str, modules: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Run parts, each in a process of its own, and print their rows as one table.

    Args:
        suite: Its name.
        modules: The modules of its parts, by name.
        arguments: `--quick` and `--only`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.run --suite {suite}")
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    parser.add_argument("--only", default=",".join(modules), help="parts; default: %(default)s")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if unknown := set(names) - set(modules):
        parser.error(
            f"--only: no part is called {', '.join(sorted(unknown))}; there are {', '.join(modules)}"
        )
    print("| goal | measured | | load |\n|---|---|---|---|", flush=True)
    for name in names:
        command = [sys.executable, "-m", modules[name], *(["--quick"] if options.quick else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    _print(json.loads(line))
        if process.returncode:
            sys.exit(f"{name} failed with exit status {process.returncode}")


def _print(found: dict[str, object]) -> None:
    load = os.getloadavg()[0]
    met = _MET[found["met"]]  # type: ignore[index]
    print(f"| {found['goal']} | {found['measured']} | {met} | {load:.1f} |", flush=True)
