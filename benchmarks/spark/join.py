"""Each epoch of payments joined with 50 million accounts that Spark holds, and the memory of each process.

    python -m benchmarks.spark.join [--quick] [--accounts 50000000] [--payments 2000000]

It runs `examples/accounts` on an embedded Ray with two executors. The example compares its totals with those
that NumPy computes. Memory is the highest proportional set size of each process, looked at every two seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from ..parts import row
from ..processes import ProcessTree
from .common import kind_of

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "accounts" / "main.py"
LOOK_S = 2.0
SHOWN_BYTES = 20 << 20


def peaks_of(process: subprocess.Popen[str]) -> tuple[list[tuple[str, int]], int]:
    """What each process is and its highest memory until the program ends, and the highest sum."""
    tree = ProcessTree([psutil.Process(process.pid)])
    kinds: dict[int, str] = {}
    peaks: dict[int, int] = {}
    highest = 0
    while process.poll() is None:
        sizes = {pid: size for pid, (_, size) in tree.sizes().items()}
        highest = max(highest, sum(sizes.values()))
        for pid, size in sizes.items():
            peaks[pid] = max(size, peaks.get(pid, 0))
            with suppress(psutil.NoSuchProcess):
                # A worker of Ray is something else once it has become an actor.
                kinds[pid] = "the program" if pid == process.pid else kind_of(psutil.Process(pid))
        time.sleep(LOOK_S)
    found = [(kinds.get(pid, "others"), size) for pid, size in peaks.items()]
    return sorted(found, key=lambda peak: -peak[1]), highest


def main() -> None:
    """Run the example and print the rows of the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.join")
    parser.add_argument("--quick", action="store_true", help="with 200,000 accounts")
    parser.add_argument("--accounts", type=int, default=50_000_000, help="default: %(default)s")
    parser.add_argument("--payments", type=int, default=2_000_000, help="default: %(default)s")
    options = parser.parse_args()
    accounts, payments = (200_000, 50_000) if options.quick else (options.accounts, options.payments)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        command = [sys.executable, str(PROGRAM), "--accounts", str(accounts), "--payments", str(payments)]
        command += ["--directory", directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            peaks, highest = peaks_of(process)
            assert process.stdout is not None
            answer = process.stdout.read().splitlines()[-1:]
    row(f"{payments:,} payments joined with {accounts:,} accounts", " ".join(answer), process.returncode == 0)
    row("memory of all processes, highest sum of PSS", f"{highest / (1 << 20):,.0f} MiB", None)
    for kind, size in peaks:
        if size >= SHOWN_BYTES:
            row(f"memory of a process: {kind}", f"{size / (1 << 20):,.0f} MiB", None)


if __name__ == "__main__":
    main()
