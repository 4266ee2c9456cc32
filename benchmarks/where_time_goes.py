"""Where a record's nanoseconds go: W2 with 10,000 keys in the local shell, sampled by py-spy.

    python -m benchmarks.where_time_goes [--records 6000000] [--out docs/performance/where-time-goes.svg]

A sample counts for the part of Tidegate or of the job to which its innermost known frame belongs.
The picture's total is the CPU time of the whole process for a record, between the first and the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from . import launch, pictures, systems
from .peers.measure import Orders

RATE = 250
KEYS = 10_000
# In this order: the first pattern that a frame contains says what its time is spent for.
PARTS = (
    ("KeyOf.__call__", "the job's key selector"),
    ("process_element", "the job's process function"),
    ("benchmarks/", "the job's source and sink"),
    ("connectors/", "the job's source and sink"),
    ("common/type_conversion", "checking declared types"),
    ("state/", "state: value() and update()"),
    ("partitioners", "exchange: keys, key groups, partitions"),
    ("key_hashing", "exchange: keys, key groups, partitions"),
    ("protocol/key_groups", "exchange: keys, key groups, partitions"),
    ("operators/", "loop around the function"),
    ("actors/", "task: gate, credits, batches"),
    ("protocol/", "task: gate, credits, batches"),
)
OTHER = "Python and others"


def part_of(stack: str) -> str | None:
    """What a sampled stack's time is spent for; None outside of a task.

    Args:
        stack: frames from the outermost to the innermost, `name (file:line)`, with semicolons between.
    """
    frames = stack.split(";")
    if not any("StreamTask." in frame for frame in frames):
        return None
    for frame in reversed(frames):
        for pattern, part in PARTS:
            if pattern in frame:
                return part
    return OTHER


def shares(lines: Iterable[str]) -> dict[str, float]:
    """The share of each part in the samples, the largest first.

    Args:
        lines: py-spy's raw format: a stack, a space, how often it was seen.
    """
    counted: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        part = part_of(stack)
        if part is not None:
            counted[part] += int(count)
    total = counted.total()
    return {part: count / total for part, count in counted.most_common()}


def sampled(records: int, folder: Path) -> tuple[dict[str, float], float]:
    """Runs the job; the shares of its parts, and the CPU time of the process for a record in ns."""
    marks, raw = folder / "marks", folder / "raw.txt"
    for each in (marks, folder / "state"):
        each.mkdir()
    orders = Orders("W2", records, KEYS, str(marks), str(folder / "state"))
    command = ["py-spy", "record", "--rate", str(RATE), "--format", "raw", "--full-filenames"]
    job = [sys.executable, "-m", "benchmarks.jobs.workloads", json.dumps(asdict(orders))]
    subprocess.run([*command, "--output", str(raw), "--", *job], cwd=systems.ROOT, check=True)
    found = launch.read_marks(marks)
    spent_ns = found["end-0"]["cpu_ns"] - found["start-numbers-0"]["cpu_ns"]
    return shares(raw.read_text().splitlines()), spent_ns / records


def main() -> None:
    """Runs the job and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--out", type=Path, default=systems.ROOT / "docs/performance/where-time-goes.svg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found, record_ns = sampled(options.records, Path(folder))
    for part, share in found.items():
        print(f"{share * record_ns:8.0f} ns {share:6.1%}  {part}")
    print(f"{record_ns:8.0f} ns in all")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    parts = {part: share * record_ns for part, share in found.items()}
    options.out.write_text(pictures.shares(parts, f"{record_ns:,.0f} ns of CPU time for a record"))


if __name__ == "__main__":
    main()
