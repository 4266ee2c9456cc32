"""Sinks: writers, and committers that make what was written visible exactly once.

The shape is Flink's Sink V2. At a barrier the writer hands over *committables*: names of work that is
durable but not visible. They go into the snapshot. When the checkpoint is complete they are committed;
after a restore those in the snapshot are committed again, so a commit must be idempotent.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..common import failpoints
from ..protocol.checkpoints.handles import OperatorSnapshot
from ..protocol.elements import Batch, CheckpointBarrier
from ..protocol.ids import CheckpointId
from ..state.descriptors import ListStateDescriptor
from ..state.kinds import ListState
from .base import FrozenOperator, OperatorContext, StreamOperator
from .checkpointed import CheckpointHooks
from .elementwise import FunctionOperator
from .functions import SinkFunction


class SinkWriter(ABC):
    """Writes the records of one subtask. All calls come from one thread.

    A writer that is also a `CheckpointedFunction` or a `ListCheckpointed` may keep operator state (it is
    initialised before `open`), and as a `CheckpointListener` it hears what becomes of checkpoints: after
    the committer, whose own `notify_checkpoint_complete` always belongs to it.
    """

    def open(self, context: OperatorContext) -> None:
        """Called once before the first record."""

    @abstractmethod
    def write_batch(self, values: list[Any]) -> None:
        """Write some records."""

    def write_elements(self, batch: Batch) -> None:
        """Write a batch as it travels: Arrow columns or records, with event times.

        By default `write_batch` gets its records. A writer that can do more with it overrides this.
        """
        self.write_batch(batch.rows())

    def prepare_commit(self) -> list[Any]:
        """Make everything written so far durable and return its committables (picklable)."""
        return []

    def end_input(self) -> None:
        """The input has ended: the next `prepare_commit` is the last one."""

    def begun(self) -> list[Any]:
        """Names of work that was begun and not handed over (picklable); it goes into the snapshot.

        It belongs to the records behind the barrier. After a restore they come again, so
        `Committer.recover_and_abort` gets the names.
        """
        return []

    def checkpointed(self) -> object:
        """The object that may be a `CheckpointedFunction`, `ListCheckpointed` or `CheckpointListener`."""
        return self

    def is_ready(self) -> bool:
        """Whether the next batch can be taken now; the task asks again shortly when not."""
        return True

    def close(self) -> None:
        """Release everything; what was not handed over as committable is abandoned."""


class Committer(ABC):
    """Makes committables visible."""

    def open(self, context: OperatorContext) -> None:
        """Called once before the first commit."""

    @abstractmethod
    def commit(self, committables: list[Any]) -> None:
        """Make them visible. Must be idempotent: after a failure it is called again."""

    def recover_and_commit(self, committables: list[Any]) -> None:
        """Make visible what a restored checkpoint holds; another subtask may have prepared it."""
        self.commit(committables)

    def recover_and_abort(self, begun: list[Any]) -> None:
        """Throw away what was begun, and not prepared, when the restored checkpoint was taken.

        It may have been committed since, if the restored checkpoint is not the newest: then it stays.
        """

    def unconfirmed(self) -> list[Any]:
        """Committed, but the outside world may lose it again: kept, and committed again after a restore."""
        return []

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint of this attempt is complete, and what it covers is committed.

        So every subtask has also committed again what it restored: what earlier attempts prepared and
        nobody committed can be thrown away now, and not before.
        """

    def close(self) -> None:
        """Release everything."""


class Sink(ABC):
    """Describes where records go. Picklable; it travels from the driver to the tasks."""

    @abstractmethod
    def create_writer(self) -> SinkWriter:
        """A writer for one subtask."""

    def create_committer(self) -> Committer | None:
        """A committer for one subtask, or `None` if writing is all there is (at-least-once)."""
        return None

    def validate(self) -> None:
        """Called in the driver before the job starts: raise `ConfigurationError` if it cannot run."""

    def validate_checkpointing(self, interval_ms: int | None, timeout_ms: int) -> None:
        """Called behind `validate` in a job that takes checkpoints: raise if they do not suit the sink.

        Args:
            interval_ms: Between two checkpoints; `None` if only requests trigger them.
            timeout_ms: How long one may take.
        """


@dataclass(frozen=True, slots=True)
class _Pending:
    """Committables of one checkpoint, waiting for its completion."""

    checkpoint_id: CheckpointId
    committables: list[Any]


@dataclass(frozen=True, slots=True)
class _Begun:
    """Work of the records behind a snapshot's barrier."""

    names: list[Any]


class SinkOperator(StreamOperator):
    """Drives a writer and its committer through the checkpoint life cycle.

    What is pending is a list of items that an even split may give to any subtask after a rescale.
    """

    STATE_NAME = "_pending_commits"

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._pending: list[_Pending] = []
        self._state: ListState[Any]
        self._hooks: CheckpointHooks
        self._is_owned = True

    def validate(self) -> None:
        self._sink.validate()

    def validate_checkpointing(self, interval_ms: int | None, timeout_ms: int) -> None:
        self._sink.validate_checkpointing(interval_ms, timeout_ms)

    def restore(self, snapshot: OperatorSnapshot, owned: bool) -> None:
        self._is_owned = owned
        super().restore(snapshot, owned)

    def declare_states(self) -> None:
        self._state = self.context.operator_state.get_list_state(ListStateDescriptor(self.STATE_NAME, None))

    def open(self) -> None:
        self.declare_states()
        try:
            self._committer = self._sink.create_committer()
            if self._committer is not None:
                self._committer.open(self.context)
                self._recover(self._committer)
            self._writer = self._sink.create_writer()
            self._hooks = CheckpointHooks(self._writer.checkpointed())
            self._hooks.initialize(self.context, None)
            self._writer.open(self.context)
        except Exception as error:
            raise self.user_error("opening the sink", error) from error

    def _recover(self, committer: Committer) -> None:
        items = list(self._state.get())
        # What a completed checkpoint holds may or may not have been committed before the failure.
        self._commit([item for item in items if isinstance(item, _Pending)])
        begun = [name for item in items if isinstance(item, _Begun) for name in item.names]
        # Another job's checkpoint may be a savepoint: that job may still be writing what it had begun.
        if begun and self._is_owned:
            committer.recover_and_abort(begun)

    def is_ready(self) -> bool:
        return self._writer is None or self._writer.is_ready()

    @property
    def _open_writer(self) -> SinkWriter:
        assert self._writer is not None, "a task opens its sink before it writes to it"
        return self._writer

    def process_batch(self, batch: Batch, input_index: int) -> None:
        try:
            self._open_writer.write_elements(batch)
        except Exception as error:
            raise self.user_error("writing to the sink", error) from error

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        committables = self._prepare_commit()
        if committables:
            self._pending.append(_Pending(barrier.checkpoint_id, committables))

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        unconfirmed = self._committer.unconfirmed() if self._committer is not None else []
        earlier = [_Pending(CheckpointId(0), unconfirmed)] if unconfirmed else []
        begun = self._writer.begun() if self._writer is not None else []
        self._state.update([*earlier, *self._pending, *([_Begun(begun)] if begun else [])])
        try:
            self._hooks.snapshot(barrier)
        except Exception as error:
            raise self.user_error("snapshotting the sink", error) from error
        return super().snapshot_state(barrier)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        # Subsuming contract: a completed checkpoint also covers every earlier one, notified or not.
        ready = [pending for pending in self._pending if pending.checkpoint_id <= checkpoint_id]
        try:
            self._commit(ready)
            if self._committer is not None:
                self._committer.notify_checkpoint_complete(checkpoint_id)
            self._hooks.complete(checkpoint_id)
        except Exception as error:
            raise self.user_error(f"committing checkpoint {checkpoint_id}", error) from error
        self._pending = self._pending[len(ready) :]

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        try:
            self._hooks.aborted(checkpoint_id)
        except Exception as error:
            raise self.user_error(f"telling the sink of checkpoint {checkpoint_id}", error) from error

    def finish(self) -> None:
        try:
            self._open_writer.end_input()
        except Exception as error:
            raise self.user_error("ending the input of the sink", error) from error
        if not self.context.is_checkpointing:
            committables = self._prepare_commit()
            try:
                self._commit([_Pending(CheckpointId(0), committables)])
            except Exception as error:
                raise self.user_error("committing at the end of input", error) from error

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        try:
            try:
                if writer is not None:
                    writer.close()
            finally:
                if committer is not None:
                    committer.close()
        except Exception as error:
            raise self.user_error("closing the sink", error) from error
        finally:
            super().close()

    def _prepare_commit(self) -> list[Any]:
        try:
            return self._open_writer.prepare_commit()
        except Exception as error:
            raise self.user_error("preparing the sink's commit", error) from error

    def _commit(self, ready: list[_Pending]) -> None:
        """Commit what some checkpoints hold, oldest first; before there is a writer, this is recovery."""
        filled = [pending.committables for pending in ready if pending.committables]
        if not filled or self._committer is None:
            return
        commit = self._committer.recover_and_commit if self._writer is None else self._committer.commit
        failpoints.reach("commit_before")
        for committables in filled:
            commit(committables)
            failpoints.reach("commit_mid")
        failpoints.reach("commit_after")


class SinkFunctionOperator(FunctionOperator):
    """Calls a `SinkFunction` once per record: at least once."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "invoke")
        self._takes_context = isinstance(function, SinkFunction) and _takes_two(function.invoke)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if not self._takes_context:
            self.apply(batch.rows(), _invoke_all)
            return
        context = _SinkContext(self, batch.timestamps)

        def invoke_each(call: Any, values: Any) -> list[Any]:
            for context.position, value in enumerate(values):
                call(value, context)
            return []

        self.apply(batch.rows(), invoke_each)


class _SinkContext(SinkFunction.Context):
    """The record at `position` of a batch."""

    def __init__(self, operator: SinkFunctionOperator, timestamps: Sequence[int] | None) -> None:
        self._operator = operator
        self._timestamps = timestamps
        self.position = 0

    def timestamp(self) -> int | None:
        return None if self._timestamps is None else self._timestamps[self.position]

    def current_watermark(self) -> int:
        return self._operator.current_watermark_ms

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time.now_ms()


def _takes_two(method: Callable[..., Any]) -> bool:
    """Whether a bound method can be called with two arguments."""
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return False
    return True


def _invoke_all(call: Any, values: Any) -> list[Any]:
    for value in values:
        call(value)
    return []
