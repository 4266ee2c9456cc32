"""The operator: what a task chains and drives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..common.errors import TidegateError, UserCodeError
from ..common.typeinfo import TypeInformation
from ..protocol.elements import Batch, CheckpointBarrier
from ..protocol.handles import KeyedStateHandle, OperatorSnapshot
from ..protocol.ids import Attempt, CheckpointId, JobId
from ..state.backend import FrozenKeyedState, KeyedStateBackend
from ..state.operator_state import FrozenOperatorState, OperatorStateBackend

Emit = Callable[[Batch], None]


class ResultPort(Protocol):
    """Where an operator hands records to the driver."""

    def offer(self, key: str, values: list[Any]) -> None:
        """Send records; `key` makes a repeated delivery recognisable."""

    def unconfirmed(self) -> int:
        """How many of the last offers the driver may not have received yet."""

    def has_credit(self) -> bool:
        """Whether the driver has taken enough of what was offered before."""


@dataclass
class OperatorContext:
    """One operator's place in the job, and the services it may use."""

    operator_uid: str
    operator_name: str
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt: Attempt
    attempt_number: int
    is_checkpointing: bool
    is_restored: bool
    now_ms: Callable[[], int]
    create_keyed_backend: Callable[[TypeInformation | None], KeyedStateBackend]
    operator_state: OperatorStateBackend
    local_dir: str
    results: ResultPort
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    job_id: JobId = field(default=JobId(""))

    @property
    def name_with_subtask(self) -> str:
        """`name (1/2)`: the operator's name, the subtask's number from 1, the parallelism."""
        return f"{self.operator_name} ({self.subtask_index + 1}/{self.parallelism})"


@dataclass(slots=True)
class FrozenOperator:
    """The synchronous part of one operator's snapshot; `persist` is the asynchronous part."""

    frozen_keyed: FrozenKeyedState | None
    frozen_lists: FrozenOperatorState

    def persist(self) -> OperatorSnapshot:
        """Write what was frozen; runs off the task's thread."""
        keyed = KeyedStateHandle() if self.frozen_keyed is None else self.frozen_keyed.persist()
        return OperatorSnapshot(keyed, self.frozen_lists.persist())


class StreamOperator(ABC):
    """Processes batches and takes part in snapshots.

    An instance travels pickled from the driver; `setup` is its first call in a task. All calls come
    from one thread, one at a time.
    """

    context: OperatorContext
    emit: Emit
    keyed: KeyedStateBackend | None = None

    def validate(self) -> None:
        """Called in the driver before the job starts: raise `ConfigurationError` if it cannot run."""

    def setup(self, context: OperatorContext, emit: Emit) -> None:
        """Bind to the subtask; state is not there yet."""
        self.context = context
        self.emit = emit

    def open(self) -> None:
        """State is restored: prepare for the first record."""

    @abstractmethod
    def process_batch(self, batch: Batch, input_index: int) -> None:
        """Process records of one input and emit the results."""

    def process_watermark(self, timestamp_ms: int) -> None:
        """Event time reached `timestamp_ms`."""

    def is_ready(self) -> bool:
        """Whether the operator can take a batch now (a sink may have to wait)."""
        return True

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        """The last chance to emit before the barrier. An error here fails the task."""

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        """The synchronous part of the snapshot: O(what changed), never O(state)."""
        frozen = self.keyed.freeze() if self.keyed is not None else None
        return FrozenOperator(frozen, self.context.operator_state.snapshot())

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete, perhaps an earlier one than this operator's latest."""

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint will not complete."""

    def finish(self) -> None:
        """All input ended: emit what is still held."""

    def close(self) -> None:
        """Release everything; called once, also after a failure."""
        if self.keyed is not None:
            self.keyed.close()

    def user_error(self, action: str, error: BaseException, record: object = None) -> TidegateError:
        """The error to raise when user code failed in `action`. Errors of our own pass unchanged."""
        if isinstance(error, TidegateError):
            return error
        shown = f" on the record {_shortened(record)}" if record is not None else ""
        return UserCodeError(
            f"operator {self.context.name_with_subtask}: {action} raised "
            f"{type(error).__name__}: {error}{shown}"
        )


def rows(batch: Batch) -> list[Any]:
    """The records of a batch as Python objects; an Arrow batch gives one tuple per row."""
    values = batch.values
    if isinstance(values, list):
        return values
    columns: Sequence[list[Any]] = [column.to_pylist() for column in values.columns]
    return list(zip(*columns))


def _shortened(record: object, limit: int = 200) -> str:
    text = repr(record)
    return text if len(text) <= limit else text[:limit] + "…"
