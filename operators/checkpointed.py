"""Functions that take part in checkpoints: operator state, and word of what became of a checkpoint.

Source of names and semantics: Flink's `CheckpointedFunction`, `ListCheckpointed` and
`CheckpointListener`, which PyFlink does not have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..common.errors import ConfigurationError
from ..protocol.elements import CheckpointBarrier
from ..protocol.ids import CheckpointId
from ..state.backend import KeyedStateBackend
from ..state.descriptors import ListStateDescriptor
from ..state.kinds import ListState
from ..state.operator.operator_state_backend import OperatorStateStore
from .base import OperatorContext
from .runtime_context import KeyedStateStore

LIST_STATE_NAME = "_list_checkpointed"
"""Name of the operator state in which the items of a `ListCheckpointed` function lie."""


class FunctionInitializationContext:
    """What a function finds when it starts."""

    def __init__(self, context: OperatorContext, keyed: KeyedStateBackend | None) -> None:
        self._context = context
        self._keyed = keyed

    def is_restored(self) -> bool:
        """Whether state of this operator is restored, be it empty, as in Flink's documentation.

        False for an operator that is new in the job, and for one that had declared no state.
        """
        return self._context.is_restored

    def get_restored_checkpoint_id(self) -> int | None:
        """The id of the restored checkpoint, or `None` on an empty start."""
        return self._context.restored_checkpoint_id if self._context.is_restored else None

    def get_operator_state_store(self) -> OperatorStateStore:
        """Where lists and broadcast state of this subtask are declared."""
        return self._context.operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Where keyed state is declared; on a stream without keys it refuses."""
        return KeyedStateStore(self._context, self._keyed)


class FunctionSnapshotContext:
    """The checkpoint that is being taken."""

    def __init__(self, barrier: CheckpointBarrier) -> None:
        self._barrier = barrier

    def get_checkpoint_id(self) -> int:
        """Its id; higher than that of any checkpoint triggered before."""
        return self._barrier.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """When it was triggered, in milliseconds since the epoch."""
        return self._barrier.timestamp_ms


class CheckpointedFunction(ABC):
    """A function that keeps operator state, or fills its state just before each snapshot.

    To be inherited beside the function's own class: `class Buffer(SinkFunction, CheckpointedFunction)`.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Declare state and take over what was restored. Called once, before `open`."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the declared state up to date; it is stored right after.

        Runs between two batches on the task's thread, so it should be quick. An exception declines the
        checkpoint.
        """


class ListCheckpointed(ABC):
    """A function whose whole state is one list, split evenly on a change of parallelism.

    Deprecated in Flink in favour of `CheckpointedFunction`; it does the same with less to write.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """The state as items that may end up in different subtasks.

        Args:
            checkpoint_id: Id of the checkpoint.
            timestamp: When it was triggered, in milliseconds since the epoch.
        """

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Take over items. Called before `open`, only after a restore; the list may be empty."""


class CheckpointListener(ABC):
    """A function that is told what became of checkpoints.

    Notifications are best effort: one may be missing, and a completed checkpoint covers all before it.
    An exception fails the task, and the job restarts; the checkpoint stays complete.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: what it covers will not be replayed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete; a later one will cover what it would have covered."""


class CheckpointHooks:
    """Calls what a user's object has of the above.

    Args:
        target: The object.

    Raises:
        ConfigurationError: It is both a `CheckpointedFunction` and a `ListCheckpointed`.
    """

    def __init__(self, target: object) -> None:
        if isinstance(target, CheckpointedFunction) and isinstance(target, ListCheckpointed):
            raise ConfigurationError(
                f"{type(target).__name__} is both a CheckpointedFunction and a ListCheckpointed, whose "
                f"methods have the same names; choose one"
            )
        self._target = target
        self._items: ListState[Any] | None = None

    def initialize(self, context: OperatorContext, keyed: KeyedStateBackend | None) -> None:
        """Before `open`."""
        target = self._target
        if isinstance(target, CheckpointedFunction):
            target.initialize_state(FunctionInitializationContext(context, keyed))
        elif isinstance(target, ListCheckpointed):
            self._items = context.operator_state.get_list_state(ListStateDescriptor(LIST_STATE_NAME))
            if context.is_restored:
                target.restore_state(list(self._items.get()))

    def snapshot(self, barrier: CheckpointBarrier) -> None:
        """In the synchronous part, before the state is encoded."""
        target = self._target
        if isinstance(target, CheckpointedFunction):
            target.snapshot_state(FunctionSnapshotContext(barrier))
        elif isinstance(target, ListCheckpointed):
            assert self._items is not None
            self._items.update(list(target.snapshot_state(barrier.checkpoint_id, barrier.timestamp_ms)))

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete."""
        if isinstance(self._target, CheckpointListener):
            self._target.notify_checkpoint_complete(checkpoint_id)

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint will not complete."""
        if isinstance(self._target, CheckpointListener):
            self._target.notify_checkpoint_aborted(checkpoint_id)
