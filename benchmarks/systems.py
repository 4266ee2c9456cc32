"""How each system is started, and where its newest complete checkpoint lies."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path

from . import environments
from .peers.measure import Orders

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).resolve().parent / "peers"
PEER_PROGRAMS = ("bytewax", "pyflink", "pathway")


def command(program: str, orders: Orders) -> list[str]:
    """The command line of one run."""
    argument = json.dumps(asdict(orders))
    if program == "tidegate":
        return [sys.executable, "-m", "benchmarks.jobs.workloads", argument]
    if program == "bare":
        return [sys.executable, str(PEERS / "bare_loop.py"), argument]
    return [str(environments.ensure(program)), str(PEERS / f"{program}_job.py"), argument]


def environment(program: str) -> dict[str, str]:
    """The environment variables of one run."""
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if program != "pyflink":
        return variables
    python = environments.ensure("pyflink")
    # The interpreter embedded in the JVM finds no virtual environment by itself.
    variables["PYTHONPATH"] = f"{environments.site_packages(python)}:{PEERS}"
    variables["JAVA_HOME"] = environments.java_home(python)
    variables["BENCH_REST_PORT"] = str(_free_port())
    return variables


def restore_point(program: str, state_dir: Path) -> Path | None:
    """The newest complete checkpoint, or None while there is none."""
    patterns = {"pyflink": "*/chk-*/_metadata", "tidegate": "**/chk-*/MANIFEST"}
    if program not in patterns:
        return state_dir if any(state_dir.iterdir()) else None
    found = list(state_dir.glob(patterns[program]))
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
