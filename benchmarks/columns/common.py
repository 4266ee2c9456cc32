"""What the benchmarks of columns share: batches, rates by the clock and by CPU time, one operator alone."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from tidegate.common.typeinfo import TypeInformation
from tidegate.operators.base import OperatorContext, StreamOperator
from tidegate.operators.columnar.aggregate_functions import Count, Sum
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columnar_aggregate import Aggregates
from tidegate.operators.output import Output, Receiver
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import Attempt, CheckpointId
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.checkpoint_storage import open_storage

ROUNDS = 3
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
COUNT_AND_SUM = {"count": Count(), "total": Sum("v")}


def count_and_sum() -> Aggregates:
    """A running count and sum per key."""
    return Aggregates(ColumnKey("k", SCHEMA), COUNT_AND_SUM, SCHEMA)


def prepare_process() -> None:
    """Collector thresholds and switch interval as in a task's process."""
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.001)


def batches(key_count: int, rows: int, count: int = 32, seed: int = 7) -> list[pa.RecordBatch]:
    """Uniformly random keys, spread over the integers, with small values."""
    rng = np.random.default_rng(seed)
    return [
        pa.record_batch(
            {"k": rng.integers(0, key_count, rows) * 1_000_003, "v": rng.integers(0, 100, rows)},
            schema=SCHEMA,
        )
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Rate:
    """Millions of records a second, by the clock and per second of this process's own processor time."""

    wall: float
    cpu: float

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.wall:.2f} M/s ({self.cpu:.2f} M per CPU second)"


@contextmanager
def timed(records: int, rates: list[Rate]) -> Iterator[None]:
    """Append the rate of what runs inside."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rates.append(Rate(records / wall / 1e6, records / cpu / 1e6))


def median(rates: list[Rate]) -> Rate:
    """The median of each."""
    return Rate(statistics.median(rate.wall for rate in rates), statistics.median(rate.cpu for rate in rates))


class OneOperator:
    """An operator driven as a task drives it, with checkpoints on another thread.

    Args:
        directory: Of its checkpoints; None takes none.
    """

    def __init__(self, operator: StreamOperator, backend: StateBackend, directory: str | None) -> None:
        self.operator = operator
        self.results = 0
        self.sync_ms: list[float] = []
        self._backend = backend
        self._directory = directory
        self._executor = ThreadPoolExecutor(1)
        self._last: Future[Any] | None = None
        self._checkpoints = 0
        self._checkpointed = time.perf_counter()
        storage = None if directory is None else open_storage(f"{directory}/checkpoints")
        self._storage = storage
        context = OperatorContext(
            operator_uid="bench",
            operator_name="bench",
            subtask_index=0,
            parallelism=1,
            max_parallelism=128,
            attempt=Attempt(1),
            attempt_number=0,
            is_checkpointing=storage is not None,
            is_restored=False,
            now_ms=lambda: 0,
            create_keyed_backend=self._keyed_backend,
            operator_state=OperatorStateBackend(
                OperatorStateBackendParameters("bench", "bench", 0, 1, storage, "bench")
            ),
            local_dir=f"{directory}/local",
            results=None,  # type: ignore[arg-type]
            processing_time=ProcessingTimeService(lambda: 0),
            mailbox=lambda action: action(),
        )
        operator.setup(context, Output([Receiver(self._take, _ignore, _ignore)]))
        operator.open()

    def run(self, inputs: list[Batch], seconds: float) -> int:
        """Process batches again and again for some seconds; how many records."""
        start = time.perf_counter()
        done = at = 0
        while time.perf_counter() - start < seconds:
            batch = inputs[at % len(inputs)]
            self.step(batch)
            done, at = done + len(batch), at + 1
        return done

    def step(self, batch: Batch) -> None:
        """Process a batch, and checkpoint if the last one was a second ago and is stored."""
        self.operator.process_batch(batch, 0)
        now = time.perf_counter()
        is_stored = self._last is None or self._last.done()
        if self._directory is not None and now - self._checkpointed >= 1 and is_stored:
            self._checkpoint()
            self._checkpointed = now

    def close(self) -> None:
        """Wait for what is under way, and close the operator."""
        self._executor.shutdown(wait=True)
        self.operator.close()

    def _checkpoint(self) -> None:
        if self._last is not None:
            self._last.result()
        self._checkpoints += 1
        start = time.perf_counter()
        frozen = self.operator.snapshot_state(CheckpointBarrier(CheckpointId(self._checkpoints), 0))
        self.sync_ms.append((time.perf_counter() - start) * 1e3)
        self._last = self._executor.submit(frozen.persist)

    def _take(self, batch: Batch) -> None:
        self.results += len(batch)

    def _keyed_backend(self, key_type: TypeInformation | None) -> KeyedStateBackend:
        return self._backend.create_keyed_backend(
            KeyedStateBackendParameters(
                operator_uid="bench",
                operator_name="bench",
                subtask_index=0,
                attempt=1,
                max_parallelism=128,
                key_groups=key_group_range_of_subtask(0, 128, 1),
                key_type=key_type,
                local_dir=f"{self._directory}/local",
                storage=self._storage,
                file_prefix="bench",
            )
        )


def _ignore(change: object) -> None:
    """Nobody is behind the operator."""
