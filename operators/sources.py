"""Sources: splits with positions, readers that are polled, and the operator around them.

The shape is Flink's FLIP-27: a source is divided into splits, each read from a position that is kept
in a checkpoint, so that a restored reader goes on exactly where the snapshot was taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..common import failpoints
from ..common.errors import ConfigurationError
from ..protocol.elements import Batch, CheckpointBarrier
from ..protocol.ids import CheckpointId
from ..state.descriptors import ListStateDescriptor
from ..state.kinds import ListState
from .base import FrozenOperator, OperatorContext, StreamOperator
from .checkpointed import CheckpointHooks


class SourceReader(ABC):
    """Reads the splits of one subtask. All calls come from one thread.

    A reader that is also a `CheckpointListener` hears what becomes of checkpoints.
    """

    def open(self, context: OperatorContext) -> None:
        """Called once before the first poll."""

    @abstractmethod
    def poll(self, max_records: int) -> Batch | None:
        """The next records, without waiting for them.

        Args:
            max_records: At most so many records (an Arrow batch may round up to its own size).

        Returns:
            A batch, an empty one if nothing is there yet, or `None` when all splits are exhausted.
        """

    @abstractmethod
    def snapshot_state(self) -> list[Any]:
        """The splits with their positions: picklable, and independent of later polls."""

    def close(self) -> None:
        """Release everything; called once, also after a failure."""


class Source(ABC):
    """Describes where records come from. Picklable; it travels from the driver to the tasks."""

    @abstractmethod
    def create_splits(self, parallelism: int) -> list[Any]:
        """All splits at their start, the same list in every process and on every run."""

    @abstractmethod
    def create_reader(self, splits: list[Any]) -> SourceReader:
        """A reader for some splits, as created or as a reader's `snapshot_state` returned them."""

    def max_source_parallelism(self) -> int | None:
        """The most subtasks that can share the work, or `None` if any number can."""
        return None

    def colocation_group(self) -> str | None:
        """Name of the group of operators that must share a process with the reader, if any."""
        return None

    def validate(self) -> None:
        """Called in the driver before the job starts: raise `ConfigurationError` if it cannot run."""


class PolledOperator(StreamOperator):
    """The head of a task without input: the task asks it for records."""

    @abstractmethod
    def poll(self, max_records: int) -> bool:
        """Emit the next records; whether there were any. Raises `EndOfSource` at the end."""

    @abstractmethod
    def stop(self) -> bool:
        """The input is to end here, whatever it still has.

        Returns:
            True if it ends at once, false if `poll` will raise `EndOfSource` soon.
        """

    def try_pause(self) -> bool:
        """Keep everything as it is until `resume`: a snapshot is due. False if it has to come later."""
        return True

    def resume(self) -> None:
        """Go on after `try_pause`."""

    def process_batch(self, batch: Batch, input_index: int) -> None:
        raise ConfigurationError(f"operator {self.context.operator_name!r} is a source without input")


class SourceOperator(PolledOperator):
    """Polls a reader; its splits are even-split list state, so they move on a rescale."""

    STATE_NAME = "_source_splits"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._reader: SourceReader | None = None
        self._splits: ListState[Any]
        self._hooks: CheckpointHooks

    def validate(self) -> None:
        self._source.validate()

    def declare_states(self) -> None:
        self._splits = self.context.operator_state.get_list_state(ListStateDescriptor(self.STATE_NAME, None))

    def open(self) -> None:
        self.declare_states()
        context = self.context
        try:
            if context.is_restored:
                splits = list(self._splits.get())
            else:
                every = self._source.create_splits(context.parallelism)
                splits = every[context.subtask_index :: context.parallelism]
            self._reader = self._source.create_reader(splits)
            self._hooks = CheckpointHooks(self._reader)
            self._reader.open(context)
        except Exception as error:
            raise self.user_error("opening the source", error) from error

    def poll(self, max_records: int) -> bool:
        assert self._reader is not None
        try:
            batch = self._reader.poll(max_records)
        except Exception as error:
            raise self.user_error("reading the source", error) from error
        if batch is None:
            raise EndOfSource
        if len(batch):
            failpoints.reach("process")
            self.emit(batch)
        return len(batch) > 0

    def stop(self) -> bool:
        return True

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        assert self._reader is not None
        try:
            self._splits.update(self._reader.snapshot_state())
        except Exception as error:
            raise self.user_error("snapshotting the source", error) from error
        return super().snapshot_state(barrier)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        try:
            self._hooks.complete(checkpoint_id)
        except Exception as error:
            raise self.user_error(f"telling the source of checkpoint {checkpoint_id}", error) from error

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        try:
            self._hooks.aborted(checkpoint_id)
        except Exception as error:
            raise self.user_error(f"telling the source of checkpoint {checkpoint_id}", error) from error

    def close(self) -> None:
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                reader.close()
        except Exception as error:
            raise self.user_error("closing the source", error) from error
        finally:
            super().close()


class EndOfSource(Exception):
    """All splits of a reader are exhausted. Control flow between operator and task only."""
