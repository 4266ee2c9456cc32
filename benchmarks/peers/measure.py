"""What every measured program shares: its orders, its stopwatch and its tally.

Standard library only, because it runs inside each peer's own environment. The clock is
`time.monotonic_ns`, which on Linux is one clock for all processes of the machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MULTIPLIER = 2654435761
WINDOW_MS = 10_000
RECORDS_PER_MS = 10
DISORDER_MS = 500
JOIN_BLOCK = 1024


def event_time_ms(i: int) -> int:
    """W4's event time of record i: ten records a millisecond, each up to half a second out of order."""
    return i // RECORDS_PER_MS + DISORDER_MS - i * 40503 % DISORDER_MS


def right_id(i: int) -> int:
    """W6's id of the right stream's i-th record: the left one's ids, shuffled in blocks."""
    return i - i % JOIN_BLOCK + i * 613 % JOIN_BLOCK


@dataclass(frozen=True)
class Orders:
    """One run, as the harness orders it.

    Attributes:
        workload: what to run: a name of `plan.Case`, or `W5-fill`.
        records: records the source emits (0 … records-1).
        keys: number of distinct keys K.
        marks_dir: directory the program leaves its time stamps and sums in.
        state_dir: directory for checkpoints or recovery stores.
        backend: name of the state backend, where the system has several.
        parallelism: subtasks of each operator.
        shell: `local` or `ray` (Tidegate only).
        interval_ms: checkpoint interval; 0 means none.
        restore_path: checkpoint to start from; empty means a fresh start.
        fill_records: `W5-fill` reports as soon as the sink has seen this many records.
        rate: records a second that a paced source emits; 0 for as fast as it can.
        warmup_records: the first of a paced source's records, whose latencies are not counted.
        mode: which of its ways a peer takes, such as `process` for PyFlink; empty for the usual one.
        events: the file with the events of a Nexmark query.
    """

    workload: str
    records: int
    keys: int
    marks_dir: str
    state_dir: str
    backend: str = "hashmap"
    parallelism: int = 1
    shell: str = "local"
    interval_ms: int = 0
    restore_path: str = ""
    fill_records: int = 0
    rate: int = 0
    warmup_records: int = 0
    mode: str = ""
    events: str = ""

    @classmethod
    def from_argv(cls) -> Orders:
        """Reads the orders from the program's only argument, a JSON object."""
        return cls(**json.loads(sys.argv[1]))


def leave_mark(marks_dir: str, name: str, **facts: Any) -> None:
    """Writes one mark atomically, so that the harness never reads half of it.

    A mark tells by which process and at which of its CPU times it was left.
    """
    stamped = {"at_ns": time.monotonic_ns(), "pid": os.getpid(), "cpu_ns": time.process_time_ns(), **facts}
    target = Path(marks_dir) / f"{name}.json"
    draft = target.with_suffix(f".{os.getpid()}.draft")
    draft.write_text(json.dumps(stamped))
    draft.replace(target)


class Tally:
    """Counts and sums what reaches the sink; the sums prove the answer right.

    For `(key, count, sum)` results the running counts and running sums are added up over
    all records, so one lost, doubled or misplaced update anywhere changes the result.
    """

    def __init__(self, orders: Orders, subtask: int | str = 0) -> None:
        self.orders = orders
        self.subtask = subtask
        self.records = 0
        self.counts = 0
        self.sums = 0
        self.squares = 0
        # Of the source, where it cannot stop at the ordered number.
        self.source_records = 0
        self.last_ns = 0
        self.awaits_first = bool(orders.restore_path)
        self._filled = False

    def add_numbers(self, numbers: list[int]) -> None:
        """Takes a batch of W1."""
        self.records += len(numbers)
        self.last_ns = time.monotonic_ns()

    def add_triples(self, triples: Iterable[Any]) -> None:
        """Takes a batch of `(key, count, sum)`."""
        records = counts = sums = 0
        triple = None
        for triple in triples:
            records += 1
            counts += triple[1]
            sums += triple[2]
        if triple is None:
            return
        self.records += records
        self.counts += counts
        self.sums += sums
        self.last_ns = time.monotonic_ns()
        if self.orders.fill_records and self.records >= self.orders.fill_records:
            self._report_fill()
        if self.awaits_first:
            self.first(list(triple))

    def add_sums(self, records: int, counts: int, sums: int) -> None:
        """Takes a batch whose columns have been summed up already."""
        self.records += records
        self.counts += counts
        self.sums += sums
        self.last_ns = time.monotonic_ns()

    def add_windows(self, results: Iterable[Any]) -> None:
        """Takes a batch of W4's `(key, start of the window in ms, count, sum)`.

        Sums weighted by the window's number tell a record in a wrong window, squared counts one with a
        wrong key.
        """
        for _, start_ms, count, total in results:
            self.records += 1
            self.counts += count
            self.sums += total * (start_ms // WINDOW_MS + 1)
            self.squares += count * count
        self.last_ns = time.monotonic_ns()

    def end_of_commit(self) -> None:
        """Stamps the time for systems whose results come row by row in commits."""
        self.last_ns = time.monotonic_ns()
        if self.orders.fill_records and self.counts >= self.orders.fill_records:
            self._report_fill()

    def first(self, triple: list[int]) -> None:
        """Reports a result of the first batch after a restart."""
        self.awaits_first = False
        leave_mark(self.orders.marks_dir, "first", triple=triple)

    def _report_fill(self) -> None:
        if not self._filled:
            self._filled = True
            leave_mark(self.orders.marks_dir, "filled", records=self.records)

    def close(self) -> None:
        """Leaves the sums of this sink subtask for the harness."""
        leave_mark(
            self.orders.marks_dir,
            f"end-{self.subtask}",
            last_ns=self.last_ns,
            records=self.records,
            counts=self.counts,
            sums=self.sums,
            squares=self.squares,
            source_records=self.source_records,
        )
