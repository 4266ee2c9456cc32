"""Take the start of a Spark session apart: from requesting it to the result of the first epoch.

    python -m benchmarks.spark.start [--local] [--rounds 3] [--conf KEY=VALUE ...]

Each round has a process and an embedded Ray of its own. The timeline shows when each process of the session
begins, how long it lives and the CPU time that it takes until the first epoch has its result. CPU seconds are
what to compare on a machine that does other work.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
import pyarrow as pa
from tidegate.spark_bridge.exchange import exchange_frames as exchange
from tidegate.spark_bridge.exchange.exchange_server import ExchangeServer
from tidegate.spark_bridge.session import SparkSettings, session_host

from ..parts import row
from .common import OTHERS, kind_of

GOAL_S = 12.0
_SAMPLE_S = 0.1
_RECORDS = 25_000
_MEMORY_BYTES = 64 << 20


@dataclass
class Seen:
    """A process of the session."""

    kind: str
    begun_s: float
    ended_s: float
    cpu_s: float


@dataclass
class Timeline:
    """What a round has found. Times are seconds since the request, and negative before it."""

    processes: list[Seen] = field(default_factory=list)
    marks: list[tuple[str, float]] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps({"processes": [vars(seen) for seen in self.processes], "marks": self.marks})


class Sampler:
    """Looks at the processes below this one, and at this one, until it is stopped."""

    def __init__(self) -> None:
        self._before = {process.pid: _cpu_s(process) for process in _tree()}
        self._seen: dict[int, Seen] = {}
        self._stop = threading.Event()
        self._begun_s = time.time()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[Seen]:
        self._stop.set()
        self._thread.join()
        return sorted(self._seen.values(), key=lambda seen: seen.begun_s)

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            self._look()
        self._look()

    def _look(self) -> None:
        for process in _tree():
            try:
                cpu_s = _cpu_s(process) - self._before.get(process.pid, 0.0)
                seen = self._seen.get(process.pid)
                if seen is None or seen.kind == OTHERS:
                    begun_s = process.create_time() - self._begun_s
                    kind = "this process (Python)" if process.pid == os.getpid() else kind_of(process)
                    seen = self._seen[process.pid] = Seen(kind, begun_s, 0.0, 0.0)
            except psutil.Error:
                continue
            seen.ended_s, seen.cpu_s = time.time() - self._begun_s, cpu_s


def _tree() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


@contextmanager
def embedded_ray(is_local: bool) -> Iterator[None]:
    """A Ray of this process, ready for work, unless the session is a local one."""
    if is_local:
        yield
        return
    import ray

    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        ray.get(ray.remote(lambda: None).options(num_cpus=0).remote())
        yield
    finally:
        ray.shutdown()


def first_epoch(session: Any) -> None:
    """An epoch as a stage runs it: a filter, and a join with a small table."""
    numbers = pa.table(
        {"id": pa.array(range(_RECORDS), pa.int64()), "name": [f"n{n % 99}" for n in range(_RECORDS)]}
    )
    table = session.range(99).selectExpr("concat('n', id) as name", "id as number")
    server = ExchangeServer("first epoch", lambda: None, tempfile.gettempdir())
    run = server.serve(numbers, 1, _MEMORY_BYTES)
    frame = exchange.input_frame(session, [run.endpoint]).join(table, "name").where("id % 2 = 0")
    schema = pa.schema([("name", pa.string()), ("id", pa.int64()), ("number", pa.int64())])
    found = run.results(exchange.push(frame, schema, [run.endpoint]), schema)
    server.close()
    assert found.num_rows == _RECORDS // 2


def first_python_worker(session: Any) -> None:
    """A task with Arrow data in a Python worker."""
    frame = session.range(1).mapInArrow(lambda batches: batches, "id long")
    assert len(frame.collect()) == 1


def measured(settings: SparkSettings) -> Timeline:
    """One start in this process."""
    sampler, begun_s = Sampler(), time.time()
    found = Timeline()

    def mark(what: str, at_s: float | None = None) -> None:
        found.marks.append((what, (time.time() if at_s is None else at_s) - begun_s))

    lease = session_host().acquire(settings)
    session = lease.session()
    ready_s = time.time()
    mark("SparkContext begins", session.sparkContext.startTime / 1_000)
    executors = session._jsc.sc().statusStore().executorList(True)
    for executor in (executors.apply(place) for place in range(executors.size())):
        if executor.id() != "driver":
            mark(f"executor {executor.id()} registered", executor.addTime().getTime() / 1_000)
    mark("session ready", ready_s)
    first_epoch(session)
    mark("result of the first epoch")
    found.processes = sampler.stop()
    first_python_worker(session)
    mark("result of the first Python worker")
    first_epoch(session)
    mark("result of the second epoch")
    lease.release()
    session_host().stop()
    return found


def show(found: Timeline) -> None:
    """Print processes and marks in the order of time."""
    lines = [
        (seen.begun_s, f"{seen.kind:40s} {seen.cpu_s:5.2f} s of CPU time until {seen.ended_s:.2f} s")
        for seen in found.processes
        if seen.cpu_s >= 0.05
    ]
    lines += [(at_s, f"-> {what}") for what, at_s in found.marks]
    for at_s, text in sorted(lines):
        print(f"{at_s:8.2f} s  {text}")
    print(f"{'':10s} all: {cpu_s(found):.2f} s of CPU time until the first epoch has its result")


def cpu_s(found: Timeline) -> float:
    """CPU seconds of all processes."""
    return sum(seen.cpu_s for seen in found.processes)


def main() -> None:
    """Run the rounds, each in a process of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.start", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--local", action="store_true", help="a session without Ray")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--executors", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="of Spark")
    parser.add_argument("--once", action="store_true", help="one round in this process, as JSON")
    options = parser.parse_args()
    if options.once:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory, embedded_ray(options.local):
            settings = SparkSettings(
                use_raydp=not options.local,
                num_executors=options.executors,
                log_dir=directory,
                configs=dict(text.split("=", 1) for text in options.conf),
            )
            print(measured(settings).as_json())
        return
    ready_s, result_s, cpus_s = [], [], []
    for _ in range(1 if options.quick else options.rounds):
        command = [sys.executable, "-m", "benchmarks.spark.start", "--once", *sys.argv[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        read = json.loads(done.stdout.splitlines()[-1])
        found = Timeline([Seen(**seen) for seen in read["processes"]], read["marks"])
        show(found)
        marks = dict(found.marks)
        ready_s.append(marks["session ready"])
        result_s.append(marks["result of the first epoch"])
        cpus_s.append(cpu_s(found))
    row("a Spark session ready", _text(ready_s), None)
    row(
        f"from requesting a session to the first epoch's result, at most {GOAL_S:g} s",
        _text(result_s),
        statistics.median(result_s) <= GOAL_S,
    )
    row("CPU time until then", _text(cpus_s), None)


def _text(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} s ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
