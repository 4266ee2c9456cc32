"""What `make bench SUITE=…` can run: cases of one session, or a part that is a program of its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import cases
from .plan import QUICK_SHARE, Case

SUITES: dict[str, tuple[Case, ...]] = {
    "stateless": cases.STATELESS,
    "keyed": cases.KEYED_SMALL + cases.KEYED_LARGE,
    "checkpoints": cases.CHECKPOINTS,
    "windows": cases.WINDOWS,
    "restart": cases.RESTART,
    "join": cases.JOIN,
    "latency": cases.LATENCY,
    "shuffle": cases.SHUFFLE,
    "growth": cases.GROWTH,
    "slots": cases.SLOTS,
    "start": cases.START,
    "limits": cases.LIMITS,
}
COMPARED = ("stateless", "keyed", "checkpoints", "windows", "join", "latency", "restart", "start")
SUITES["main"] = tuple(case for name in COMPARED for case in SUITES[name])
SUITES["all"] = SUITES["main"] + cases.SHUFFLE + cases.GROWTH + cases.LIMITS
SUITES["quick"] = tuple(
    case
    for case in SUITES["main"]
    if case.is_ours or case.program == "bare" or case.workload not in ("W3", "W5", "W7")
)

# Programs with tables of their own, and their options.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "nexmark": ("benchmarks.nexmark.run", "--peer", "pyflink"),
    "columns": ("benchmarks.columns.run",),
    "window-operator": ("benchmarks.windows.run",),
    "session-windows": ("benchmarks.windows.sessions",),
    "kafka": ("benchmarks.kafka.run",),
    "connectors": ("benchmarks.connectors.run",),
    "spark": ("benchmarks.spark.run",),
    "state": ("benchmarks.state.run",),
    "checkpointing": ("benchmarks.checkpoint.run",),
    "width": ("benchmarks.width",),
}


def named(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The suite that a command line names, and all its other options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", add_help=False, allow_abbrev=False)
    parser.add_argument("--suite", choices=sorted({*SUITES, *PROGRAMS}), default="main")
    options, others = parser.parse_known_args(arguments)
    return options.suite, others


def share_of(suite: str) -> float:
    """The share of the records that a suite's runs take."""
    return QUICK_SHARE if suite == "quick" else 1.0
