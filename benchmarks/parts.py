"""Parts of the benchmarks that are programs of their own: they print rows, and `run` collects them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

_MET = {True: "met", False: "MISSED", None: ""}


def row(goal: str, measured: str, met: bool | None) -> None:
    """One line of the table, for the process that collects them; `met` is None where there is no goal."""
    print(json.dumps({"goal": goal, "measured": measured, "met": met}), flush=True)


def run(description: str | None, package: str, parts: Mapping[str, tuple[str, Sequence[str]]]) -> None:
    """Run parts, each in a process of its own, and print their rows.

    Args:
        description: Of the command line, which has `--quick` and `--only`.
        package: The package of the parts' modules.
        parts: By name, the module and its options.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}.run",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    parser.add_argument("--only", default=",".join(parts), help="parts; default: %(default)s")
    arguments = parser.parse_args()
    if unknown := set(arguments.only.split(",")) - set(parts):
        parser.error(f"--only: no part is called {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    print("| goal | measured | | load |\n|---|---|---|---|", flush=True)
    for name in arguments.only.split(","):
        module, options = parts[name]
        command = [sys.executable, "-m", f"{package}.{module}", *options]
        if arguments.quick:
            command.append("--quick")
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
