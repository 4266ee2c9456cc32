"""Runs one operator without a task: a context, a list of what it emitted, snapshots on demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import cloudpickle
from tidegate.common.typeinfo import TypeInformation
from tidegate.operators.base import OperatorContext, StreamOperator
from tidegate.operators.output import Output, Receiver
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import Attempt, CheckpointId
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.keyed.raw_state import RawKeyedState, RawKeyedStateParameters
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

O = TypeVar("O", bound=StreamOperator)  # noqa: E741


@dataclass
class Results:
    """A `ResultPort` that keeps what it is offered."""

    offered: list[tuple[str, list[Any]]] = field(default_factory=list)
    credit: bool = True

    def offer(self, key: str, values: list[Any]) -> None:
        self.offered.append((key, list(values)))

    def unconfirmed(self) -> int:
        return 0

    def has_credit(self) -> bool:
        return self.credit


class OperatorUnderTest(Generic[O]):
    """One operator in subtask 1 of 2, pickled as on its way from the driver."""

    def __init__(
        self,
        operator: O,
        restored: OperatorSnapshot | None = None,
        storage: CheckpointStorage | None = None,
        is_checkpointing: bool = True,
        subtask_index: int = 0,
        parallelism: int = 2,
        attempt: int = 1,
        side_outputs: tuple[str, ...] = (),
        state_backend: StateBackend | None = None,
        local_dir: str = "/nonexistent",
    ) -> None:
        self.operator: O = cloudpickle.loads(cloudpickle.dumps(operator))
        self.emitted: list[Batch] = []
        self.watermarks: list[int] = []
        self.statuses: list[bool] = []
        self.sides: dict[str, list[Batch]] = {tag: [] for tag in side_outputs}
        self.now_ms = 0
        self.processing_time = ProcessingTimeService(lambda: self.now_ms)
        self.results = Results()
        # Snapshots carry their files, so that another instance can restore them.
        self.storage = storage or InlineStorage(MemoryCheckpointStorage(), 1 << 20)
        self._state_backend, self._local_dir = state_backend or HashMapStateBackend(), local_dir
        self._index, self._parallelism, self._attempt = subtask_index, parallelism, attempt
        context = OperatorContext(
            operator_uid="uid",
            operator_name="Totals",
            subtask_index=subtask_index,
            parallelism=parallelism,
            max_parallelism=128,
            attempt=Attempt(attempt),
            attempt_number=attempt - 1,
            is_checkpointing=is_checkpointing,
            is_restored=restored is not None,
            now_ms=lambda: self.now_ms,
            processing_time=self.processing_time,
            mailbox=lambda action: action(),
            create_keyed_backend=self._keyed_backend,
            operator_state=OperatorStateBackend(
                OperatorStateBackendParameters(
                    "uid", "Totals", subtask_index, attempt, self.storage, "shared/op-uid"
                )
            ),
            local_dir="/nonexistent",
            results=self.results,
            job_parameters={"airport": "JFK"},
            restored_checkpoint_id=None if restored is None else CheckpointId(7),
            raw_keyed=RawKeyedState(
                RawKeyedStateParameters(
                    "uid",
                    "Totals",
                    subtask_index,
                    attempt,
                    key_group_range_of_subtask(subtask_index, 128, parallelism),
                    self.storage,
                    "shared/op-uid",
                )
            ),
        )
        self.operator.setup(context, self._output())
        if restored is not None:
            self.operator.restore(restored, True)

    def _output(self) -> Output:
        main = Receiver(self.emitted.append, self.watermarks.append, self.statuses.append)
        sides = [Receiver(batches.append, _ignore, _ignore, tag) for tag, batches in self.sides.items()]
        return Output([main, *sides])

    def _keyed_backend(self, key_type: TypeInformation | None) -> KeyedStateBackend:
        parameters = KeyedStateBackendParameters(
            operator_uid="uid",
            operator_name="Totals",
            subtask_index=self._index,
            attempt=self._attempt,
            max_parallelism=128,
            key_groups=key_group_range_of_subtask(self._index, 128, self._parallelism),
            key_type=key_type,
            local_dir=self._local_dir,
            storage=self.storage,
            file_prefix="shared/op-uid",
        )
        return self._state_backend.create_keyed_backend(parameters)

    def open(self) -> OperatorUnderTest[O]:
        self.operator.open()
        return self

    def process(self, values: Any, timestamps: Any = None, keys: Any = None) -> list[Any]:
        """Process one batch; the records emitted for it."""
        before = len(self.emitted)
        self.operator.process_batch(Batch(values, timestamps, keys), 0)
        return [record for batch in self.emitted[before:] for record in batch.values]

    def records(self) -> list[tuple[Any, int | None]]:
        """Every emitted record with its timestamp."""
        pairs: list[tuple[Any, int | None]] = []
        for batch in self.emitted:
            pairs += zip(batch.values, batch.timestamps or [None] * len(batch), strict=True)
        return pairs

    def checkpoint(self, checkpoint_id: int) -> OperatorSnapshot:
        """Prepare, freeze and persist, as a task does at a barrier."""
        barrier = CheckpointBarrier(CheckpointId(checkpoint_id), 0)
        self.operator.prepare_snapshot(barrier)
        return self.operator.snapshot_state(barrier).persist()

    def complete(self, checkpoint_id: int) -> None:
        self.operator.notify_checkpoint_complete(CheckpointId(checkpoint_id))

    def advance_watermark(self, timestamp_ms: int) -> None:
        """Event time reaches a time; everything that is due fires."""
        self.operator.process_watermark(timestamp_ms)
        while self.operator.is_advancing:
            self.operator.advance_further()

    def advance_to(self, now_ms: int) -> None:
        """Let processing time pass and run what is due."""
        self.now_ms = now_ms
        while self.processing_time.run_due():
            pass


def _ignore(change: object) -> None:
    """Watermarks of side outputs are those of the main output."""
