"""A stage of simulated jobs whose epochs run in virtual time: any time, in any order, sometimes twice."""

from __future__ import annotations

import heapq
import pickle
import zlib
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

from ...operators.base import OperatorContext
from ...operators.epoch_stage import EpochStageOperator
from ...operators.output import Output
from ...protocol.elements import Batch, RowBatch
from ...protocol.stages.epochs import EpochLimits
from .simulated_operators import Pass

_LONGEST_START_MS = 20
_LONGEST_RUN_MS = 20


class SimulatedStage(EpochStageOperator):
    """Leaves its mark on each record. An epoch returns its records in another order each time.

    Args:
        uid: Of the stage.
        seed: What its runs take depends on it.
    """

    def __init__(self, uid: str, seed: int) -> None:
        random = Random(seed)
        super().__init__(
            EpochLimits(
                max_records=random.choice((5, 20, 1_000)),
                interval_ms=random.choice((0, 3, 20)),
                max_running=random.choice((1, 2, 3)),
                buffer_bytes=random.choice((2_000, 1 << 20)),
                memory_bytes=1 << 20,
            )
        )
        self.most_emitted = random.choice((1, 3, 1_000))
        self._mark = Pass(uid)
        self._seed = seed

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        place = f"{self._seed} {context.operator_uid} {context.subtask_index} {int(context.attempt)}"
        self._ends: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._random = Random(zlib.crc32(place.encode()))

    def to_table(self, batch: Batch) -> pa.Table:
        return _table(batch.rows())

    def start_runner(self, started: Callable[[], None]) -> None:
        self._after(_LONGEST_START_MS, started)

    def is_ready(self) -> bool:
        # A run ends also while the stage is full, when the task's loop runs nothing that is due.
        while self._ends and self._ends[0][0] <= self.context.processing_time.now_ms():
            heapq.heappop(self._ends)[2]()
        return super().is_ready()

    def offer_share(self, number: int, tables: list[pa.Table]) -> list[Any]:
        return [record for table in tables for record in _records(table)]

    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        records = [record for offer in offers for record in offer]
        self._return(records, finished)
        if self._random.random() < 0.2:
            self._return(records, finished)

    def collect_results(self, number: int, part: Any) -> pa.Table:
        return _table(part)

    def _return(self, records: list[Any], finished: Callable[[Sequence[Any]], None]) -> None:
        """Each subtask gets any of the results."""
        returned = list(map(self._mark, records))
        self._random.shuffle(returned)
        parts: list[list[Any]] = [[] for _ in range(self.context.parallelism)]
        for record in returned:
            self._random.choice(parts).append(record)
        self._after(_LONGEST_RUN_MS, lambda: finished(parts))

    def _after(self, longest_ms: int, action: Callable[[], None]) -> None:
        clock = self.context.processing_time
        ends_ms = clock.now_ms() + self._random.randint(0, longest_ms)
        heapq.heappush(self._ends, (ends_ms, next(self._numbers), action))
        clock.call_at(ends_ms, lambda: None)

    def emit_results(self, results: pa.Table) -> None:
        self.emit(RowBatch(_records(results)))


def _table(records: list[Any]) -> pa.Table:
    return pa.table({"record": pa.array(list(map(pickle.dumps, records)), pa.binary())})


def _records(table: pa.Table) -> list[Any]:
    return [pickle.loads(each) for each in table["record"].to_pylist()]
