"""A running job on Ray gets 4 subtasks instead of 2 with a million keys in LMDB: how long nothing comes out.

Fills the state as fast as it goes, then reads a thousand records a second and rescales. The pause is the
longest time between two results of the whole job, as its sinks see it; beside it what the statistics say.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import Sink, SinkWriter, Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch

from .jobs.parts import TRIPLE, CountSum, KeyOf
from .jobs.probes import completed_since, wait_for
from .parts import row
from .plan import K_LARGE

GOAL_S = 5.0
SPLITS = 8
ROUNDS = 3
PACE_S = 0.01
SETTLE_S = 3.0


class FilledNumbers(Source):
    """All keys once as fast as it goes, then ten records of each split every hundredth of a second."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(number, number) for number in range(SPLITS)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _FilledReader(splits, self._keys)


class _FilledReader(SourceReader):
    def __init__(self, splits: list[Any], keys: int) -> None:
        self._positions = dict(splits)
        self._keys = keys
        self._next_s = 0.0

    def poll(self, max_records: int) -> Batch:
        for split, position in self._positions.items():
            if position < self._keys:
                return self._read(split, position, min(max_records, self._keys // SPLITS))
        now_s = time.monotonic()
        if now_s < self._next_s or not self._positions:
            return Batch([])
        self._next_s = now_s + PACE_S
        split = min(self._positions, key=lambda each: self._positions[each])
        return self._read(split, self._positions[split], 10)

    def _read(self, split: int, position: int, count: int) -> Batch:
        end = position + count * SPLITS
        self._positions[split] = end
        return Batch(list(range(position, end, SPLITS)))

    def snapshot_state(self) -> list[Any]:
        return list(self._positions.items())


class ClockSink(Sink):
    """Writes down when results came."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def create_writer(self) -> SinkWriter:
        return _ClockWriter(self._directory)


class _ClockWriter(SinkWriter):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self, context: Any) -> None:
        name = f"{context.subtask_index}-{os.getpid()}-{time.time_ns()}"
        self._file = open(Path(self._directory) / name, "w", buffering=1)  # noqa: SIM115 (until it is closed)

    def write_batch(self, values: list[Any]) -> None:
        self._file.write(f"{time.time():.4f}\n")

    def close(self) -> None:
        self._file.close()


def job(directory: Path, keys: int) -> StreamExecutionEnvironment:
    """Numbers, counted and summed by key."""
    settings = Configuration()
    options = {
        "execution.target": "ray",
        "parallelism.default": "2",
        "state.backend.type": "lmdb",
        "tidegate.local-dir": str(directory / "local"),
        "tidegate.slot.cpus": "0.5",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
    }
    for key, value in options.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = FilledNumbers(keys)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    by_key = numbers.uid("numbers").key_by(KeyOf(keys), key_type=Types.LONG())
    results = by_key.process(CountSum(), output_type=TRIPLE).name("count").uid("count")
    results.sink_to(ClockSink(str(directory / "clock"))).name("clock").uid("clock")
    return env


def times_since(directory: Path, since_s: float) -> list[float]:
    """When results came, in order."""
    lines = (path.read_text().split() for path in (directory / "clock").iterdir())
    return sorted(at for times in lines for at in map(float, times) if at >= since_s)


def longest_gap_s(times: Sequence[float]) -> float:
    """The longest time without a result."""
    return max(after - before for before, after in pairwise(times))


def measure(keys: int) -> tuple[float, float]:
    """Seconds without a result, and without a running task as the statistics have it."""
    with tempfile.TemporaryDirectory(prefix="tidegate-rescale-") as name:
        directory = Path(name)
        (directory / "clock").mkdir()
        client = job(directory, keys).execute_async("rescale")
        try:
            return rescaled(client, directory, keys)
        finally:
            client.close()


def rescaled(client: JobClient, directory: Path, keys: int) -> tuple[float, float]:
    """Rescale the job once its state is full and in a checkpoint."""
    wait_for("a full state", lambda: is_full(client, keys), 0.5)
    full_ms = time.time() * 1_000
    wait_for("a checkpoint of it", lambda: completed_since(client, full_ms), 0.1)
    since_s = time.time()
    client.rescale(4, timeout_s=120)
    wait_for("results", lambda: time.time() - since_s > SETTLE_S and times_since(directory, since_s), 0.5)
    time.sleep(SETTLE_S)
    (rescale,) = client.report().statistics.rescales
    assert set(rescale.to_parallelism.values()) == {4}
    return longest_gap_s(times_since(directory, since_s)), rescale.pause_ms / 1_000


def is_full(client: JobClient, keys: int) -> bool:
    """Whether all keys have been counted."""
    subtasks = client.details().subtasks
    return sum(each.metrics.records_out for each in subtasks if each.subtask.task_id == "task-1") >= keys


def main() -> None:
    """Rescale once per round and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    keys, rounds = (K_LARGE // 10, 1) if options.quick else (K_LARGE, options.rounds)
    found = sorted(measure(keys) for _ in range(rounds))
    gaps, pauses = [gap for gap, _ in found], sorted(pause for _, pause in found)
    middle_s = gaps[len(gaps) // 2]
    row(
        f"rescale 2 to 4 on Ray, K={keys:,}: longest time without a result <= {GOAL_S:g} s",
        f"{middle_s:.2f} s ({gaps[0]:.2f} to {gaps[-1]:.2f}); by the statistics "
        f"{pauses[len(pauses) // 2]:.2f} s ({pauses[0]:.2f} to {pauses[-1]:.2f})",
        middle_s <= GOAL_S,
    )


if __name__ == "__main__":
    main()
