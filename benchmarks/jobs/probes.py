"""Jobs that are watched while they run: their folders, and functions that leave marks."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.datastream import KeyedProcessFunction, RuntimeContext, Sink, SinkWriter

from .. import environments
from ..peers.measure import Orders, leave_mark
from .parts import CountSum

ENDLESS = 1_000_000_000
WAIT_LIMIT_S = 300.0


def orders_for(name: str, shell: str, keys: int, backend: str, records: int = ENDLESS, **more: Any) -> Orders:
    """Orders for a job, endless unless told otherwise, in empty folders of its own."""
    folder = environments.cache_dir() / "probes" / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "marks").mkdir(parents=True)
    (folder / "state").mkdir()
    return Orders(
        workload="W3",
        records=records,
        keys=keys,
        marks_dir=str(folder / "marks"),
        state_dir=str(folder / "state"),
        backend=backend,
        shell=shell,
        **more,
    )


def shell_option(description: str | None) -> argparse.ArgumentParser:
    """A command line with `--shell`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shell", choices=("local", "ray"), default="ray")
    return parser


def wait_for(what: str, condition: Callable[[], Any], pause_s: float = 0.01) -> Any:
    """Asks until the answer is true and returns it.

    Args:
        what: what is waited for.
        condition: the question; one that goes to the coordinator takes part of a core.
        pause_s: seconds between two questions.

    Raises:
        TimeoutError: it was not within five minutes.
    """
    end = time.monotonic() + WAIT_LIMIT_S
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(pause_s)
    raise TimeoutError(f"{what}: not within {WAIT_LIMIT_S:.0f} s")


def mark(orders: Orders, name: str) -> dict[str, Any] | None:
    """A mark the job has left, or None."""
    path = Path(orders.marks_dir) / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def first_since(orders: Orders, since_ns: int) -> dict[str, Any] | None:
    """The mark of a `WatchedCountSum` that gave its first result after a moment, or None."""
    marks = (json.loads(path.read_text()) for path in Path(orders.marks_dir).glob("first-*.json"))
    return next((each for each in marks if each["at_ns"] > since_ns), None)


def completed_since(client: Any, since_ms: float) -> list[Any]:
    """The statistics of the completed checkpoints that were triggered after a moment."""
    return [
        one
        for one in client.report().statistics.checkpoints
        if one.outcome.value == "completed" and one.triggered_ms >= since_ms
    ]


class WatchedCountSum(CountSum):
    """`CountSum` that tells its process id, and its first result of each attempt."""

    def __init__(self, marks_dir: str) -> None:
        self._marks_dir = marks_dir
        self._first = True

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._attempt = runtime_context.get_attempt_number()
        leave_mark(self._marks_dir, f"open-{self._attempt}", pid=os.getpid())

    def process_element(
        self, value: int, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        for triple in super().process_element(value, ctx):
            if self._first:
                self._first = False
                leave_mark(self._marks_dir, f"first-{self._attempt}", triple=triple)
            yield triple


class SlowSink(Sink):
    """Takes a fixed time for each record.

    Args:
        record_us: microseconds per record.
    """

    def __init__(self, record_us: float) -> None:
        self._record_us = record_us

    def create_writer(self) -> SinkWriter:
        return _SlowWriter(self._record_us)


class _SlowWriter(SinkWriter):
    def __init__(self, record_us: float) -> None:
        self._record_us = record_us

    def write_batch(self, values: list[Any]) -> None:
        time.sleep(len(values) * self._record_us / 1e6)
