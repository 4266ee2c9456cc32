"""Jobs that the tests run on Ray, and how they wait for what happens to them."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import ray
from tidegate.actors.deployment import NAMESPACE, coordinator_name
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.job_report import JobReport
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.datastream import (
    Committer,
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch

T = TypeVar("T")
DEADLINE_S = 120
"""No test is right or wrong by this time; on a busy machine a job takes long to start."""
BETWEEN_QUESTIONS_S = 0.05
KEYS = 50


def eventually(
    what: str, question: Callable[[], T], client: JobClient | None = None, deadline_s: float = DEADLINE_S
) -> T:
    """Ask until the answer is true; the questions go to another process, so they pace it.

    With the client of a job that runs, it waits in between for the end of that job, for a moment: report
    after report would take the CPU time that the job needs to get there.
    """
    end_s = time.monotonic() + deadline_s
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end_s, f"{what} did not happen within {deadline_s} s"
        if client is not None:
            client.wait(BETWEEN_QUESTIONS_S)


def files_below(directory: Path) -> list[Path]:
    """All files, also while a job deletes some: `rglob` fails for a directory that disappears."""
    return [Path(folder, name) for folder, _, names in os.walk(directory) for name in names]


def assert_gone(pids: Iterable[int]) -> None:
    """Wait for the end of processes."""
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ended, _, _ = select.select([process], [], [], DEADLINE_S)
            assert ended, f"process {pid} is still there after {DEADLINE_S} s"
        finally:
            os.close(process)


class Gate:
    """Holds sources back at a number of records until the test opens it: a job in mid-run for certain."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / "gate-is-open")

    def open(self) -> None:
        Path(self._path).touch()

    @property
    def is_open(self) -> bool:
        return os.path.exists(self._path)


class GatedNumbers(Source):
    """The numbers below `count`; each subtask stops half-way until the gate is open."""

    def __init__(self, count: int, gate: Gate | None) -> None:
        self._count = count
        self._gate = gate

    def create_splits(self, parallelism: int) -> list[Any]:
        size = self._count // parallelism
        return [(index * size, index * size, (index + 1) * size) for index in range(parallelism)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _GatedReader(splits, self._gate)


class _GatedReader(SourceReader):
    def __init__(self, splits: list[tuple[int, int, int]], gate: Gate | None) -> None:
        self._splits = list(splits)
        self._gate = gate

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        start, position, end = self._splits[0]
        half = (start + end) // 2
        if position >= half and self._gate is not None and not self._gate.is_open:
            return Batch([])
        stop = min(position + 100, half if position < half else end)
        if stop < end:
            self._splits[0] = (start, stop, end)
        else:
            self._splits.pop(0)
        return Batch(list(range(position, stop)))

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


class CountPerKey(KeyedProcessFunction):
    """Emits (key, how many of its records came so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


_END = "\nend of epoch\n"


def _whole_epochs(text: str) -> str:
    whole, end, _ = text.rpartition(_END)
    return whole + end


class FileSink(Sink):
    """Exactly once into one file: a commit appends an epoch, unless the file has it already.

    A process that is killed while it writes leaves a part of one, which the next commit drops.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def create_writer(self) -> SinkWriter:
        return _EpochWriter()

    def create_committer(self) -> Committer:
        return _FileCommitter(self._path)


class _EpochWriter(SinkWriter):
    def open(self, context: Any) -> None:
        self._prefix = f"{context.job_id}-{context.subtask_index}-{context.attempt}"
        self._epoch = 0
        self._lines: list[str] = []

    def write_batch(self, values: list[Any]) -> None:
        self._lines += [" ".join(map(str, value)) for value in values]

    def prepare_commit(self) -> list[Any]:
        self._epoch += 1
        lines, self._lines = self._lines, []
        return [(f"epoch {self._prefix}-{self._epoch}", lines)] if lines else []


class _FileCommitter(Committer):
    def __init__(self, path: str) -> None:
        self._path = path

    def commit(self, committables: list[Any]) -> None:
        with open(self._path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            whole = _whole_epochs(file.read())
            file.truncate(len(whole))
            known = set(whole.splitlines())
            for epoch, lines in committables:
                if epoch not in known:
                    file.write("\n".join([epoch, *lines]) + _END)


def records_in(path: Path) -> list[tuple[int, int]]:
    """What a `FileSink` has committed."""
    lines = _whole_epochs(path.read_text()).splitlines() if path.exists() else []
    return [tuple(map(int, line.split())) for line in lines if line[0].isdigit()]  # type: ignore[misc]


def expected(count: int) -> Counter[tuple[int, int]]:
    """Every (key, n) that `CountPerKey` must give for the numbers below `count`, each once."""
    return Counter((number % KEYS, number // KEYS + 1) for number in range(count))


BY_HAND_MS = 3_600_000
"""An interval in which no test triggers a checkpoint but by hand."""


def configuration(directory: Path, parallelism: int = 2, interval_ms: int | None = 100) -> Configuration:
    settings = Configuration()
    settings.set_string("execution.target", "ray")
    settings.set_string("parallelism.default", str(parallelism))
    settings.set_string("state.backend.type", "lmdb")
    settings.set_string("pipeline.max-parallelism", "12")
    settings.set_string("tidegate.local-dir", str(directory / "local"))
    # A test shares the cluster with others: small shares let two jobs run side by side.
    settings.set_string("tidegate.slot.cpus", "0.5")
    if interval_ms is not None:
        settings.set_string("execution.checkpointing.interval", f"{interval_ms} ms")
        # Otherwise the first checkpoint of a long interval may come at any time.
        settings.set_string("tidegate.checkpointing.random-initial-delay", "false")
        settings.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
        # Tests of restarts need not wait a second for each, and a job whose failure repeats must end.
        settings.set_string("restart-strategy.exponential-delay.initial-backoff", "100 ms")
        settings.set_string("restart-strategy.exponential-delay.attempts-before-reset-backoff", "10")
        # A loaded machine makes a checkpoint slow, which is not what is tested.
        settings.set_string("execution.checkpointing.tolerable-failed-checkpoints", "100")
    return settings


def counts(
    settings: Configuration, count: int, gate: Gate | None = None, source_parallelism: int | None = None
) -> DataStream:
    """Numbers, counted per key."""
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    parallelism = source_parallelism or env.get_parallelism()
    return (
        env.from_source(GatedNumbers(count, gate), WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .set_parallelism(parallelism)
        .key_by(lambda number: number % KEYS, key_type=Types.LONG())
        .process(CountPerKey())
        .name("count")
        .uid("count")
    )


@contextmanager
def running(stream: DataStream, sink: Sink) -> Iterator[JobClient]:
    """The stream's job with a sink; it is stopped at the end."""
    stream.sink_to(sink).name("sink").uid("sink")
    client = stream.get_execution_environment().execute_async()
    try:
        yield client
    finally:
        client.close()


def completed(report: JobReport) -> int:
    """How many checkpoints are complete."""
    return sum(one.outcome is CheckpointOutcome.COMPLETED for one in report.statistics.checkpoints)


def half_way(client: JobClient) -> dict[str, int]:
    """Wait for a checkpoint of a running job; its processes by name."""
    eventually("a checkpoint", lambda: completed(client.report()), client)
    return client.processes()


def processes(client: JobClient, count: int) -> dict[str, int]:
    """The processes of a running job by name, when all of so many are known.

    A task may say that it runs before Ray hands over the answer with its process id.
    """
    return eventually(
        f"{count} processes", lambda: found if len(found := client.processes()) == count else None, client
    )


def fails(client: JobClient) -> bool:
    """Whether a job has noticed a failure; it may be running again."""
    return client.report().cause is not None


def pid_of(processes: dict[str, int], name: str) -> int:
    (pid,) = [pid for key, pid in processes.items() if key.startswith(name)]
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def coordinator(client: JobClient) -> Any:
    """The actor of a job's coordinator."""
    return ray.get_actor(coordinator_name(client.get_job_id()), namespace=NAMESPACE)


def coordinator_pid(client: JobClient) -> int:
    pid: int = ray.get(coordinator(client).__ray_call__.remote(lambda actor: os.getpid()))
    return pid
