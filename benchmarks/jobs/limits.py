"""What the machine and the libraries below allow, with no engine around; run as the other workloads are."""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..peers.measure import (
    DISORDER_MS,
    MULTIPLIER,
    RECORDS_PER_MS,
    WINDOW_MS,
    Orders,
    Tally,
    leave_mark,
)

Array = npt.NDArray[np.int64]
ROWS = 65_536
BATCH = 4_096
# Messages on their way to the other actor.
IN_FLIGHT = 8


def numbers_of(orders: Orders) -> list[Array]:
    """All records in batches, made beforehand: their making is not measured."""
    return [
        np.arange(first, min(first + ROWS, orders.records), dtype=np.int64)
        for first in range(0, orders.records, ROWS)
    ]


def running_totals(orders: Orders) -> None:
    """W2 with arrays for state and one stable sort a batch."""
    tally = Tally(orders)
    counts, sums = np.zeros(orders.keys, np.int64), np.zeros(orders.keys, np.int64)
    leave_mark(orders.marks_dir, "start")
    for first in range(0, orders.records, ROWS):
        numbers = np.arange(first, min(first + ROWS, orders.records), dtype=np.int64)
        keys = numbers * MULTIPLIER % orders.keys
        order = np.argsort(keys, kind="stable")
        grouped, values = keys[order], numbers[order]
        is_first = np.empty(len(grouped), bool)
        is_first[0] = True
        np.not_equal(grouped[1:], grouped[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        group = np.cumsum(is_first) - 1
        running = np.cumsum(values)
        before = (running[starts] - values[starts])[group]
        found = np.arange(len(grouped)) - starts[group] + 1 + counts[grouped]
        totals = running - before + sums[grouped]
        ends = np.append(starts[1:], len(grouped)) - 1
        counts[grouped[ends]], sums[grouped[ends]] = found[ends], totals[ends]
        results = np.empty((2, len(grouped)), np.int64)
        results[:, order] = found, totals
        tally.add_sums(len(grouped), int(results[0].sum()), int(results[1].sum()))
    tally.close()


def windows(orders: Orders) -> None:
    """W4 with one array per window."""
    tally = Tally(orders)
    open_windows: dict[int, tuple[Array, Array]] = {}
    leave_mark(orders.marks_dir, "start")
    for first in range(0, orders.records, ROWS):
        numbers = np.arange(first, min(first + ROWS, orders.records), dtype=np.int64)
        keys = numbers * MULTIPLIER % orders.keys
        times = numbers // RECORDS_PER_MS + DISORDER_MS - numbers * 40503 % DISORDER_MS
        window = times // WINDOW_MS
        for each in np.unique(window).tolist():
            mine = window == each
            counts, sums = open_windows.setdefault(
                each, (np.zeros(orders.keys, np.int64), np.zeros(orders.keys, np.int64))
            )
            counts += np.bincount(keys[mine], minlength=orders.keys)
            # Sums of a batch stay below 2^53, so the float weights are exact.
            sums += np.bincount(keys[mine], numbers[mine], orders.keys).astype(np.int64)
        watermark_ms = int(times.max()) - DISORDER_MS
        for each in [w for w in open_windows if (w + 1) * WINDOW_MS <= watermark_ms]:
            _fire(tally, each, *open_windows.pop(each))
    for each, (counts, sums) in open_windows.items():
        _fire(tally, each, counts, sums)
    tally.close()


def _fire(tally: Tally, window: int, counts: Array, sums: Array) -> None:
    keys = np.flatnonzero(counts)
    starts = [window * WINDOW_MS] * len(keys)
    tally.add_windows(zip(keys.tolist(), starts, counts[keys].tolist(), sums[keys].tolist()))


def arrow_copy(orders: Orders) -> None:
    """Two columns of 64 bits, copied: what passing a record through memory costs at least."""
    batch = pa.record_batch({"k": np.arange(ROWS), "v": np.arange(ROWS)})
    sources = [column.buffers()[1] for column in batch.columns]
    targets = [bytearray(buffer.size) for buffer in sources]
    views = [memoryview(buffer) for buffer in sources]

    def copy() -> int:
        for target, view in zip(targets, views):
            target[:] = view
        return ROWS

    _timed(orders, copy)


def pickled(orders: Orders) -> None:
    """Lists of pairs, pickled and read back, as they travel between processes."""
    batch = [(i * MULTIPLIER % 10_000, i) for i in range(BATCH)]
    _timed(orders, lambda: len(pickle.loads(pickle.dumps(batch, 5))))


def ray_messages(orders: Orders) -> None:
    """Lists of pairs, pickled, to another actor of a Ray of its own, answered when they are read."""
    import ray

    ray.init(address="local", include_dashboard=False, _system_config={"worker_niceness": 0})

    class Receiver:
        def take(self, message: bytes) -> int:
            return len(pickle.loads(message))

    receiver: Any = ray.remote(Receiver).remote()
    batch = [(i * MULTIPLIER % 10_000, i) for i in range(BATCH)]
    ray.get(receiver.take.remote(pickle.dumps(batch, 5)))
    waiting: list[Any] = []

    def send() -> int:
        if len(waiting) == IN_FLIGHT:
            ray.get(waiting.pop(0))
        waiting.append(receiver.take.remote(pickle.dumps(batch, 5)))
        return BATCH

    _timed(orders, send, lambda: ray.get(waiting))
    ray.shutdown()


def lmdb_put(orders: Orders) -> None:
    """Sorted keys of 8 bytes with values of 16, in transactions of 64k."""
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(folder)
        batches = iter(_entries(orders))

        def put() -> int:
            entries = next(batches)
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(entries)
            return len(entries)

        _timed(orders, put)
        environment.close()


def lmdb_get(orders: Orders) -> None:
    """The same entries, read at random in one transaction a batch."""
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(folder)
        for entries in _entries(orders):
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(entries)
        random = np.random.default_rng(7)

        def get() -> int:
            wanted = random.integers(0, orders.records, ROWS)
            with environment.begin(buffers=True) as transaction:
                transaction.cursor().getmulti([_key(number) for number in wanted.tolist()])
            return ROWS

        _timed(orders, get)
        environment.close()


def _environment(folder: str) -> Any:
    import lmdb

    return lmdb.open(folder, map_size=4 << 30, sync=False, writemap=False)


def _entries(orders: Orders) -> list[list[tuple[bytes, bytes]]]:
    return [[(_key(i), bytes(16)) for i in numbers.tolist()] for numbers in numbers_of(orders)]


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _timed(orders: Orders, step: Callable[[], int], finish: Callable[[], object] = lambda: None) -> None:
    """Takes steps, each of which tells its number of records, until all are through."""
    leave_mark(orders.marks_dir, "start")
    done = 0
    while done < orders.records:
        done += step()
    finish()
    leave_mark(orders.marks_dir, "end-0", last_ns=time.monotonic_ns(), source_records=done)


LIMITS = {
    "W2": running_totals,
    "W4": windows,
    "arrow copy": arrow_copy,
    "pickle": pickled,
    "ray messages": ray_messages,
    "lmdb put": lmdb_put,
    "lmdb get": lmdb_get,
}


if __name__ == "__main__":
    order = Orders.from_argv()
    LIMITS[order.workload](order)
