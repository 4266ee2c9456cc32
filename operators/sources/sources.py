"""Sources: splits with positions, readers that are polled, and the operator around them.

The shape is Flink's FLIP-27: a source is divided into splits, each read from a position that is kept
in a checkpoint, so that a restored reader goes on exactly where the snapshot was taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ...common import failpoints
from ...common.errors import (
    ConfigurationError,
    KeyTypeError,
    OutputTypeError,
    SerializationError,
    TidegateError,
    UserCodeError,
)
from ...common.output_tag import OutputTag
from ...common.watermark_strategy import WatermarkStrategy
from ...protocol.elements import MAX_WATERMARK_MS, Batch, CheckpointBarrier
from ...protocol.ids import CheckpointId
from ...protocol.source_events import (
    CoordinatorEvent,
    NoMoreSplits,
    ReaderStarted,
    SplitRequested,
    SplitsAssigned,
    WatermarkLimit,
)
from ...protocol.stages.epoch_messages import FromLeader
from ...state.descriptors import ListStateDescriptor
from ...state.kinds import ListState
from ..base import FrozenOperator, OperatorContext, StreamOperator
from ..checkpointed import CheckpointHooks
from ..event_time import EventTime
from ..output import Emit
from .enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from .source_alignment import SourceAlignment
from .split_event_time import SplitEventTime

_OF_RECORDS = (UserCodeError, OutputTypeError, KeyTypeError, SerializationError)
"""Errors that a record causes in an operator that is chained to its source."""


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

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """The snapshot that is taken next belongs to this checkpoint."""

    def split_ids(self) -> frozenset[str] | None:
        """The splits that it reads now, if watermarks are to be made from each of them: then every batch of
        `poll` comes from one of them. The same object as long as they stay the same.

        `None` if it does not tell its splits apart: then watermarks are made from all records together.
        """
        return None

    def polled_split(self) -> str:
        """The split that the batch of the last `poll` came from; asked only where there are `split_ids`."""
        raise NotImplementedError(f"{type(self).__name__} has split_ids(), but no polled_split()")

    def take_side_outputs(self) -> Sequence[tuple[OutputTag, Batch]]:
        """What the last `poll` found for side outputs; asked once after each."""
        return ()

    def polled_place(self, index: int | None) -> str | None:
        """Where the records of the last `poll` came from, for the error when one of them cannot be processed.

        Called at most once, after the failure, so it may read again.

        Args:
            index: Of the record in the batch; `None` if the batch as a whole is meant.

        Returns:
            A file and an offset, for example; `None` if the reader does not know.
        """
        return None

    def add_splits(self, splits: list[Any]) -> None:
        """Read these too. Only a source with an enumerator calls it."""
        raise NotImplementedError(f"{type(self).__name__} has no add_splits(), which an enumerator needs")

    def handle_source_event(self, source_event: Any) -> None:
        """The enumerator sent something by `send_event_to_source_reader`."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_source_event()")

    def close(self) -> None:
        """Release everything; called once, also after a failure."""


class Source(ABC):
    """Describes where records come from. Picklable; it travels from the driver to the tasks.

    It either knows its splits when the job starts (`create_splits`), or has an enumerator that finds them
    while the job runs and gives them to the readers (`create_enumerator` and `restore_enumerator`).
    """

    def get_boundedness(self) -> Boundedness:
        """Whether the records end by themselves."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_splits(self, parallelism: int) -> list[Any]:
        """All splits at their start, the same list in every process and on every run.

        Subtask `i` of `n` begins with every `n`-th of them, from the `i`-th on.
        """
        raise NotImplementedError

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        """What finds the splits, when the job starts without state. Called in the coordinator."""
        raise NotImplementedError

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """The enumerator as it was when `checkpoint` was what its `snapshot_state` returned."""
        raise NotImplementedError

    def check_methods(self) -> None:
        """Raise `ConfigurationError` unless the class has the methods that one of the two ways needs."""
        kind, name = type(self), type(self).__name__
        if self.is_enumerated:
            if kind.restore_enumerator is Source.restore_enumerator:
                raise ConfigurationError(
                    f"{name} has create_enumerator() but no restore_enumerator(), which every restart needs"
                )
        elif kind.create_splits is Source.create_splits:
            raise ConfigurationError(
                f"{name} has neither create_splits() nor create_enumerator(); write one of them"
            )

    @property
    def is_enumerated(self) -> bool:
        """Whether an enumerator finds the splits, rather than `create_splits`."""
        return type(self).create_enumerator is not Source.create_enumerator

    @abstractmethod
    def create_reader(self, splits: list[Any]) -> SourceReader:
        """A reader for some splits, as created or as a reader's `snapshot_state` returned them.

        With an enumerator there are none at first.
        """

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

    def __init__(self, source: Source, watermark_strategy: WatermarkStrategy | None = None) -> None:
        self._source = source
        self._strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
        self._alignment: SourceAlignment | None = None
        self._reader: SourceReader | None = None
        self._has_asked = False
        self._no_more_splits = False
        self._event_times: SplitEventTime | None = None
        self._known_splits: frozenset[str] | None = None
        self._pass_on: Emit
        self._splits: ListState[Any]
        self._hooks: CheckpointHooks

    @property
    def source(self) -> Source:
        """Where the records come from."""
        return self._source

    def validate(self) -> None:
        self._source.validate()

    def declare_states(self) -> None:
        self._splits = self.context.operator_state.get_list_state(ListStateDescriptor(self.STATE_NAME, None))

    def open(self) -> None:
        self.declare_states()
        context = self.context
        try:
            restored = list(self._splits.get()) if context.is_restored else None
            self._reader = self._source.create_reader(self._first_splits(restored))
            self._hooks = CheckpointHooks(self._reader)
            self._reader.open(context)
        except Exception as error:
            raise self.user_error("opening the source", error) from error
        if self._source.is_enumerated:
            context.send_to_coordinator(ReaderStarted(tuple(restored or ())))
        self._begin_event_time()

    def _begin_event_time(self) -> None:
        self._pass_on = self.emit
        if self._strategy == WatermarkStrategy.no_watermarks():
            return
        reader = self._open_reader
        tells_apart = reader.split_ids() is not None
        event_time = (SplitEventTime if tells_apart else EventTime)(
            self._strategy,
            self.context,
            self.emit,
            self.process_watermark,
            self.process_status,
            self.user_error,
        )
        event_time.start()
        if isinstance(event_time, SplitEventTime):
            self._event_times = event_time
            self._pass_on = lambda batch: event_time.process(batch, reader.polled_split())
            self._follow_splits()
        else:
            self._pass_on = event_time.process
        if self._strategy.alignment is not None:
            self._alignment = SourceAlignment(self._strategy.alignment, self.context, event_time)
            self._alignment.start()

    @property
    def _open_reader(self) -> SourceReader:
        assert self._reader is not None, "a task opens its source before it reads it"
        return self._reader

    def _follow_splits(self) -> None:
        """Await watermarks of the splits that the reader has now, and of no others."""
        if self._event_times is None or self._reader is None:
            return
        now = self._reader.split_ids()
        if now is not self._known_splits and now is not None:
            self._known_splits = now
            self._event_times.set_splits(now)

    def advance_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_WATERMARK_MS and self._alignment is not None:
            self._alignment.end()

    def _first_splits(self, restored: list[Any] | None) -> list[Any]:
        if self._source.is_enumerated:
            # What is restored goes back to the enumerator, which shares it out among the readers of now.
            return []
        if restored is not None:
            return restored
        every = self._source.create_splits(self.context.parallelism)
        return every[self.context.subtask_index :: self.context.parallelism]

    def poll(self, max_records: int) -> bool:
        if self._alignment is not None and self._alignment.must_wait():
            return False
        reader = self._open_reader
        try:
            batch = reader.poll(max_records)
        except Exception as error:
            raise self.user_error("reading the source", error) from error
        for tag, aside in reader.take_side_outputs():
            self.output.emit_side(tag.tag_id, aside)
        if batch is None:
            self._follow_splits()
            return self._nothing_left()
        if len(batch):
            failpoints.reach("process")
            try:
                self._pass_on(batch)
            except _OF_RECORDS as error:
                raise self._placed(error, batch).with_traceback(error.__traceback__) from error.__cause__
        # Behind the batch: a split may have ended with it.
        self._follow_splits()
        return len(batch) > 0

    def _placed(self, error: TidegateError, batch: Batch) -> TidegateError:
        """The error of a chained operator, with the place that the record came from."""
        index = _index_of(getattr(error, "record", None), batch)
        place = self._open_reader.polled_place(index)
        if place is None:
            return error
        # Without the record itself, the cause may also be a timer that a watermark of the batch has fired.
        origin = "the record was read from" if index is not None else "raised while processing"
        return type(error)(f"{error}; {origin} {place}")

    def _nothing_left(self) -> bool:
        if not self._source.is_enumerated or self._no_more_splits:
            raise EndOfSource
        if not self._has_asked:
            self._has_asked = True
            self.context.send_to_coordinator(SplitRequested())
        return False

    def handle_coordinator_event(self, event: CoordinatorEvent | FromLeader) -> None:
        assert not isinstance(event, FromLeader), "only stages have epochs"
        if isinstance(event, NoMoreSplits):
            self._no_more_splits = True
            return
        if isinstance(event, WatermarkLimit):
            assert self._alignment is not None
            self._alignment.set_limit(event.limit_ms)
            return
        try:
            if isinstance(event, SplitsAssigned):
                self._has_asked = False
                self._open_reader.add_splits(list(event.splits))
                self._follow_splits()
            else:
                self._open_reader.handle_source_event(event.event)
        except Exception as error:
            raise self.user_error("telling the reader of its enumerator", error) from error

    def stop(self) -> bool:
        return True

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        reader = self._open_reader
        try:
            reader.prepare_snapshot(barrier.checkpoint_id)
            self._splits.update(reader.snapshot_state())
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


def _index_of(record: object, batch: Batch) -> int | None:
    """Which record of a batch it is; `None` if it is none of them, or may be several."""
    if record is None:
        return None
    found = [index for index, value in enumerate(batch.rows()) if value is record]
    return found[0] if len(found) == 1 else None


class EndOfSource(Exception):
    """All splits of a reader are exhausted. Control flow between operator and task only."""
