"""What a job on Ray costs that has nothing to do: `python -m benchmarks.idle [--width 16] [--seconds 60]`.

`width` sources without records, `width` keyed subtasks and a sink, all-to-all, on a Ray of their own. It
prints the time from submission until every subtask runs and the CPU time of that; then the CPU time (user and
system) and the voluntary context switches of all processes while the job is idle, by kind of process.

`--share-process` runs the subtasks of a slot in one process; `--threads` lists the threads that use most.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import time
from collections import defaultdict
from typing import Any

import psutil
from tidegate.actors.embedded_ray import SYSTEM_CONFIG
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import (
    KeyedProcessFunction,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.protocol.elements import Batch

from .processes import describe

SETTLE_S = 5.0
START_LIMIT_S = 600.0


class QuietSource(Source):
    """Has no records, and does not end."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return list(range(parallelism))

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _QuietReader()


class _QuietReader(SourceReader):
    def poll(self, max_records: int) -> Batch | None:
        return Batch([])

    def snapshot_state(self) -> list[Any]:
        return []


class PassOn(KeyedProcessFunction):
    """Emits what it gets."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        yield value


class NoSink(Sink):
    """Drops what it gets."""

    def create_writer(self) -> SinkWriter:
        return _NoWriter()


class _NoWriter(SinkWriter):
    def write_batch(self, values: list[Any]) -> None:
        pass


def identity(value: int) -> int:
    """The key of a record."""
    return value


def start_job(width: int, shares_process: bool) -> JobClient:
    """Submit the job to the connected Ray."""
    configuration = Configuration()
    configuration.set_string("tidegate.slot.share-process", str(shares_process).lower())
    configuration.set_string("execution.runtime-mode", "STREAMING")
    configuration.set_string("execution.target", "ray")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(width)
    numbers = env.from_source(QuietSource(), WatermarkStrategy.no_watermarks(), "quiet", Types.LONG())
    passed = numbers.key_by(identity, Types.LONG()).process(PassOn(), Types.LONG())
    passed.sink_to(NoSink()).set_parallelism(1)
    return env.execute_async("idle")


def await_running(client: JobClient) -> None:
    """Wait until every subtask runs."""
    end = time.monotonic() + START_LIMIT_S
    while (report := client.report()).status is not JobStatus.RUNNING:
        if report.status.is_terminal_state() or time.monotonic() > end:
            raise SystemExit(f"the job did not start: {report.status} {report.cause}")
        time.sleep(0.1)


Spent = dict[int, tuple[str, float, int]]


def spent(processes: list[psutil.Process]) -> Spent:
    """What each process is, its CPU seconds and its voluntary context switches so far, by process id."""
    found: Spent = {}
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
            times = process.cpu_times()
            kind, switches = kind_of(process), 0
            for task in os.listdir(f"/proc/{process.pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{process.pid}/task/{task}/status") as status:
                    line = next(each for each in status if each.startswith("voluntary"))
                    switches += int(line.split()[1])
            found[process.pid] = (kind, times.user + times.system, switches)
    return found


def kind_of(process: psutil.Process) -> str:
    """A short name for what a process is."""
    described = describe(process)
    if process.pid == os.getpid():
        return "driver"
    kinds = ("TaskActor", "CoordinatorActor", "IDLE", "gcs_server", "raylet")
    return next((kind for kind in kinds if kind in described), "others of Ray")


def family() -> list[psutil.Process]:
    """This process and all that it started."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


Threads = dict[tuple[int, str], tuple[str, float]]


def threads(processes: list[psutil.Process]) -> Threads:
    """By process and thread: the kind of the process with the thread's name, and its CPU seconds so far."""
    found: Threads = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            kind = kind_of(process)
            for task in os.listdir(f"/proc/{process.pid}/task"):
                with open(f"/proc/{process.pid}/task/{task}/stat") as stat:
                    head, _, rest = stat.read().rpartition(")")
                fields = rest.split()
                cpu = (int(fields[11]) + int(fields[12])) / ticks
                name = "main thread" if task == str(process.pid) else head.partition("(")[2]
                found[process.pid, task] = (f"{kind}: {name}", cpu)
    return found


def show_threads(before: Threads, after: Threads, seconds: float) -> None:
    """Print which kinds of threads used most."""
    used: dict[str, float] = defaultdict(float)
    for key, (name, cpu) in after.items():
        used[name] += cpu - before.get(key, (name, 0.0))[1]
    print("| thread | % of a core |\n|---|---|")
    for name, cpu in sorted(used.items(), key=lambda item: -item[1])[:25]:
        print(f"| {name} | {100 * cpu / seconds:.2f} |")


def cpu_s(figures: Spent) -> float:
    """CPU seconds of all."""
    return sum(cpu for _, cpu, _ in figures.values())


def show_memory(processes: list[psutil.Process]) -> None:
    """Print the memory of all processes: each page shared by some of them counts for its share."""
    used: dict[str, float] = defaultdict(float)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            used[kind_of(process)] += process.memory_full_info().pss / (1 << 20)
    parts = ", ".join(f"{kind} {mib:.0f}" for kind, mib in sorted(used.items(), key=lambda item: -item[1]))
    print(f"memory: {sum(used.values()):.0f} MiB; {parts}")


def show_idle(before: Spent, after: Spent, seconds: float) -> None:
    """Print what was spent in between, by what the processes are."""
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for pid, (kind, cpu, switches) in after.items():
        _, cpu_before, switches_before = before.get(pid, (kind, 0.0, 0))
        row = kinds[kind]
        row[0] += 1
        row[1] += cpu - cpu_before
        row[2] += switches - switches_before
    print("| processes | number | CPU s | % of a core | switches/s |\n|---|---|---|---|---|")
    rows = sorted(kinds.items(), key=lambda item: -item[1][1])
    total = [sum(row[index] for _, row in rows) for index in range(3)]
    for kind, (number, cpu_time, woken) in [*rows, ("all", total)]:
        share, rate = 100 * cpu_time / seconds, woken / seconds
        print(f"| {kind} | {number:.0f} | {cpu_time:.2f} | {share:.1f} | {rate:.0f} |")


def main() -> None:
    """Start the job, and print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=16, help="sources, and keyed subtasks")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is watched")
    parser.add_argument("--share-process", action="store_true", help="run the subtasks of a slot together")
    parser.add_argument("--threads", action="store_true", help="list the threads that use most")
    options = parser.parse_args()
    import ray

    ray.init(
        address="local",
        num_cpus=2 * options.width + 2,
        include_dashboard=False,
        logging_level=logging.WARNING,
        _system_config=SYSTEM_CONFIG,
    )
    time.sleep(SETTLE_S)
    began_s, at_first = time.monotonic(), spent(family())
    client = start_job(options.width, options.share_process)
    await_running(client)
    ready_s, running = time.monotonic() - began_s, spent(family())
    started_cpu_s = cpu_s(running) - cpu_s(at_first)
    print(f"start: {ready_s:.1f} s, {started_cpu_s:.1f} s of CPU time; load {os.getloadavg()}")
    time.sleep(SETTLE_S)
    before, threads_before = spent(family()), threads(family())
    watched_s = time.monotonic()
    time.sleep(options.seconds)
    seconds = time.monotonic() - watched_s
    show_idle(before, spent(family()), seconds)
    if options.threads:
        show_threads(threads_before, threads(family()), seconds)
    show_memory(family())
    client.cancel().result()
    client.wait(60)
    ray.shutdown()


if __name__ == "__main__":
    main()
