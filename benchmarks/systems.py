"""How each system is started, and where its newest complete checkpoint lies."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path

from . import environments
from .nexmark.cases import is_query
from .peers.measure import Orders
from .plan import Case

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).resolve().parent / "peers"
PEER_PROGRAMS = ("bytewax", "pyflink", "pathway", "spark")
OURS = {"tidegate": "benchmarks.jobs.workloads", "numpy": "benchmarks.jobs.bare_numpy"}


def command(program: str, orders: Orders) -> list[str]:
    """The command line of one run."""
    argument = json.dumps(asdict(orders))
    is_nexmark = is_query(orders.workload)
    if program in OURS:
        module = "benchmarks.nexmark.job" if is_nexmark else OURS[program]
        return [sys.executable, "-m", module, argument]
    if program == "bare":
        return [sys.executable, str(PEERS / "bare_loop.py"), argument]
    return [
        str(environments.ensure(program)),
        str(PEERS / f"{program}_{'nexmark' if is_nexmark else 'job'}.py"),
        argument,
    ]


def environment(program: str, parallelism: int = 1) -> dict[str, str]:
    """The environment variables of one run, with a free port for each process of the peers that need one."""
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if program in ("bytewax", "pyflink"):
        variables["BENCH_PORTS"] = " ".join(str(free_port()) for _ in range(parallelism))
    if program not in ("pyflink", "spark"):
        return variables
    python = environments.ensure(program)
    # The interpreter embedded in Flink's JVM finds no virtual environment by itself.
    variables["PYTHONPATH"] = f"{environments.site_packages(python)}:{PEERS}"
    variables["JAVA_HOME"] = environments.java_home(python)
    variables["PYSPARK_PYTHON"] = str(python)
    return variables


def how_to_check(case: Case) -> str:
    """What a right answer of a system is; see `expected.check_totals`."""
    if case.workload == "W4" and case.program == "spark":
        return "closed only"
    if case.workload == "W4":
        # Bytewax's watermarks follow each worker's own input.
        drops = case.program == "bytewax" and case.parallelism > 1 and case.mode != "wait"
        return "may drop" if drops else "per record"
    if case.program == "pathway" and case.workload not in ("W1", "W6"):
        return "per commit"
    if case.program == "spark" and case.mode == "builtin" and case.workload in ("W2", "W3", "start"):
        # One answer per key and micro-batch, of which only the last is looked at where keys repeat in one.
        return "per commit"
    # Spark's functions get a key's records of a micro-batch in any order.
    return "counts" if case.program == "spark" else "per record"


def restore_point(program: str, state_dir: Path) -> Path | None:
    """The newest complete checkpoint, or None while there is none."""
    patterns = {"pyflink": "*/chk-*/_metadata", "tidegate": "**/chk-*/MANIFEST"}
    if program not in patterns:
        return state_dir if any(state_dir.iterdir()) else None
    found = list(state_dir.glob(patterns[program]))
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
