"""What `make bench SUITE=…` can run: cases of one session, or a part that is a program of its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import cases
from .nexmark.cases import NEXMARK
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
    "nexmark": NEXMARK,
}
COMPARED = ("stateless", "keyed", "checkpoints", "windows", "join", "latency", "restart", "start")
SUITES["main"] = tuple(case for name in COMPARED for case in SUITES[name])
SUITES["all"] = SUITES["main"] + cases.SHUFFLE + cases.GROWTH
SUITES["quick"] = tuple(
    case
    for case in SUITES["main"]
    if case.is_ours or case.program == "bare" or case.workload not in ("W3", "W5", "W7")
)

# Suites whose parts print rows of their own: modules by name.
PARTS: dict[str, dict[str, str]] = {
    "operators": {name: f"benchmarks.operators.{name}" for name in ("columns", "sessions", "many_keys")},
    "connectors": {name: f"benchmarks.connectors.{name}" for name in ("files", "kafka")},
    "spark": {name: f"benchmarks.spark.{name}" for name in ("stage", "start", "throughput", "join", "demo")},
    "checkpointing": {"durations": "benchmarks.checkpoint_durations"},
}


def named(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The suite that a command line names, and all its other options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", add_help=False, allow_abbrev=False)
    parser.add_argument("--suite", choices=names(), default="main")
    options, others = parser.parse_known_args(arguments)
    return options.suite, others


def names() -> list[str]:
    """All suites."""
    return sorted({*SUITES, *PARTS})


def share_of(suite: str) -> float:
    """The share of the records that a suite's runs take."""
    return QUICK_SHARE if suite == "quick" else 1.0
