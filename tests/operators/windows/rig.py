"""Runs an operator in several subtasks, and restores its checkpoints with other numbers of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.operators.base import StreamOperator
from tidegate.operators.functions import AggregateFunction
from tidegate.operators.windows.assigners import MergingWindowAssigner
from tidegate.operators.windows.merging_operator import MergingWindowOperator
from tidegate.operators.windows.operator import Windowing, WindowOperator
from tidegate.operators.windows.window_contents import CollectedContents
from tidegate.operators.windows.window_function_calls import window_call
from tidegate.protocol.checkpoints.handles import KeyedStateHandle, OperatorSnapshot
from tidegate.protocol.elements import Batch
from tidegate.protocol.key_groups import key_group_range_of_subtask, subtask_of_key_group
from tidegate.state.backend import StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from ..harness import OperatorUnderTest

LATE = "late"
Record = tuple[Any, Any, int]
"""Key, value and event time."""

BACKENDS: dict[str, Callable[[], StateBackend]] = {
    "memory": HashMapStateBackend,
    "lmdb": lambda: LmdbStateBackend(memory_size_bytes=1, initial_map_size_bytes=1 << 16),
}


def key_of(record: Record) -> Any:
    return record[0]


def everything(key: Any, window: Any, records: list[Record]) -> list[Any]:
    """The window function of most tests: the whole window as one result."""
    return [(key, window, [value for _, value, _ in records])]


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def windowing(
    assigner: Any,
    trigger: Any = None,
    contents: Any = None,
    call: Any = None,
    allowed_lateness_ms: int = 0,
    late_tag_id: str | None = None,
) -> Windowing:
    return Windowing(
        assigner,
        trigger or assigner.get_default_trigger(None),
        contents or CollectedContents(None),
        call or window_call(everything, is_keyed=True, is_process=False),
        allowed_lateness_ms,
        late_tag_id,
    )


def operator_of(windows: Windowing) -> WindowOperator:
    """The operator of the general path."""
    merges = isinstance(windows.assigner, MergingWindowAssigner)
    return (MergingWindowOperator if merges else WindowOperator)(windows, key_of)


class Rig:
    """All subtasks of one operator.

    Args:
        make: Makes the operator.
        directory: For local files of the backend.
    """

    def __init__(self, make: Callable[[], StreamOperator], backend: str, directory: Path) -> None:
        self._make = make
        self._backend = backend
        self._directory = directory
        self._attempt = 0
        self._storage = InlineStorage(MemoryCheckpointStorage(), 1 << 20)
        self.now_ms = 0
        self.subtasks: list[OperatorUnderTest[Any]] = []
        self._earlier: list[tuple[Any, int | None]] = []
        self._earlier_late: list[Record] = []
        self._start(1, None)

    def _start(self, parallelism: int, restored: OperatorSnapshot | None) -> None:
        self._attempt += 1
        self.subtasks = []
        for index in range(parallelism):
            own = None
            if restored is not None:
                key_groups = key_group_range_of_subtask(index, 128, parallelism)
                own = OperatorSnapshot(restored.keyed.restricted_to(key_groups), [])
            subtask = OperatorUnderTest(
                self._make(),
                own,
                self._storage,
                subtask_index=index,
                parallelism=parallelism,
                attempt=self._attempt,
                side_outputs=(LATE,),
                state_backend=BACKENDS[self._backend](),
                local_dir=str(self._directory / f"{self._attempt}-{index}"),
            )
            subtask.now_ms = self.now_ms
            self.subtasks.append(subtask.open())

    def process(self, records: list[Record], input_index: int = 0) -> None:
        """Send records to the subtasks of their keys, each with what it gets in one batch."""
        count = len(self.subtasks)
        for index, subtask in enumerate(self.subtasks):
            own = [r for r in records if subtask_of_key_group(key_group_of(r[0], 128), 128, count) == index]
            if own:
                times = [time for _, _, time in own]
                # As a list, and as the array that they are behind a timestamp assigner.
                timestamps = array("q", times) if len(own) % 2 else times
                subtask.operator.process_batch(Batch(own, timestamps), input_index)

    def advance_watermark(self, timestamp_ms: int, input_index: int = 0) -> None:
        for subtask in self.subtasks:
            subtask.operator.process_watermark(timestamp_ms, input_index)

    def advance_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for subtask in self.subtasks:
            subtask.advance_to(now_ms)

    def rescale(self, parallelism: int) -> None:
        """Take a checkpoint, and restore it in so many new subtasks."""
        self._earlier, self._earlier_late = self.taken(), self.late()
        snapshots = [subtask.checkpoint(self._attempt) for subtask in self.subtasks]
        self.close()
        keyed = KeyedStateHandle.concatenated([snapshot.keyed for snapshot in snapshots])
        self._start(parallelism, OperatorSnapshot(keyed, []))

    def taken(self) -> list[tuple[Any, int | None]]:
        """What was emitted since the last time, with timestamps."""
        pairs = self._earlier + [pair for subtask in self.subtasks for pair in subtask.records()]
        self._earlier = []
        for subtask in self.subtasks:
            subtask.emitted.clear()
        return pairs

    def late(self) -> list[Record]:
        """What came out of the side output since the last time."""
        batches = [batch for subtask in self.subtasks for batch in subtask.sides[LATE]]
        records = self._earlier_late + [record for batch in batches for record in batch.values]
        self._earlier_late = []
        for subtask in self.subtasks:
            subtask.sides[LATE].clear()
        return records

    def close(self) -> None:
        for subtask in self.subtasks:
            subtask.operator.close()
