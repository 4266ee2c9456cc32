"""Where a record's nanoseconds go: W2 with 10,000 keys, sampled by py-spy.

    python -m benchmarks.where_time_goes [--records 6000000] [--out docs/performance/where-time-goes.svg]
    python -m benchmarks.where_time_goes --parallelism 32 [--processes 8] [--share-process]

A sample counts for the part of Tidegate or of the job to which its innermost known frame belongs.
In the local shell it draws a picture, and the total is the CPU time of the whole process for a record,
between the first and the last. With `--parallelism` the job runs on Ray (W8): it prints the CPU time of all
threads by their names, from the first record on (`ray::IDLE` are those of Tidegate's tasks and connections),
and the shares of the parts in these threads of some task processes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import psutil
from matplotlib import rc_context
from matplotlib.figure import Figure

from . import idle, launch, systems
from .peers.measure import Orders

RATE = 250
LONGEST_S = 600
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
    ("runtime/", "task: gate, credits, batches"),
    ("protocol/", "task: gate, credits, batches"),
)
OTHER = "Python and others"
CONNECTIONS = "connections: sockets, frames, credit"
LOADING = "_find_and_load"
LOOK_PAUSE_S = 0.2


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


def part_on_ray(stack: str) -> str | None:
    """What a sampled stack of a task process is for; None for Ray's threads, and while it loads modules."""
    if LOADING in stack:
        return None
    return CONNECTIONS if "Connections._run" in stack else part_of(stack)


def shares(lines: Iterable[str], part_of: Callable[[str], str | None] = part_of) -> dict[str, float]:
    """The share of each part in the samples, the largest first.

    Args:
        lines: py-spy's raw format: a stack, a space, how often it was seen.
        part_of: The part of a stack, None if it does not count.
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


def sampled_on_ray(orders: Orders, processes: int, folder: Path) -> dict[str, float]:
    """Runs the job on a Ray of its own, and prints the CPU time of its threads.

    Returns:
        The shares of the parts in some of its task processes.
    """
    command = [sys.executable, "-m", "benchmarks.jobs.workloads", json.dumps(asdict(orders))]
    samplers: dict[int, subprocess.Popen[bytes]] = {}
    before: idle.Threads = {}
    after: idle.Threads = {}
    with subprocess.Popen(command, cwd=systems.ROOT) as job:
        while job.poll() is None:
            # A thread that has ended keeps what it had used when it was last looked at.
            after.update(idle.threads(_family(job.pid)))
            for task in sorted(
                {pid for (pid, _), (name, _) in after.items() if name.startswith("TaskActor")}
            ):
                if len(samplers) < processes and task not in samplers:
                    samplers[task] = _sampler(task, folder)
            if not any(name.startswith("start-") for name in launch.read_marks(Path(orders.marks_dir))):
                before, began_s = dict(after), time.monotonic()
            time.sleep(LOOK_PAUSE_S)
    if job.returncode:
        raise SystemExit(f"the job ended with {job.returncode}")
    idle.show_threads(before, after, time.monotonic() - began_s)
    for sampler in samplers.values():
        sampler.wait()
    return shares((line for file in folder.glob("*.raw") for line in file.open()), part_on_ray)


def _family(root: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(psutil.Process(root).children(recursive=True))
    return []


def _sampler(pid: int, folder: Path) -> subprocess.Popen[bytes]:
    command = ["py-spy", "record", "--pid", str(pid), "--rate", str(RATE), "--format", "raw", "--nonblocking"]
    output = ["--full-filenames", "--duration", str(LONGEST_S), "--output", str(folder / f"{pid}.raw")]
    return subprocess.Popen([*command, *output], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def picture(parts: dict[str, float], label: str) -> str:
    """A bar for each part of a whole, in nanoseconds, as SVG."""
    figure = Figure(figsize=(8.5, 0.9 + 0.32 * len(parts)), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh(list(parts), list(parts.values()), color="#2f7ab8")
    axes.bar_label(drawn, fmt="{:,.0f} ns", padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    # Text remains text, and the same figures give the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tidegate"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def main() -> None:
    """Runs the job; prints where its time goes, and draws it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--out", type=Path, default=systems.ROOT / "docs/performance/where-time-goes.svg")
    parser.add_argument("--parallelism", type=int, help="on Ray, with so many sources and keyed subtasks")
    parser.add_argument("--processes", type=int, default=8, help="on Ray: how many are sampled")
    parser.add_argument("--share-process", action="store_true", help="on Ray: a process for each slot")
    options = parser.parse_args()
    if options.parallelism:
        show_ray(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        found, record_ns = sampled(options.records, Path(folder))
    for part, share in found.items():
        print(f"{share * record_ns:8.0f} ns {share:6.1%}  {part}")
    print(f"{record_ns:8.0f} ns in all")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    parts = {part: share * record_ns for part, share in found.items()}
    options.out.write_text(picture(parts, f"{record_ns:,.0f} ns of CPU time for a record"))


def show_ray(options: argparse.Namespace) -> None:
    """Runs the job on Ray and prints where the time of its task processes goes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in (folder / "marks", folder / "state"):
            each.mkdir()
        orders = Orders(
            "W2",
            options.records,
            KEYS,
            str(folder / "marks"),
            str(folder / "state"),
            shell="ray",
            parallelism=options.parallelism,
            mode="slot" if options.share_process else "",
        )
        for part, share in sampled_on_ray(orders, options.processes, folder).items():
            print(f"{share:6.1%}  {part}")


if __name__ == "__main__":
    main()
