"""Runs the flights job, kills one of its processes on the way, and checks the result against pandas.

`make demo` starts it; `--help` lists what can be changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import check
import pyarrow.parquet as pq
import report
from data import Tables, read_tables, write_files
from job import KEYED_OPERATOR, build_job
from processes import embedded_ray, output_to
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import InputFiles
from tidegate.common import Configuration
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.statistics import JobStatistics
from tidegate.datastream import StreamExecutionEnvironment

PARALLELISM = 2
CHECKPOINT_INTERVAL_MS = 500
KILL_AT = 0.45
"""Share of the legs in the output at which a process is killed."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    directory: Path
    with_spark: bool
    is_local: bool
    limit: int | None
    flights_per_second: float | None


@dataclass
class Outcome:
    """What a run leaves to report."""

    statistics: JobStatistics
    runtime_ms: int
    newest_checkpoint: str | None
    killed_ms: int | None = None
    ray_logs: Path | None = None


def main() -> int:
    """Run, check, report; the exit code is 0 only if the output is identical."""
    options = parse_options(sys.argv[1:])
    # A copy of the terminal, since what libraries print goes to a file while the job runs.
    terminal = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    console = Console(file=terminal, width=None if terminal.isatty() else 110)
    shutil.rmtree(options.directory, ignore_errors=True)
    tables = read_tables(options.limit)
    files = write_files(tables, options.directory / "input", PARALLELISM)
    console.print(f"{len(tables.flights):,} flights in {len(files.splits)} splits", highlight=False)
    if options.with_spark and not options.is_local:
        console.print(
            "Spark starts meanwhile; the first legs wait for it, checkpoints do not", highlight=False
        )
    try:
        with output_to(options.directory / "logs" / "driver.log"):
            outcome = run(console, options, files, len(tables.flights))
    except KeyboardInterrupt:
        console.print("interrupted; the job was cancelled and its processes have ended")
        return 130
    return show(console, options, tables, outcome)


def parse_options(arguments: list[str]) -> Options:
    """Read the command line; `SPARK=0` in the environment means `--no-spark`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-spark", action="store_true", help="do the joins without a Spark stage")
    parser.add_argument("--local", action="store_true", help="run in this process: no Ray, nothing killed")
    parser.add_argument("--flights", type=int, help="only so many flights, the first of the year")
    parser.add_argument("--rate", type=float, default=18_000, help="flights per second; 0: no limit")
    parser.add_argument("--directory", type=Path, default=Path("out/flights"), help="for all files")
    chosen = parser.parse_args(arguments)
    return Options(
        directory=chosen.directory.resolve(),
        with_spark=not chosen.no_spark and os.environ.get("SPARK", "1") != "0",
        is_local=chosen.local,
        limit=chosen.flights,
        flights_per_second=chosen.rate or None,
    )


def run(console: Console, options: Options, files: InputFiles, total: int) -> Outcome:
    """Run the job to its end."""
    with nullcontext() if options.is_local else embedded_ray(PARALLELISM) as ray_logs:
        client = submit(options, files)
        try:
            killed_ms = watch(console, options, client, total)
            result = client.result()
        except BaseException:
            client.close()
            raise
    statistics, newest = result.report.statistics, result.report.newest_checkpoint
    return Outcome(statistics, result.get_net_runtime(), newest, killed_ms, ray_logs)


def submit(options: Options, files: InputFiles) -> JobClient:
    """Start the job."""
    directory = options.directory
    configuration = Configuration()
    for key, value in {
        "execution.target": "local" if options.is_local else "ray",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.num-retained": "3",
        # Kept after the end of the job, to look at.
        "tidegate.checkpointing.retain-on-finish": "true",
        "state.backend.type": "lmdb",
        "tidegate.local-dir": str(directory / "state"),
        "tidegate.trace.file": str(directory / "trace.json"),
        "tidegate.spark.log-dir": str(directory / "logs" / "spark"),
        "tidegate.batch.size": "1024",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(PARALLELISM).enable_checkpointing(CHECKPOINT_INTERVAL_MS)
    rate = options.flights_per_second
    split_rate = None if rate is None else rate / len(files.splits)
    build_job(env, files, directory / "output", options.with_spark, split_rate)
    return env.execute_async("flights")


def watch(console: Console, options: Options, client: JobClient, total: int) -> int | None:
    """Show how far the output is, and kill a process on the way; when that was, in milliseconds."""
    killed_ms = None
    committed = CommittedRows(options.directory / "output" / "legs")
    columns = (TextColumn("legs committed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, redirect_stdout=False, redirect_stderr=False) as progress:
        bar = progress.add_task("legs", total=total)
        while not client.wait(0.2).is_globally_terminal_state():
            rows = committed.count()
            progress.update(bar, completed=rows)
            if killed_ms is None and not options.is_local and rows >= KILL_AT * total:
                killed_ms = kill_one_process(console, client)
        progress.update(bar, completed=committed.count())
    return killed_ms


def kill_one_process(console: Console, client: JobClient) -> int | None:
    """Kill a process with keyed state, as the out-of-memory killer would, unless the job has just ended."""
    running = client.processes().items()
    name, pid = next((entry for entry in running if entry[0].startswith(KEYED_OPERATOR)), ("", 0))
    if not pid:
        return None
    killed_ms = time.time_ns() // 1_000_000
    os.kill(pid, signal.SIGKILL)
    console.print(f"[bold red]kill -9 {pid}[/]: the process of {name}", highlight=False)
    return killed_ms


class CommittedRows:
    """Counts the rows that readers of a directory see."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._rows: dict[Path, int] = {}

    def count(self) -> int:
        """Rows in all files; each file is opened once, for it never changes."""
        for path in self._directory.glob("*.parquet"):
            if path not in self._rows:
                self._rows[path] = pq.read_metadata(path).num_rows
        return sum(self._rows.values())


def show(console: Console, options: Options, tables: Tables, outcome: Outcome) -> int:
    """Compare with pandas and report; the exit code."""
    directory = options.directory
    console.print()
    report.show_carriers(console, check.last_totals(check.read_totals(directory / "output")))
    report.show_checkpoints(console, outcome.statistics)
    report.show_recoveries(console, outcome.statistics, outcome.killed_ms)
    console.print(f"The job took {outcome.runtime_ms / 1_000:.1f} s.", highlight=False)
    places = {
        "output": directory / "output",
        "state (newest checkpoint)": outcome.newest_checkpoint,
        "checkpoint traces": directory / "trace.json",
        "driver's log": directory / "logs" / "driver.log",
        "Ray's and the tasks' logs": outcome.ray_logs,
        "Spark's logs": directory / "logs" / "spark" if options.with_spark else None,
    }
    for what, where in places.items():
        if where is not None:
            console.print(f"  {what + ':':<27}{where}", highlight=False, soft_wrap=True)
    found = check.differences(tables, directory / "output")
    for difference in found:
        console.print(f"[bold red]different[/] {difference}", highlight=False)
    if not found:
        legs = len(tables.flights)
        console.print(f"Compared with pandas, {legs:,} legs row for row: [bold green]identical[/]")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
